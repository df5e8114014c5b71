package inner

import (
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// allowedCalls are the system calls that every confined process may make, in addition to those of its architecture and
// those that depend on their arguments: what interpreters, compilers and shell tools do with their own memory, files,
// processes and sockets. All others are refused, so that a new system call of the kernel is not available before
// somebody has looked at it.
func allowedCalls() []uint32 {
	return append(calls(), []uint32{
		// These are for files that it may open anyway.
		unix.SYS_CHDIR, unix.SYS_CLOSE, unix.SYS_CLOSE_RANGE, unix.SYS_COPY_FILE_RANGE, unix.SYS_DUP, unix.SYS_DUP3,
		unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_FADVISE64, unix.SYS_FALLOCATE, unix.SYS_FCHDIR, unix.SYS_FCHMOD,
		unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_FDATASYNC,
		unix.SYS_FGETXATTR, unix.SYS_FLISTXATTR, unix.SYS_FLOCK, unix.SYS_FREMOVEXATTR, unix.SYS_FSETXATTR, unix.SYS_FSTAT,
		unix.SYS_FSTATFS, unix.SYS_FSYNC, unix.SYS_FTRUNCATE, unix.SYS_GETCWD, unix.SYS_GETDENTS64, unix.SYS_GETXATTR,
		unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_INOTIFY_RM_WATCH, unix.SYS_LGETXATTR, unix.SYS_LINKAT,
		unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_LSEEK, unix.SYS_LSETXATTR, unix.SYS_MKDIRAT,
		unix.SYS_MKNODAT, unix.SYS_NEWFSTATAT, unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_PIPE2, unix.SYS_PREAD64,
		unix.SYS_PREADV, unix.SYS_PREADV2, unix.SYS_PWRITE64, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_READ,
		unix.SYS_READAHEAD, unix.SYS_READLINKAT, unix.SYS_READV, unix.SYS_REMOVEXATTR, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2,
		unix.SYS_SETXATTR, unix.SYS_STATFS, unix.SYS_STATX, unix.SYS_SYMLINKAT,
		unix.SYS_SYNC_FILE_RANGE, unix.SYS_TRUNCATE, unix.SYS_UMASK, unix.SYS_UNLINKAT,
		unix.SYS_UTIMENSAT, unix.SYS_WRITE, unix.SYS_WRITEV,

		// These are for its memory.
		unix.SYS_BRK, unix.SYS_GET_MEMPOLICY, unix.SYS_MADVISE, unix.SYS_MAP_SHADOW_STACK, unix.SYS_MBIND,
		unix.SYS_MEMBARRIER, unix.SYS_MINCORE, unix.SYS_MLOCK, unix.SYS_MLOCK2, unix.SYS_MLOCKALL,
		unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_MSEAL, unix.SYS_MSYNC, unix.SYS_MUNLOCK, unix.SYS_MUNLOCKALL,
		unix.SYS_MUNMAP, unix.SYS_PKEY_ALLOC, unix.SYS_PKEY_FREE, unix.SYS_PKEY_MPROTECT, unix.SYS_SET_MEMPOLICY,
		unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SHMDT,

		// These are for its processes and threads, and their properties. Becoming another user needs a right that
		// nobody has here.
		unix.SYS_CAPGET, unix.SYS_CAPSET, unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
		unix.SYS_GETCPU, unix.SYS_GETEGID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETGROUPS, unix.SYS_GETPGID,
		unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETPRIORITY, unix.SYS_GETRESGID, unix.SYS_GETRESUID, unix.SYS_GETRLIMIT,
		unix.SYS_GETRUSAGE, unix.SYS_GETSID, unix.SYS_GETTID, unix.SYS_GETUID, unix.SYS_GET_ROBUST_LIST, unix.SYS_IOPRIO_GET,
		unix.SYS_IOPRIO_SET, unix.SYS_KILL, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF,
		unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_PRLIMIT64, unix.SYS_RSEQ, unix.SYS_SCHED_GETAFFINITY,
		unix.SYS_SCHED_GETATTR, unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_GET_PRIORITY_MAX,
		unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_SCHED_RR_GET_INTERVAL, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETATTR,
		unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_YIELD, unix.SYS_SETFSGID, unix.SYS_SETFSUID,
		unix.SYS_SETGID, unix.SYS_SETGROUPS, unix.SYS_SETPGID, unix.SYS_SETPRIORITY, unix.SYS_SETREGID, unix.SYS_SETRESGID,
		unix.SYS_SETRESUID, unix.SYS_SETREUID, unix.SYS_SETRLIMIT, unix.SYS_SETSID, unix.SYS_SETUID, unix.SYS_SET_ROBUST_LIST,
		unix.SYS_SET_TID_ADDRESS, unix.SYS_SYSINFO, unix.SYS_TGKILL, unix.SYS_TIMES, unix.SYS_TKILL, unix.SYS_UNAME,
		unix.SYS_WAIT4, unix.SYS_WAITID,

		// These are for waiting, signals, time, and messages between its processes.
		unix.SYS_CLOCK_GETRES, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL,
		unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2, unix.SYS_FUTEX, unix.SYS_FUTEX_REQUEUE,
		unix.SYS_FUTEX_WAIT, unix.SYS_FUTEX_WAITV, unix.SYS_FUTEX_WAKE, unix.SYS_GETITIMER, unix.SYS_GETRANDOM,
		unix.SYS_GETTIMEOFDAY, unix.SYS_MQ_GETSETATTR, unix.SYS_MQ_NOTIFY, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_TIMEDSEND,
		unix.SYS_MQ_UNLINK, unix.SYS_MSGCTL, unix.SYS_MSGRCV, unix.SYS_MSGSND, unix.SYS_NANOSLEEP, unix.SYS_PPOLL,
		unix.SYS_PSELECT6, unix.SYS_RESTART_SYSCALL, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGPROCMASK,
		unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGSUSPEND, unix.SYS_RT_SIGTIMEDWAIT,
		unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_SEMCTL, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SETITIMER,
		unix.SYS_SIGALTSTACK, unix.SYS_SIGNALFD4, unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_GETTIME, unix.SYS_TIMERFD_SETTIME,
		unix.SYS_TIMER_CREATE, unix.SYS_TIMER_DELETE, unix.SYS_TIMER_GETOVERRUN, unix.SYS_TIMER_GETTIME,
		unix.SYS_TIMER_SETTIME,

		// These are for sockets that it has made.
		unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_BIND, unix.SYS_CONNECT, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKNAME,
		unix.SYS_GETSOCKOPT, unix.SYS_LISTEN, unix.SYS_RECVFROM, unix.SYS_RECVMMSG, unix.SYS_RECVMSG, unix.SYS_SENDMMSG,
		unix.SYS_SENDMSG, unix.SYS_SENDTO, unix.SYS_SHUTDOWN,
	}...)
}

// x32 is the first number of x86-64's second numbering of system calls.
const x32 = 0x40000000

// namespaces are the flags with which clone makes namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// These are offsets in struct seccomp_data (seccomp(2)); for an argument, the low half on little-endian machines.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArg0   = 16
	offsetArg1   = 24
	offsetArg2   = 32
	offsetArg3   = 40
)

