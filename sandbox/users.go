package sandbox

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"

	"landfall.dev/landfall/sandbox/inner"
)

// users are numbers of the host's users, of which each sandbox gets one. What the kernel counts for a user (watches of files, pages in
// pipes, descriptors under way, signals that wait) is then counted for each sandbox, and none takes it from another. nil: none may be
// used, and all sandboxes have the same user.
type users struct {
	first, count int

	mutex sync.Mutex
	next  int
	taken map[int]struct{}
}

// buildUsers is how many users at the beginning of the range are for builds. They get the first that is free, so that a build that writes
// down who made its files comes out the same.
const buildUsers = 1000

// findUsers returns a range of users that nobody else has. Programs begin anywhere in it: another server on this machine does so, too.
// The first range is one that systems give to nobody, of numbers that every archive can hold; the second one is for containers that
// have few numbers, and nobody else in them.
func findUsers() *users {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, u := range []*users{{first: 2_000_000, count: 97_152}, {first: 32_768, count: 24_576}} {
		if mapped("/proc/self/uid_map", u) && mapped("/proc/self/gid_map", u) {
			u.next, u.taken = rand.IntN(u.count-buildUsers), map[int]struct{}{}
			return u
		}
	}
	return nil
}

// mapped reports whether the numbers of a range are known in this process's user namespace.
func mapped(file string, u *users) bool {
	data, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		var first, outside, count int
		if _, err := fmt.Sscan(line, &first, &outside, &count); err == nil && first <= u.first && u.first+u.count <= first+count {
			return true
		}
	}
	return false
}

// take returns a user that no sandbox has now, and the one that all have when there is none. Programs get one that has been nobody's
// for long.
func (u *users) take(program bool) int {
	if u == nil {
		return inner.Nobody
	}
	u.mutex.Lock()
	defer u.mutex.Unlock()
	for i := range u.count - buildUsers {
		user := u.first + i
		if program {
			user = u.first + buildUsers + u.next
			u.next = (u.next + 1) % (u.count - buildUsers)
		}
		if _, taken := u.taken[user]; !taken {
			u.taken[user] = struct{}{}
			return user
		}
	}
	return inner.Nobody
}

// free gives back a user of whom nothing is left.
func (u *users) free(user int) {
	if u == nil {
		return
	}
	u.mutex.Lock()
	defer u.mutex.Unlock()
	delete(u.taken, user)
}
