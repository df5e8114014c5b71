package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// cgroups is where systems mount control groups.
const cgroups = "/sys/fs/cgroup"

// groups are the folders in which this process can make control groups. Each may be empty: then the watch enforces the
// limit, but nothing limits the processor.
type groups struct {
	memory, processes, cpu string

	whole bool     // one group of version 2 does everything
	homes []string // the groups of version 1 in which this process is
	swaps bool     // this machine has swap, which cannot be limited
	why   string   // why there are none for memory or for processes; empty: there are both
}

// group are the control groups of one command.
type group groups

// findGroups returns the folders nearest to this process's own group, so that limits of the server also apply to its
// commands.
func findGroups(ctx context.Context) groups {
	found := findIn(ctx, ownGroups())
	if found.memory == "" || found.processes == "" {
		found.why = whyNone()
	}
	found.swaps = found.memory != "" && hasSwap() && !found.limitsSwap()
	return found
}

func findIn(ctx context.Context, own map[string]string) groups {
	if data, err := os.ReadFile(filepath.Join(cgroups, "cgroup.controllers")); err == nil &&
		bytes.Contains(data, []byte("memory")) {
		folders := ancestors(cgroups, own[""])
		for _, folder := range folders {
			if g, ok := delegate(ctx, folder); ok {
				return g
			}
		}
		if moveProcesses(folders[0], folders[0] == cgroups) == nil {
			g, _ := delegate(ctx, folders[0])
			return g
		}
		return groups{}
	}
	var found groups
	for _, controller := range []string{"memory", "pids", "cpu"} {
		found.homes = append(found.homes, filepath.Join(cgroups, controller, own[controller]))
	}
	first := func(controller string, in func(folder string) groups) string {
		for _, folder := range ancestors(filepath.Join(cgroups, controller), own[controller]) {
			if in(folder).canCreate(ctx) {
				return folder
			}
		}
		return ""
	}
	found.memory = first("memory", func(folder string) groups { return groups{memory: folder, homes: found.homes} })
	found.processes = first("pids", func(folder string) groups { return groups{processes: folder, homes: found.homes} })
	found.cpu = first("cpu", func(folder string) groups { return groups{cpu: folder, homes: found.homes} })
	return found
}

// delegate enables controllers in the groups below one of version 2, and reports whether working groups can be made
// there. The kernel only does that for a group without processes.
func delegate(ctx context.Context, folder string) (groups, bool) {
	_ = setting{"cgroup.subtree_control", "+memory +pids"}.write(folder)
	_ = setting{"cgroup.subtree_control", "+cpu"}.write(folder)
	for _, cpu := range []string{folder, ""} {
		if g := (groups{memory: folder, processes: folder, cpu: cpu, whole: true}); g.canCreate(ctx) {
			return g, true
		}
	}
	return groups{}, false
}

// moveProcesses moves the processes of a group of version 2 into one below it, so that others can be made beside that.
// All of them must be this process and its descendants, unless the group belongs to a container as a whole.
func moveProcesses(folder string, whole bool) error {
	data, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
	if err != nil {
		return err
	}
	ours := map[int]bool{}
	for _, p := range descendants(os.Getpid()) {
		ours[p.pid] = true
	}
	members := strings.Fields(string(data))
	for _, member := range members {
		if pid, err := strconv.Atoi(member); err != nil || pid == 0 || (!whole && !ours[pid]) {
			return errors.New("there are others in the group")
		}
	}
	const mode = 0o755
	room := filepath.Join(folder, "server")
	if err := os.Mkdir(room, mode); err != nil && !os.IsExist(err) {
		return err
	}
	for _, member := range members {
		err := setting{"cgroup.procs", member}.write(room)
		if err != nil && !errors.Is(err, unix.ESRCH) { // the process has ended
			return err
		}
	}
	return nil
}

// whyNone says why control groups cannot be made, for people.
func whyNone() string {
	var info unix.Statfs_t
	switch err := unix.Statfs(cgroups, &info); {
	case err != nil:
		return cgroups + " is not there"
	case info.Flags&unix.ST_RDONLY != 0:
		return cgroups +
			" can only be read; a container gets one to write to, for its root, with --security-opt unmask=/sys/fs/cgroup of " +
			"Podman or --privileged of Docker"
	case os.Geteuid() != 0:
		return "the server's user may make none; a unit of systemd gets them with Delegate=yes"
	}
	return "none that works can be made below " + cgroups
}

// hasSwap reports whether this machine has swap.
func hasSwap() bool {
	data, _ := os.ReadFile("/proc/swaps") // the first line is a header
	return bytes.Count(data, []byte{'\n'}) > 1
}