// rule has the instructions for the system calls from a number up to the next rule's.
type rule struct {
	from uint32
	then []bpf.Instruction
}

func load(offset uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offset, Size: 4} }

func answer(errno unix.Errno) bpf.Instruction {
	if errno == 0 {
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	}
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// answerIfOneOf answers yes when the loaded value is one of the values, else no.
func answerIfOneOf(yes, no unix.Errno, values ...uint32) []bpf.Instruction {
	var program []bpf.Instruction
	for _, value := range values {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipFalse: 1}, answer(yes))
	}
	return append(program, answer(no))
}

// Network says which sockets a confined process may have in addition to those between its own processes.
type Network uint8

// The networks.
const (
	Nothing Network = iota // none
	Proxied                // TCP over IPv4, which reaches the proxy
	Itself                 // all of IP, in a network with nothing but the proxy: a build may want to serve itself
)

// socketsOf returns the instructions for calls that make a socket.
func socketsOf(network Network) []bpf.Instruction {
	// instructions after the first jump, and the bits of a socket's type that are not flags
	const netlink, tcp, kind = 4, 10, 0xf
	switch network {
	case Nothing:
	case Proxied:
		// SOCK_STREAM is more than TCP. Of the possible protocols, TCP is allowed, by its number and by default.
		stream := append([]bpf.Instruction{
			load(offsetArg1), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: kind},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_STREAM, SkipTrue: 1}, answer(unix.EAFNOSUPPORT), load(offsetArg2),
		}, answerIfOneOf(0, unix.EPROTONOSUPPORT, 0, unix.IPPROTO_TCP)...)
		first := []bpf.Instruction{load(offsetArg0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET, SkipFalse: tcp}}
		return append(append(first, stream...), answerIfOneOf(0, unix.EAFNOSUPPORT, unix.AF_UNIX)...)
	case Itself:
		first := []bpf.Instruction{load(offsetArg0),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_NETLINK, SkipFalse: netlink}, load(offsetArg2)}
		all := append(append(first, answerIfOneOf(0, unix.EAFNOSUPPORT, unix.NETLINK_ROUTE)...),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipFalse: 1}, answer(0),
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET, SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET6, SkipTrue: 1}, answer(unix.EAFNOSUPPORT), load(offsetArg2))
		// For another protocol the kernel would load a module.
		return append(all, answerIfOneOf(0, unix.EPROTONOSUPPORT, 0, unix.IPPROTO_TCP, unix.IPPROTO_UDP)...)
	}
	return append([]bpf.Instruction{load(offsetArg0)}, answerIfOneOf(0, unix.EAFNOSUPPORT, unix.AF_UNIX)...)
}

