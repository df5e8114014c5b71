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

// cgroups is where systems mount their control groups.
const cgroups = "/sys/fs/cgroup"

// groups are the folders in which this process can make control groups. Each may be empty: then the watch holds the limit, but
// nothing limits the processor.
type groups struct {
	memory, processes, cpu string

	whole bool     // all are one group of version 2
	homes []string // of version 1, the groups that this process is in
	swaps bool     // this machine has swap, and no limit of it can be set
	why   string   // why there is none for memory or none for processes; empty: there are both
}

// group are the control groups of one command.
type group groups

// findGroups returns the folders nearest to this process's own group, so that what holds the server holds its commands.
func findGroups(ctx context.Context) groups {
	found := findIn(ctx, ownGroups())
	if found.memory == "" || found.processes == "" {
		found.why = whyNone()
	}
	found.swaps = found.memory != "" && hasSwap() && !found.limitsSwap()
	return found
}

func findIn(ctx context.Context, own map[string]string) groups {
	if data, err := os.ReadFile(filepath.Join(cgroups, "cgroup.controllers")); err == nil && bytes.Contains(data, []byte("memory")) {
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
	for _, folder := range ancestors(filepath.Join(cgroups, "memory"), own["memory"]) {
		if g := (groups{memory: folder, homes: found.homes}); g.canCreate(ctx) {
			found.memory = folder
			break
		}
	}
	for _, folder := range ancestors(filepath.Join(cgroups, "pids"), own["pids"]) {
		if g := (groups{processes: folder, homes: found.homes}); g.canCreate(ctx) {
			found.processes = folder
			break
		}
	}
	for _, folder := range ancestors(filepath.Join(cgroups, "cpu"), own["cpu"]) {
		if g := (groups{cpu: folder, homes: found.homes}); g.canCreate(ctx) {
			found.cpu = folder
			break
		}
	}
	return found
}

// delegate gives controllers to the groups below one of version 2, and reports whether groups that work can be made there. The kernel
// does that only for a group without processes.
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

// moveProcesses moves the processes of a group of version 2 into one below it, so that others can be made beside that. All of them must be
// this process and what it started, unless the group is whole: that of a container, which is nobody else's.
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
		if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
			return err
		}
	}
	return nil
}

// whyNone says why no control groups can be made, for people.
func whyNone() string {
	var info unix.Statfs_t
	switch err := unix.Statfs(cgroups, &info); {
	case err != nil:
		return cgroups + " is not there"
	case info.Flags&unix.ST_RDONLY != 0:
		return cgroups + " can only be read; a container gets one to write to, for its root, with --security-opt unmask=/sys/fs/cgroup of " +
			"Podman or --privileged of Docker"
	case os.Geteuid() != 0:
		return "the server's user may make none; a unit of systemd gets them with Delegate=yes"
	}
	return "none that works can be made below " + cgroups
}

