package sandbox

import (
	"bytes"
	"encoding/binary"
	"runtime"

	"golang.org/x/sys/unix"
)

// denied are the system calls that a confined command does not get: they make namespaces and mounts, look into other
// processes, speak to the kernel's keys, modules and tracing, or were the way out of sandboxes before.
func denied() []uint32 {
	return []uint32{
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN,
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP,
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
		unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_SWAPON,
		unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_QUOTACTL,
		unix.SYS_QUOTACTL_FD, unix.SYS_PIDFD_GETFD, unix.SYS_MOUNT_SETATTR, unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_FSPICK, unix.SYS_FANOTIFY_INIT,
		unix.SYS_KEXEC_FILE_LOAD,
	}
}

// Offsets in struct seccomp_data (seccomp(2)).
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArg0   = 16 // the low half on little-endian machines
	offsetArg2   = 32
)

// filter returns the classic BPF program: other architectures are killed, what is denied is EPERM, clone3 does not exist
// (its flags cannot be looked at; libraries fall back on clone), clone makes no user namespace, and sockets are between
// processes, of IP, or for asking about the network's devices.
func filter() []unix.SockFilter {
	const x32 = 0x40000000 // x86-64's second numbering of system calls
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	jump := func(op uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	refuse := answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	program := []unix.SockFilter{
		load(offsetArch),
		jump(unix.BPF_JEQ, architecture(), 1, 0),
		answer(unix.SECCOMP_RET_KILL_PROCESS),
		load(offsetNumber),
		jump(unix.BPF_JGE, x32, 0, 1),
		refuse,
	}
	for _, number := range denied() {
		program = append(program, jump(unix.BPF_JEQ, number, 0, 1), refuse)
	}
	return append(program,
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1),
		answer(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)),
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 3),
		load(offsetArg0),
		jump(unix.BPF_JSET, unix.CLONE_NEWUSER, 0, 1),
		refuse,
		load(offsetNumber),
		jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 8),
		load(offsetArg0),
		jump(unix.BPF_JEQ, unix.AF_UNIX, 6, 0),
		jump(unix.BPF_JEQ, unix.AF_INET, 5, 0),
		jump(unix.BPF_JEQ, unix.AF_INET6, 4, 0),
		jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, 2),
		load(offsetArg2),
		jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, 1, 0),
		refuse,
		answer(unix.SECCOMP_RET_ALLOW),
	)
}

func architecture() uint32 {
	if runtime.GOARCH == "arm64" {
		return unix.AUDIT_ARCH_AARCH64
	}
	return unix.AUDIT_ARCH_X86_64
}

// filterBytes returns the program in the form in which bubblewrap reads it.
func filterBytes() ([]byte, error) {
	var buffer bytes.Buffer
	err := binary.Write(&buffer, binary.NativeEndian, filter())
	return buffer.Bytes(), err
}