// Walls describes the confinement of a process other than the filter. The filter refuses what the walls do not hold.
type Walls struct {
	Network Network
	Charged bool // a control group counts all memory that the kernel allocates for it
	Own     bool // no other sandbox has its user, so what the kernel counts for a user is its own
}

// specialCalls are the system calls that depend on their arguments or on the walls, or have an answer of their own.
func specialCalls(walls Walls) map[uint32][]bpf.Instruction {
	// The filter cannot see its flags; libraries use clone instead. A thread with the same memory cannot be in another
	// namespace.
	clone := []bpf.Instruction{load(offsetArg0), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: namespaces, SkipFalse: 1},
		answer(unix.EPERM), answer(0)}
	done := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO} // no error: the kernel does nothing
	all := map[uint32][]bpf.Instruction{
		unix.SYS_CLONE:  clone,
		unix.SYS_CLONE3: {answer(unix.ENOSYS)},
		unix.SYS_SOCKET: socketsOf(walls.Network),
		unix.SYS_SOCKETPAIR: append([]bpf.Instruction{load(offsetArg0)},
			answerIfOneOf(0, unix.EAFNOSUPPORT, unix.AF_UNIX)...),
		// It must not wait until the machine has written everything, and make all others wait.
		unix.SYS_SYNC:   {done},
		unix.SYS_SYNCFS: {done},
		// It must not type on a terminal in another's name, change a terminal's driver, or turn off where the kernel
		// puts mappings.
		unix.SYS_IOCTL: append([]bpf.Instruction{load(offsetArg1)},
			answerIfOneOf(unix.EPERM, 0, unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSCTTY, unix.TIOCCONS, unix.TIOCSETD)...),
		unix.SYS_PERSONALITY: append([]bpf.Instruction{load(offsetArg0)}, answerIfOneOf(0, unix.EPERM, 0, ^uint32(0))...),
		// Large pages are not counted by a group's memory. Programs that ask for them do without.
		unix.SYS_MMAP:         append(refuseLarge(offsetArg3, unix.MAP_HUGETLB), answer(0)),
		unix.SYS_MEMFD_CREATE: append(refuseLarge(offsetArg1, unix.MFD_HUGETLB), answer(0)),
		unix.SYS_SHMGET:       append(refuseLarge(offsetArg2, shmHuge), answer(0)),
	}
	depend := func(held bool, calls map[uint32][]bpf.Instruction) {
		for number, what := range calls {
			if !held {
				all[number] = what
			} else if all[number] == nil {
				all[number] = []bpf.Instruction{answer(0)}
			}
		}
	}
	depend(walls.Own, sharedUserRules())
	depend(walls.Charged, unchargedRules())
	return all
}

const (
	shmHuge     = 0o4000 // SHM_HUGETLB (shmget(2))
	setPipeSize = 1031   // F_SETPIPE_SZ (fcntl(2))
)

