package sandbox

import (
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"landfall.dev/landfall/sandbox/inner"
)

// WatchOnly returns the sandbox as it is where no control groups can be made.
func WatchOnly(s *Sandbox) *Sandbox {
	watched := *s
	watched.groups = groups{why: "a test"}
	return &watched
}

// HasGroups reports whether both limits are held by control groups.
func HasGroups(s *Sandbox) bool { return s.groups.memory != "" && s.groups.processes != "" }

// GroupFolders returns where control groups are made.
func GroupFolders(s *Sandbox) []string { return s.groups.folders() }

// WithInit returns the sandbox with another program as process 1.
func WithInit(s *Sandbox, path string) *Sandbox {
	other := *s
	if path != "" {
		other.init = path
	}
	return &other
}

// OwnName begins the names of what this process leaves outside of its data.
func OwnName() string { return instancePrefix() }

// InitAt is where a confined command sees this binary.
const InitAt = inner.At

// WithoutAlone returns the sandbox as it is where bubblewrap starts programs, too.
func WithoutAlone(s *Sandbox) *Sandbox {
	other := *s
	other.direct = false
	return &other
}

// WithoutLandlock returns the sandbox as it is where bubblewrap starts programs, and the kernel has no second wall.
func WithoutLandlock(s *Sandbox) *Sandbox {
	other := *WithoutAlone(s)
	other.walled = false
	return &other
}

// IsAlone reports whether programs are started without bubblewrap.
func IsAlone(s *Sandbox) bool { return s.direct }

// StartSpare is Start with one from the reserve, for which it waits.
func StartSpare(s *Sandbox, p Program) (*Process, error) {
	s.reserve.fill()
	for {
		spare := <-s.reserve.ready
		heard, err := spare.tell(Command{Dir: p.Dir, Env: p.Env, Limits: p.Limits.withDefaults()}, p.Args)
		if heard || err != nil {
			return spare.process, err
		}
		spare.process.Close()
	}
}

// ReserveFor is Reserve for so long after the last start.
func ReserveFor(s *Sandbox, count int, rest time.Duration) (release func()) {
	return s.reserveFor(count, rest)
}

// Group is a group of version 2 as one is made in a folder.
type Group struct{ group }

// NewGroup makes one, and returns its folder.
func NewGroup(parent string) (g Group, folder string) {
	made := groups{memory: parent, processes: parent, cpu: parent, whole: true}.makeUnlimited(true)
	return Group{made}, made.memory
}

// MemoryGroup makes a group for memory as this sandbox does, whatever the version; ok is false where none can be made.
func MemoryGroup(s *Sandbox) (g Group, ok bool) {
	made := groups{memory: s.groups.memory, whole: s.groups.whole}.makeUnlimited(false)
	return Group{made}, made.memory != ""
}

// Limit sets the limits.
func (g Group) Limit(l Limits) error { return g.limit(l) }

// Start starts a process in it.
func (g Group) Start(cmd *exec.Cmd) (err error) {
	<-onThread(func() { err = g.start(cmd) })
	return err
}

// Kill ends all that is in it.
func (g Group) Kill() { g.kill() }

// Remove removes it.
func (g Group) Remove() { g.remove() }

// Init returns the program that becomes process 1.
func Init(s *Sandbox) string { return s.init }

// HasUsers reports whether each sandbox has a user of its own.
func HasUsers(s *Sandbox) bool { return s.users != nil }

// WithoutUsers returns the sandbox as it is where no users of its own can be had.
func WithoutUsers(s *Sandbox) *Sandbox {
	other := *s
	other.users = nil
	return &other
}

// WithoutNames returns a text with the number of the user that all sandboxes have where none has its own, in the place
// of those.
func WithoutNames(s *Sandbox, text string) string {
	return regexp.MustCompile(`\d+`).ReplaceAllStringFunc(text, func(number string) string {
		n, err := strconv.Atoi(number)
		if err == nil && s.users != nil && n >= s.users.first && n < s.users.first+s.users.count {
			return strconv.Itoa(inner.Nobody)
		}
		return number
	})
}

// MakeRoom moves the processes of a group of version 2 into one below it.
func MakeRoom(folder string, whole bool) error { return moveProcesses(folder, whole) }

// TemporaryBytes returns what is counted in the memory folders of a process.
func TemporaryBytes(pid int) int64 { return temporaryBytes(pid) }
