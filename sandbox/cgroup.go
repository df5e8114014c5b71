package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// cgroups is where systems mount their control groups.
const cgroups = "/sys/fs/cgroup"

// groups are the folders in which this process can make control groups. Each may be empty: then the watch holds the limit, but
// nothing limits the processor.
type groups struct{ memory, processes, cpu string }

// group are the control groups of one command.
type group groups

// findGroups returns the folders nearest to this process's own group, so that what holds the server holds its commands.
func findGroups(ctx context.Context) groups {
	own := ownGroups()
	if data, err := os.ReadFile(filepath.Join(cgroups, "cgroup.controllers")); err == nil && bytes.Contains(data, []byte("memory")) {
		for _, folder := range upwards(cgroups, own[""]) {
			// A group that has processes of its own cannot hand down its controllers; the groups above it can.
			_ = os.WriteFile(filepath.Join(folder, "cgroup.subtree_control"), []byte("+memory +pids"), 0o600)
			_ = os.WriteFile(filepath.Join(folder, "cgroup.subtree_control"), []byte("+cpu"), 0o600)
			for _, cpu := range []string{folder, ""} {
				if g := (groups{memory: folder, processes: folder, cpu: cpu}); g.work(ctx) {
					return g
				}
			}
		}
		return groups{}
	}
	var found groups
	for _, folder := range upwards(filepath.Join(cgroups, "memory"), own["memory"]) {
		if g := (groups{memory: folder}); g.work(ctx) {
			found.memory = folder
			break
		}
	}
	for _, folder := range upwards(filepath.Join(cgroups, "pids"), own["pids"]) {
		if g := (groups{processes: folder}); g.work(ctx) {
			found.processes = folder
			break
		}
	}
	for _, folder := range upwards(filepath.Join(cgroups, "cpu"), own["cpu"]) {
		if g := (groups{cpu: folder}); g.work(ctx) {
			found.cpu = folder
			break
		}
	}
	return found
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

// upwards returns a group's folder below the mount, and those above it.
func upwards(mount, own string) []string {
	var folders []string
	for folder := filepath.Join(mount, own); ; folder = filepath.Dir(folder) {
		folders = append(folders, folder)
		if folder == mount || !strings.HasPrefix(folder, mount) {
			return folders
		}
	}
}

// work reports whether a group can be made there and a process can enter it.
func (g groups) work(ctx context.Context) bool {
	made := g.make(Limits{CPU: 1000}.withDefaults())
	defer made.remove()
	if len(made.folders()) != len(g.folders()) || (g.cpu != "" && made.cpu == "") {
		return false
	}
	for _, folder := range made.folders() {
		if exec.CommandContext(ctx, "/bin/sh", "-c", `echo $$ > "$0/cgroup.procs"`, folder).Run() != nil {
			return false
		}
	}
	return true
}

// folders returns what there is, each once.
func (g groups) folders() []string {
	all := slices.DeleteFunc([]string{g.memory, g.processes, g.cpu}, func(s string) bool { return s == "" })
	return slices.Compact(all)
}

// make makes the groups of one command. What cannot be made is left out.
func (g groups) make(l Limits) group {
	name := ownName() + "-" + uuid.NewString()
	var made group
	memory, processes := strconv.FormatInt(l.Memory, 10), strconv.Itoa(l.Processes)
	if g.memory != "" {
		made.memory = makeGroup(filepath.Join(g.memory, name), setting{"memory.max", memory}, setting{"memory.limit_in_bytes", memory})
	}
	if g.processes != "" && (g.processes != g.memory || made.memory != "") {
		made.processes = makeGroup(filepath.Join(g.processes, name), setting{"pids.max", processes})
	}
	if g.cpu != "" && l.CPU > 0 && (g.cpu != g.memory || made.memory != "") {
		const period = 100_000 // microseconds, which is the kernel's own
		quota := strconv.Itoa(l.CPU * (period / 1000))
		made.cpu = makeGroup(filepath.Join(g.cpu, name), setting{"cpu.max", quota + " " + strconv.Itoa(period)}, setting{"cpu.cfs_quota_us", quota})
	}
	if made.memory != "" { // where swap is not counted, there may be no such file
		for _, s := range []setting{{"memory.swap.max", "0"}, {"memory.memsw.limit_in_bytes", memory}} {
			_ = s.write(made.memory)
		}
	}
	return made
}

// setting is a file of a control group and what to write to it.
type setting struct{ file, value string }

func (s setting) write(folder string) error {
	file, err := os.OpenFile(filepath.Join(folder, s.file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(s.value)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

// makeGroup makes a group with the first of the settings that it knows, and returns its folder; empty when it cannot.
func makeGroup(folder string, settings ...setting) string {
	const mode = 0o755
	if err := os.Mkdir(folder, mode); err != nil && !os.IsExist(err) {
		return ""
	}
	for _, s := range settings {
		if s.write(folder) == nil {
			return folder
		}
	}
	os.Remove(folder)
	return ""
}

func (g group) folders() []string { return groups(g).folders() }

// kill ends everything in the groups, and waits until they are empty.
func (g group) kill() {
	const tries = 2000
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tries {
		var members int
		for _, folder := range g.folders() {
			data, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
			for field := range strings.FieldsSeq(string(data)) {
				if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
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
	return g.memory != "" && (counted(g.memory, "memory.events", "oom_kill ") || counted(g.memory, "memory.oom_control", "oom_kill "))
}

// outOfProcesses reports whether the kernel refused a process.
func (g group) outOfProcesses() bool {
	return g.processes != "" && counted(g.processes, "pids.events", "max ")
}

// counted reports whether a file of counters has one above zero.
func counted(folder, file, counter string) bool {
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

// ownName begins the names of what this process makes outside of its data: what a server that was killed left behind is known
// by it. The time at which the process started is in it, because numbers of processes come again.
func ownName() string {
	own, _ := readStat(os.Getpid())
	return fmt.Sprintf("%s%d-%d", ownPrefix, own.pid, own.started)
}

// sweep removes from a folder what servers left that are no more, with the processes in it.
func sweep(folder string) {
	found, _ := filepath.Glob(filepath.Join(folder, ownPrefix+"*-*-*"))
	for _, path := range found {
		var pid, started int
		if n, err := fmt.Sscanf(strings.TrimPrefix(filepath.Base(path), ownPrefix), "%d-%d-", &pid, &started); n != 2 || err != nil {
			continue
		}
		if owner, ok := readStat(pid); ok && owner.started == started {
			continue
		}
		if strings.HasPrefix(path, cgroups) {
			left := group{memory: path}
			left.kill()
			left.remove()
			continue
		}
		openFolders(path)
		os.RemoveAll(path)
	}
}