// unchargedRules are the rules when no control group counts memory. With these calls a process holds kernel memory that
// is in no list of its resources. Each call gets an error with which programs do without.
func unchargedRules() map[uint32][]bpf.Instruction {
	missing := []bpf.Instruction{answer(unix.ENOSYS)}
	impossible := []bpf.Instruction{answer(unix.EINVAL)}
	mmap := append(refuseLarge(offsetArg3, unix.MAP_HUGETLB), // shared pages stay when no process maps them any more
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: unix.MAP_SHARED | unix.MAP_ANON},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.MAP_SHARED | unix.MAP_ANON, SkipFalse: 1}, answer(unix.EPERM), answer(0))
	// A socket keeps the size of its queue.
	setsockopt := append([]bpf.Instruction{
		load(offsetArg1), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOL_SOCKET, SkipTrue: 1}, answer(0), load(offsetArg2),
	}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SO_SNDBUF, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SO_RCVBUF, SkipFalse: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO}, answer(0))
	return map[uint32][]bpf.Instruction{
		unix.SYS_MEMFD_CREATE: missing, unix.SYS_SHMGET: missing, unix.SYS_MSGGET: missing, unix.SYS_SEMGET: missing,
		unix.SYS_MQ_OPEN: missing,
		// With these, the content of a pipe or a socket belongs to a file.
		unix.SYS_SPLICE: impossible, unix.SYS_TEE: impossible, unix.SYS_SENDFILE: impossible,
		unix.SYS_MMAP: mmap, unix.SYS_SETSOCKOPT: setsockopt,
		unix.SYS_LANDLOCK_CREATE_RULESET: {answer(unix.EOPNOTSUPP)},
		unix.SYS_PRCTL: append([]bpf.Instruction{load(offsetArg0)},
			answerIfOneOf(unix.EINVAL, 0, unix.PR_SET_SECCOMP)...),
		unix.SYS_FCNTL: append([]bpf.Instruction{load(offsetArg1)}, answerIfOneOf(unix.EPERM, 0, setPipeSize)...),
	}
}

// sharedUserRules are the rules when other sandboxes have the same user: what the kernel counts for a user is then
// taken from all of them.
func sharedUserRules() map[uint32][]bpf.Instruction {
	all := map[uint32][]bpf.Instruction{
		unix.SYS_INOTIFY_INIT1: {answer(unix.ENOSYS)}, unix.SYS_MQ_OPEN: {answer(unix.ENOSYS)},
		unix.SYS_FCNTL: append([]bpf.Instruction{load(offsetArg1)}, answerIfOneOf(unix.EPERM, 0, setPipeSize)...),
	}
	for _, number := range olderWatches() {
		all[number] = []bpf.Instruction{answer(unix.ENOSYS)}
	}
	return all
}

// refuseLarge refuses a call whose argument asks for large pages. It leaves the loaded value as it is.
func refuseLarge(offset, bit uint32) []bpf.Instruction {
	return []bpf.Instruction{load(offset), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: bit, SkipFalse: 1}, answer(unix.ENOMEM)}
}

// rules returns the instructions for each number, in the order of the numbers. A call that is not allowed is refused;
// one that is newer than this list does not exist, because libraries then do without.
func rules(walls Walls) []rule {
	then := specialCalls(walls)
	for _, number := range allowedCalls() {
		then[number] = []bpf.Instruction{answer(0)}
	}
	var last uint32
	for number := range then {
		last = max(last, number)
	}
	var all []rule
	for number := range last + 1 {
		what, ok := then[number]
		if !ok {
			what = []bpf.Instruction{answer(unix.EPERM)}
		}
		if len(all) == 0 || !slices.Equal(all[len(all)-1].then, what) {
			all = append(all, rule{number, what})
		}
	}
	return append(all, rule{last + 1, []bpf.Instruction{answer(unix.ENOSYS)}},
		rule{x32, []bpf.Instruction{answer(unix.EPERM)}})
}

// search finds a number's rule by binary search: the kernel executes a dozen instructions for a call, and not hundreds.
func search(all []rule) ([]bpf.Instruction, error) {
	if len(all) == 1 {
		return all[0].then, nil
	}
	middle := len(all) / 2
	low, err := search(all[:middle])
	if err != nil {
		return nil, err
	}
	high, err := search(all[middle:])
	const most = 255
	if err != nil || len(low) > most {
		return nil, errors.Join(errors.New("the filter of system calls is too long for its jumps"), err)
	}
	// #nosec G115 -- its size was checked
	jump := bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: all[middle].from, SkipTrue: uint8(len(low))}
	return append(append([]bpf.Instruction{jump}, low...), high...), nil
}

// Filter returns the program with which the kernel decides about each system call of a confined process, in the
// kernel's form. A process of another architecture is killed.
func Filter(walls Walls) ([]byte, error) {
	program, err := filter(walls)
	if err != nil {
		return nil, err
	}
	var text []byte
	for _, i := range program {
		text = append(binary.NativeEndian.AppendUint16(text, i.Op), i.Jt, i.Jf)
		text = binary.NativeEndian.AppendUint32(text, i.K)
	}
	return text, nil
}

func filter(walls Walls) ([]bpf.RawInstruction, error) {
	tree, err := search(rules(walls))
	if err != nil {
		return nil, err
	}
	return bpf.Assemble(append([]bpf.Instruction{
		load(offsetArch), bpf.JumpIf{Cond: bpf.JumpEqual, Val: architecture, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}, load(offsetNumber),
	}, tree...))
}