// hasSwap reports whether this machine has swap.
func hasSwap() bool {
	data, _ := os.ReadFile("/proc/swaps") // the first line says what the columns are
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

// ownGroups returns this process's groups by controller; the one of version 2 is under "".
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

// ancestors returns a group's folder below the mount, and those above it.
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

// folders returns what there is, each once.
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

// makeUnlimited makes the groups of one command. What cannot be made is left out.
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

// limit sets the limits. Each has its file in version 2, and another in version 1.
func (g group) limit(l Limits) error {
	const period = 100_000 // microseconds, which is the kernel's own
	memory, quota := strconv.FormatInt(l.Memory, 10), strconv.Itoa(l.CPU*(period/1000))
	var errs []error
	if g.memory != "" {
		errs = append(errs, anyOf(g.memory, setting{"memory.max", memory}, setting{"memory.limit_in_bytes", memory}))
		// Where swap is not counted, there may be no such file.
		_ = anyOf(g.memory, setting{"memory.swap.max", "0"}, setting{"memory.memsw.limit_in_bytes", memory})
		if !g.whole { // version 1 counts TCP apart
			_ = anyOf(g.memory, setting{"memory.kmem.tcp.limit_in_bytes", memory})
		}
	}
	if g.processes != "" {
		errs = append(errs, anyOf(g.processes, setting{"pids.max", strconv.Itoa(l.Processes)}))
	}
	if g.cpu != "" && l.CPU != 0 {
		errs = append(errs, anyOf(g.cpu, setting{"cpu.max", quota + " " + strconv.Itoa(period)}, setting{"cpu.cfs_quota_us", quota}))
	}
	return errors.Join(errs...)
}

// anyOf writes the first of the settings that the group knows; without one, the error has what happened to each.
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

// setting is a file of a control group and what to write to it.
type setting struct{ file, value string }

// write writes it. The kernel may stop to serve a signal before it has done what the file asks for; it is asked again then.
func (s setting) write(folder string) error {
	path := folder + "/" + s.file
	fd, err := retryInterrupted(func() (int, error) { return unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0) }) // package os would try to wait for it
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	_, err = retryInterrupted(func() (int, error) { return unix.Write(fd, []byte(s.value)) })
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// retryInterrupted repeats a system call for as long as signals interrupt it.
func retryInterrupted(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func (g group) folders() []string { return groups(g).folders() }

// start starts a process in the groups. The goroutine is on a thread of its own (see onThread).
//
// The kernel makes a process in a group of version 2. Into groups of version 1 goes the thread that starts it, until it is told
// to leave; moving the process would take the kernel ten milliseconds whenever none was moved shortly before.
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

// leave takes the thread that started a process out of the groups. Where that fails, it stays until it ends, which is when the
// process has ended.
func (g group) leave() {
	for _, home := range g.homes {
		_ = thisThread().write(home)
	}
}

// thisThread moves the thread that writes it.
func thisThread() setting { return setting{"tasks", "0"} }

// onThread calls a function on a thread that nothing else runs on, and which is not the process's first: what is done to that one
// is done to the process. The thread ends with the function, when the channel is closed.
func onThread(do func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if unix.Gettid() == os.Getpid() {
			<-onThread(do)
			return
		}
		do()
	}()
	return done
}

// kill ends everything in the groups, and waits until they are empty.
func (g group) kill() {
	const tries = 2000
	for _, folder := range g.folders() {
		_ = setting{"cgroup.kill", "1"}.write(folder) // at one blow, where there is such a file
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
		for range tries { // the kernel lets go of dead processes a moment later
			if err := os.Remove(folder); err == nil || os.IsNotExist(err) {
				break
			}
			<-tick.C
		}
	}
}

// outOfMemory reports whether the kernel ended something for its memory.
func (g group) outOfMemory() bool {
	return g.memory != "" && (counterAboveZero(g.memory, "memory.events", "oom_kill ") || counterAboveZero(g.memory, "memory.oom_control", "oom_kill "))
}

// outOfProcesses reports whether the kernel refused a process.
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

// instancePrefix begins the names of what this process makes outside of its data: what a server that was killed left behind is known
// by it. The time at which the process started is in it, because numbers of processes come again, and the namespace of its number,
// because a container beside this one may see the same folders.
func instancePrefix() string {
	own, _ := readStat(os.Getpid())
	return fmt.Sprintf("%s%d-%d-%d", ownPrefix, own.pid, own.started, pidNamespace())
}

// pidNamespace names the namespace in which this process sees the numbers of others.
func pidNamespace() uint64 {
	var info unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &info) != nil {
		return 0
	}
	return info.Ino
}

// sweep removes from a folder what servers left that are no more, with the processes in it.
func sweep(folder string) {
	found, _ := filepath.Glob(filepath.Join(folder, ownPrefix+"*-*-*-*"))
	for _, path := range found {
		const parts = 3
		var pid, started int
		var numbers uint64
		name := strings.TrimPrefix(filepath.Base(path), ownPrefix)
		if n, err := fmt.Sscanf(name, "%d-%d-%d-", &pid, &started, &numbers); n != parts || err != nil || numbers != pidNamespace() {
			continue
		}
		if owner, ok := readStat(pid); ok && owner.started == started {
			continue
		}
		if info, err := os.Lstat(path); err != nil || !info.IsDir() { // somebody else's link, where everybody may write
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

// nestedFolders returns a folder and those in it, the deepest first: a server that ran in a group may have made groups there.
func nestedFolders(folder string) []string {
	var all []string
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			all = append(all, path)
		}
		return nil // what vanishes meanwhile needs nothing
	})
	slices.Reverse(all)
	return all
}
