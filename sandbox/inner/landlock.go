package inner

import (
	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// The versions of Landlock's interface that bring something: files may move between folders, TCP is looked at.
const (
	landlockFiles = 2
	landlockTCP   = 4
)

// Lacks lists what this kernel lacks of Landlock, for people.
func Lacks() []string {
	version, err := ll.LandlockGetABIVersion()
	switch {
	case err != nil || version < landlockFiles:
		return []string{"Landlock: the sandbox's folders and empty network are all that holds a process"}
	case version < landlockTCP:
		return []string{"Landlock for TCP: the empty network is all that holds a process"}
	}
	return nil
}

// restrict is a second wall behind the folders and the network of the sandbox, as far as the kernel has it: what is not below
// this root cannot be opened by any way, only temporary folders and a build's own can be written to, and a program without a
// network has no TCP at all.
func restrict(dir string, writable, network bool) error {
	folders := []string{"/tmp", "/dev/shm", "/dev/pts"}
	if writable {
		folders = append(folders, dir)
	}
	rules := []landlock.Rule{
		landlock.RODirs("/"),
		landlock.RWDirs(folders...).WithRefer().WithIoctlDev().IgnoreIfMissing(),
		landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom").WithIoctlDev().IgnoreIfMissing(),
	}
	config := landlock.V6.BestEffort()
	if writable || network {
		return config.RestrictPaths(rules...)
	}
	return config.Restrict(rules...)
}
