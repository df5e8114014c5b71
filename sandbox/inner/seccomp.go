package inner

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// enforce applies the filter to this thread and what it starts. The kernel reads the program from an address in memory:
// that of a mapped file with the program's length, its address, and the program.
func enforce(program string) error {
	fd, err := unix.MemfdCreate("filter", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "filter")
	defer file.Close()
	const head, instruction = 16, 8 // struct sock_fprog, struct sock_filter
	size := head + len(program)
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return err
	}
	address, err := unix.MmapPtr(fd, 0, nil, uintptr(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	text := binary.NativeEndian.AppendUint64(nil, uint64(len(program)/instruction)) // #nosec G115 -- a length
	text = binary.NativeEndian.AppendUint64(text, uint64(uintptr(address)+head))
	if _, err := file.WriteAt(append(text, program...), 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(address), 0, 0)
}
