package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// watch ends a command that reaches a limit.
type watch struct {
	run    *run
	leader int // the process that was started; all others are its descendants
	killed string
}

// watch watches until the command has ended.
func (w *watch) watch(ctx context.Context, ended <-chan struct{}) {
	const share = 5
	every := 100 * time.Millisecond
	if w.run.isProgram && w.run.kernelEnforces() {
		every = 5 * time.Second
	}
	wall := time.NewTimer(w.run.command.Limits.Wall)
	defer wall.Stop()
	look := time.NewTimer(every)
	defer look.Stop()
	if w.run.isProgram {
		wall.Stop()
	}
	for {
		select {
		case <-ended:
			return
		case <-ctx.Done():
			w.kill(ended)
			return
		case <-wall.C:
			w.killed = fmt.Sprintf("it reached the time limit of %s", w.run.command.Limits.Wall)
		case <-look.C:
			start := time.Now()
			w.killed = w.excess()
			look.Reset(max(every, share*time.Since(start))) // looking into a large folder takes time
		}
		if w.killed != "" {
			w.kill(ended)
			return
		}
	}
}

// kill ends the command with all its processes. For a confined command it ends the init: what the init held ends with
// it, and then bubblewrap, which waits for that. Otherwise it ends all but the parent, which then ends by itself. It
// kills the first process only when that does not help, or when it is the init.
func (w *watch) kill(ended <-chan struct{}) {
	const patience = 100
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for try := 0; ; try++ {
		var found []process
		if w.run.initWord == "" {
			found = descendants(w.leader)
		}
		for _, p := range found {
			if p.pid != w.leader {
				_ = unix.Kill(p.pid, unix.SIGKILL)
			}
		}
		if len(found) <= 1 || try > patience {
			_ = unix.Kill(-w.leader, unix.SIGKILL)
		}
		select {
		case <-ended:
			return
		case <-tick.C:
		}
	}
}

// excess returns the limit that is exceeded now.
func (w *watch) excess() string {
	limits, group := w.run.command.Limits, w.run.group
	if w.run.isProgram && w.run.kernelEnforces() {
		if group.outOfMemory() ||
			(manyLocks() && inspectOpenFiles("", descendants(w.leader), true, limits.Memory).attachedBytes() > limits.Memory) {
			return limitText("memory", limits.Memory)
		}
		return ""
	}
	processes := descendants(w.leader)
	counted := !w.run.charged() && w.run.sandbox.mode != Off
	open := &openFiles{}
	if counted || !w.run.isProgram {
		dir := w.run.command.Dir
		if w.run.isProgram {
			dir = ""
		}
		open = inspectOpenFiles(dir, processes, counted, limits.Memory)
	}
	switch size, deep := w.run.disk(open); {
	case deep:
		return fmt.Sprintf("it reached the limit of %d folders within one another", maxDepth)
	case size > limits.Disk:
		return limitText("disk", limits.Disk)
	}
	var threads int
	for _, p := range processes {
		threads += p.threads
	}
	// Many processes take much memory, so their number is the more helpful reason.
	if group.outOfProcesses() || (group.processes == "" && threads > limits.Processes) {
		return fmt.Sprintf("it reached the limit of %d processes", limits.Processes)
	}
	if group.outOfMemory() || (!w.run.charged() && w.run.memory(processes, open) > limits.Memory) {
		return limitText("memory", limits.Memory)
	}
	return ""
}

func limitText(what string, limit int64) string {
	const mib = 1 << 20
	return fmt.Sprintf("it reached the %s limit of %d MiB", what, limit/mib)
}

// process is what the kernel says about a process.
type process struct {
	pid, parent, threads, started int
}

// readStat reads the kernel's file about a process.
func readStat(pid int) (process, bool) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, false
	}
	// The name in parentheses may contain anything; the numbers follow the last parenthesis (proc(5)).
	const parent, threads, started = 1, 17, 19
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) <= started {
		return process{}, false
	}
	number := func(field int) int {
		n, _ := strconv.Atoi(fields[field]) // the kernel wrote it
		return n
	}
	return process{pid: pid, parent: number(parent), threads: number(threads), started: number(started)}, true
}

// descendants returns a process and its descendants.
func descendants(root int) []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	all := map[int]process{}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if p, ok := readStat(pid); ok {
				all[pid] = p
			}
		}
	}
	var found []process
	for _, p := range all {
		// There are not more steps than processes: a table that is not read at one moment could contain a circle.
		for at, steps := p.pid, 0; at > 1 && steps <= len(all); at, steps = all[at].parent, steps+1 {
			if at == root {
				found = append(found, p)
				break
			}
		}
	}
	return found
}
