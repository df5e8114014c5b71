package sandbox

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"

	"landfall.dev/landfall/sandbox/inner"
)

// users is a range of the host's user numbers, from which each sandbox gets one. What the kernel counts for a user
// (watches of files, pages in pipes, descriptors that are being sent, waiting signals) is then counted for each
// sandbox, and no sandbox takes it from another. nil: there is no range, and all sandboxes have the same user.
type users struct {
	first, count int

	mutex sync.Mutex
	next  int
	taken map[int]struct{}
}

// buildUsers is how many users at the beginning of the range are for builds. A build gets the first free one, so that a
// build which records the owner of its files always gives the same result.
const buildUsers = 1000

// findUsers returns a range of users that nobody else has. Programs begin at a random place in it, because another
// server on this machine uses it, too. The first range is one that systems give to nobody, with numbers that every
// archive can hold; the second one is for containers that have few numbers, and where nobody else uses them.
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

// mapped reports whether this process's user namespace has the numbers of a range.
func mapped(file string, u *users) bool {
	data, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		var first, outside, count int
		if _, err := fmt.Sscan(line, &first, &outside, &count); err == nil && first <= u.first &&
			u.first+u.count <= first+count {
			return true
		}
	}
	return false
}

// take returns a user that no sandbox has now, or the common one when there is none. A program gets one that was unused
// for a long time.
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

// free gives back a user without processes.
func (u *users) free(user int) {
	if u == nil {
		return
	}
	u.mutex.Lock()
	defer u.mutex.Unlock()
	delete(u.taken, user)
}
