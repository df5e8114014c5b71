package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// These are upper bounds for the kernel memory of a thing that a process has, for things of which only the number can
// be found out.
const (
	kib           = 1 << 10
	threadBytes   = 32 * kib  // a thread, with its kernel stack
	mappingBytes  = 256       // a mapping
	fileBytes     = 1 * kib   // an open file
	attachedBytes = 256       // attached to an open file: a lock or a watch
	inodeBytes    = 1 * kib   // a file in memory, without its content
	terminalBytes = 128 * kib // the two queues of a terminal
	pipeBytes     = 64 * kib  // a pipe with its default size
	widePipes     = 1024      // the first pipes of a user have that size; later ones
	narrowBytes   = 8 * kib   // are narrow
)

// memory returns an upper bound for the memory that processes hold when no control group counts it: their resident and
// swapped memory, and what the kernel holds for them. It stops counting once the limit is exceeded, so that a process
// that holds much does not keep the watch busy.
func (r *run) memory(processes []process, open *openFiles) int64 {
	confined := r.sandbox.mode != Off
	var total int64
	for _, p := range processes {
		if total > r.command.Limits.Memory {
			return total
		}
		total += int64(p.threads) * threadBytes
		if sharesMemory(p.pid, p.parent) { // until it starts its own program
			continue
		}
		total += resident(p.pid, confined)
		if confined {
			total += int64(countLines(p.pid, "maps", r.command.Limits.Memory/mappingBytes)) * mappingBytes
		}
	}
	if !confined {
		return total
	}
	if init := r.initOf(processes); init != 0 {
		total += temporaryBytes(init)
		total += r.socketBytes(init)
	}
	if total > r.command.Limits.Memory {
		return total
	}
	return total + open.bytes()
}

// initOf returns the process that is the sandbox's init; 0 when it does not exist yet.
func (r *run) initOf(processes []process) int {
	if r.initWord != "" {
		return r.pid
	}
	for _, p := range processes {
		if p.parent == r.pid {
			return p.pid
		}
	}
	return 0
}

// sharesMemory reports whether a process has the memory of another one, if the kernel tells.
func sharesMemory(pid, other int) bool {
	const memory = 1 // KCMP_VM
	order, _, errno := unix.RawSyscall6(unix.SYS_KCMP, uintptr(pid), uintptr(other), memory, 0, 0, 0)
	return errno == 0 && order == 0
}

// resident returns the memory of a process in RAM and swap, with its page tables. Files in memory that a confined
// process has mapped are counted in their folders.
func resident(pid int, confined bool) (total int64) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		name, rest, _ := strings.Cut(line, ":")
		switch name {
		case "RssShmem":
			if confined {
				continue
			}
		case "RssAnon", "RssFile", "VmSwap", "VmPTE", "HugetlbPages":
		default:
			continue
		}
		n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64) // the kernel wrote it
		total += n * kib
	}
	return total
}

// countLines counts the lines of a file about a process, up to most.
func countLines(pid int, name string, most int64) (lines int) {
	file, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), name))
	if err != nil {
		return 0
	}
	defer file.Close()
	return linesIn(file, most)
}

// linesIn counts lines, up to most.
func linesIn(file *os.File, most int64) (lines int) {
	buffer := make([]byte, 32*kib)
	for int64(lines) <= most {
		n, err := file.Read(buffer)
		lines += bytes.Count(buffer[:n], []byte{'\n'})
		if n == 0 || err != nil {
			break
		}
	}
	return lines
}

// temporaryBytes returns the bytes in the memory folders of the sandbox of a process. Until the process has a root of
// its own, these folders are the host's, and hold nothing of the sandbox.
func temporaryBytes(pid int) (total int64) {
	for _, folder := range []string{"tmp", "dev/shm"} {
		// The last part may be a link, which would lead to a folder of the host.
		path := filepath.Join("/proc", strconv.Itoa(pid), "root", folder)
		fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		var info unix.Statfs_t
		var own, host unix.Stat_t
		if unix.Fstatfs(fd, &info) == nil && info.Type == unix.TMPFS_MAGIC && unix.Fstat(fd, &own) == nil &&
			(unix.Stat("/"+folder, &host) != nil || own.Dev != host.Dev) {
			total += int64(info.Blocks-info.Bfree)*info.Bsize + int64(info.Files-info.Ffree)*inodeBytes // #nosec G115 -- sizes
		}
		_ = unix.Close(fd)
	}
	return total
}

// openFiles is what processes have open.
type openFiles struct {
	files    int64
	attached int64
	pipes    map[uint64]struct{}
	ptys     int64
	unlinked map[uint64]int64 // bytes of files on the disk without a name
}

// bytes returns the kernel memory for the open files.
func (o *openFiles) bytes() int64 {
	pipes := int64(len(o.pipes))
	return o.files*fileBytes + o.attachedBytes() + o.ptys*terminalBytes +
		min(pipes, widePipes)*pipeBytes + max(pipes-widePipes, 0)*narrowBytes
}

// attachedBytes returns the kernel memory for what is attached to open files.
func (o *openFiles) attachedBytes() int64 { return o.attached * attachedBytes }

// manyLocks reports whether the processes of this machine have more file locks than they need. No control group counts
// those, and nothing limits them.
func manyLocks() bool {
	const many = 50_000
	file, err := os.Open("/proc/locks")
	if err != nil {
		return false
	}
	defer file.Close()
	return linesIn(file, many) > many
}

// unlinkedBytes returns the bytes of files without a name.
func (o *openFiles) unlinkedBytes() (total int64) {
	for _, size := range o.unlinked {
		total += size
	}
	return total
}

// inspectOpenFiles looks at the open files of processes: at those without a name on the disk of dir, if there is one,
// and, where memory is counted, at everything else that they hold, until that is more than most.
func inspectOpenFiles(dir string, processes []process, counted bool, most int64) *openFiles {
	o := &openFiles{pipes: map[uint64]struct{}{}, unlinked: map[uint64]int64{}}
	var here syscall.Stat_t
	onDisk := dir != "" && syscall.Stat(dir, &here) == nil
	for _, p := range processes {
		folder := filepath.Join("/proc", strconv.Itoa(p.pid), "fd")
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue // it has ended
		}
		for _, entry := range entries {
			var file syscall.Stat_t
			if syscall.Stat(filepath.Join(folder, entry.Name()), &file) != nil {
				continue
			}
			if onDisk && file.Nlink == 0 && file.Dev == here.Dev {
				o.unlinked[file.Ino] = blocks(file.Size)
			}
			if counted {
				o.add(p.pid, entry.Name(), file)
			}
		}
		if counted && o.bytes() > most {
			break
		}
	}
	return o
}

// add adds an open file of a process.
func (o *openFiles) add(pid int, number string, file syscall.Stat_t) {
	const usual = 4 // lines about a file with nothing attached: position, flags, mount, inode
	o.files++
	switch file.Mode & syscall.S_IFMT {
	case syscall.S_IFIFO:
		o.pipes[file.Ino] = struct{}{}
	case syscall.S_IFCHR:
		if file.Rdev == unix.Mkdev(5, 2) { // /dev/ptmx
			o.ptys++
		}
	case syscall.S_IFSOCK:
	default:
		const most = 1 << 20
		o.attached += int64(max(countLines(pid, "fdinfo/"+number, most)-usual, 0))
	}
}