// limitsSwap reports whether swap can be limited, too.
func (g groups) limitsSwap() bool {
	made := groups{memory: g.memory}.makeUnlimited(false)
	defer made.remove()
	return slices.ContainsFunc([]string{"memory.swap.max", "memory.memsw.limit_in_bytes"}, func(name string) bool {
		_, err := os.Stat(filepath.Join(made.memory, name))
		return err == nil
	})
}

// ownGroups returns this process's groups by controller; the one of version 2 has the name "".
func ownGroups() map[string]string {
	own := map[string]string{}
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return own
	}
	for line := range strings.Lines(string(data)) {
		const parts = 3 // number, controllers, path
		if fields := strings.SplitN(strings.TrimSpace(line), ":", parts); len(fields) == parts {
			for controller := range strings.SplitSeq(fields[1], ",") {
				own[controller] = fields[2]
			}
		}
	}
	return own
}

// ancestors returns a group's folder below the mount, and its parents.
func ancestors(mount, own string) []string {
	var folders []string
	for folder := filepath.Join(mount, own); ; folder = filepath.Dir(folder) {
		folders = append(folders, folder)
		if folder == mount || !strings.HasPrefix(folder, mount) {
			return folders
		}
	}
}

// canCreate reports whether a group can be made there and a process can enter it.
func (g groups) canCreate(ctx context.Context) bool {
	made := g.make(Limits{CPU: 1000}.withDefaults())
	defer made.remove()
	if len(made.folders()) != len(g.folders()) || (g.cpu != "" && made.cpu == "") {
		return false
	}
	var err error
	<-onThread(func() {
		cmd := exec.CommandContext(ctx, "/bin/true")
		err = made.start(cmd)
		made.leave()
		if err == nil {
			err = cmd.Wait()
		}
	})
	return err == nil
}

// folders returns the different folders.
func (g groups) folders() []string {
	all := slices.DeleteFunc([]string{g.memory, g.processes, g.cpu}, func(s string) bool { return s == "" })
	return slices.Compact(all)
}

// make makes the groups of one command, with its limits; none when a limit cannot be set.
func (g groups) make(l Limits) group {
	made := g.makeUnlimited(l.CPU > 0)
	if made.limit(l) != nil {
		made.remove()
		return group{}
	}
	return made
}

// makeUnlimited makes the groups of one command. It leaves out those that cannot be made.
func (g groups) makeUnlimited(cpu bool) group {
	name := instancePrefix() + "-" + uuid.NewString()
	folder := func(parent string) string {
		const mode = 0o755
		if parent == "" {
			return ""
		}
		path := filepath.Join(parent, name)
		if err := os.Mkdir(path, mode); err != nil && !os.IsExist(err) {
			return ""
		}
		return path
	}
	made := group{whole: g.whole, homes: g.homes, memory: folder(g.memory), processes: folder(g.processes)}
	if cpu {
		made.cpu = folder(g.cpu)
	}
	return made
}

// limit sets the limits. Each has a file in version 2, and another one in version 1.
func (g group) limit(l Limits) error {
	const period = 100_000 // microseconds: the kernel's default
	memory, quota := strconv.FormatInt(l.Memory, 10), strconv.Itoa(l.CPU*(period/1000))
	var errs []error
	if g.memory != "" {
		errs = append(errs, anyOf(g.memory, setting{"memory.max", memory}, setting{"memory.limit_in_bytes", memory}))
		// Where swap is not counted, this file may not exist.
		_ = anyOf(g.memory, setting{"memory.swap.max", "0"}, setting{"memory.memsw.limit_in_bytes", memory})
		if !g.whole { // version 1 counts TCP separately
			_ = anyOf(g.memory, setting{"memory.kmem.tcp.limit_in_bytes", memory})
		}
	}
	if g.processes != "" {
		errs = append(errs, anyOf(g.processes, setting{"pids.max", strconv.Itoa(l.Processes)}))
	}
	if g.cpu != "" && l.CPU != 0 {
		errs = append(errs, anyOf(g.cpu, setting{"cpu.max", quota + " " + strconv.Itoa(period)},
			setting{"cpu.cfs_quota_us", quota}))
	}
	return errors.Join(errs...)
}

// anyOf writes the first setting that the group knows; when it knows none, the error has the result of each.
func anyOf(folder string, settings ...setting) error {
	var errs []error
	for _, s := range settings {
		err := s.write(folder)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// setting is a file of a control group and its new content.
type setting struct{ file, value string }

// write writes the setting. When a signal interrupts the kernel, it tries again.
func (s setting) write(folder string) error {
	path := folder + "/" + s.file
	// package os would try to wait for it
	fd, err := retryInterrupted(func() (int, error) { return unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	_, err = retryInterrupted(func() (int, error) { return unix.Write(fd, []byte(s.value)) })
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// retryInterrupted repeats a system call as long as signals interrupt it.
func retryInterrupted(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func (g group) folders() []string { return groups(g).folders() }

// start starts a process in the groups. The goroutine must be on a thread of its own (see onThread).
//
// The kernel makes a process directly in a group of version 2. For groups of version 1, the thread that starts the
// process enters them, and leaves later; moving the process would take the kernel ten milliseconds when no process was
// moved shortly before.
func (g group) start(cmd *exec.Cmd) error {
	if g.whole && g.memory != "" {
		folder, err := os.Open(g.memory)
		if err != nil {
			return err
		}
		defer folder.Close()
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(folder.Fd()) // #nosec G115 -- a descriptor
		return cmd.Start()
	}
	folders := g.folders()
	if len(folders) == 0 {
		return cmd.Start()
	}
	for _, folder := range folders {
		if err := thisThread().write(folder); err != nil {
			return err
		}
	}
	return cmd.Start()
}

// leave takes the thread that started a process out of the groups. When that fails, the thread stays there until it
// ends, which is when the process has ended.
func (g group) leave() {
	for _, home := range g.homes {
		_ = thisThread().write(home)
	}
}

// thisThread returns the setting that moves the thread which writes it.
func thisThread() setting { return setting{"tasks", "0"} }

// onThread calls a function on a thread that runs nothing else, and is not the process's first, because the kernel
// treats that one as the process. The thread ends with the function, when the channel is closed.
func onThread(do func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
		if unix.Gettid() == os.Getpid() {
			<-onThread(do)
			return
		}
		do()
	}()
	return done
}

// kill ends all processes in the groups, and waits until they are empty.
func (g group) kill() {
	const tries = 2000
	for _, folder := range g.folders() {
		_ = setting{"cgroup.kill", "1"}.write(folder) // ends all of them at once, if there is such a file
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tries {
		var members int
		for _, folder := range g.folders() {
			data, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
			for field := range strings.FieldsSeq(string(data)) {
				if pid, err := strconv.Atoi(field); err == nil && pid > 0 && pid != os.Getpid() {
					members++
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
		}
		if members == 0 {
			return
		}
		<-tick.C
	}
}

// remove removes the groups, which must be empty.
func (g group) remove() {
	const tries = 1000
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for _, folder := range g.folders() {
		for range tries { // the kernel removes dead processes a moment later
			if err := os.Remove(folder); err == nil || os.IsNotExist(err) {
				break
			}
			<-tick.C
		}
	}
}

// outOfMemory reports whether the kernel ended a process for its memory.
func (g group) outOfMemory() bool {
	return g.memory != "" && (counterAboveZero(g.memory, "memory.events", "oom_kill ") ||
		counterAboveZero(g.memory, "memory.oom_control", "oom_kill "))
}

// outOfProcesses reports whether the kernel refused to start a process.
func (g group) outOfProcesses() bool {
	return g.processes != "" && counterAboveZero(g.processes, "pids.events", "max ")
}

// counterAboveZero reports whether a file of counters has one above zero.
func counterAboveZero(folder, file, counter string) bool {
	data, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), counter); ok {
			return n != "0"
		}
	}
	return false
}

const ownPrefix = "landfall-"

// instancePrefix is the beginning of the names of everything that this process makes outside its data, so that
// leftovers of a killed server can be recognised. It contains the time at which the process started, because numbers of
// processes are used again, and the namespace of its number, because a container beside this one may see the same
// folders.
func instancePrefix() string {
	own, _ := readStat(os.Getpid())
	return fmt.Sprintf("%s%d-%d-%d", ownPrefix, own.pid, own.started, pidNamespace())
}

// pidNamespace returns the namespace in which this process sees the numbers of others.
func pidNamespace() uint64 {
	var info unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &info) != nil {
		return 0
	}
	return info.Ino
}

// sweep removes from a folder what dead servers left, with the processes in it.
func sweep(folder string) {
	found, _ := filepath.Glob(filepath.Join(folder, ownPrefix+"*-*-*-*"))
	for _, path := range found {
		const parts = 3
		var pid, started int
		var numbers uint64
		name := strings.TrimPrefix(filepath.Base(path), ownPrefix)
		if n, err := fmt.Sscanf(name, "%d-%d-%d-", &pid, &started, &numbers); n != parts || err != nil ||
			numbers != pidNamespace() {
			continue
		}
		if owner, ok := readStat(pid); ok && owner.started == started {
			continue
		}
		// a link, which anybody can make where everybody may write
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			continue
		}
		if strings.HasPrefix(path, cgroups) {
			for _, folder := range nestedFolders(path) {
				left := group{memory: folder}
				left.kill()
				left.remove()
			}
			continue
		}
		_ = openFolders(path)
		os.RemoveAll(path)
	}
}

// nestedFolders returns a folder and those in it, the deepest first, because a server that ran in a group may have made
// groups there.
func nestedFolders(folder string) []string {
	var all []string
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			all = append(all, path)
		}
		return nil // a folder that disappears meanwhile needs nothing
	})
	slices.Reverse(all)
	return all
}
