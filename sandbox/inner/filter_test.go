package inner //nolint:testpackage // the list is nobody else's

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// call is a system call as the filter sees it.
type call struct {
	number, arch uint32
	args         [6]uint64
}

// verdict returns what the filter says of it.
func verdict(t *testing.T, walls Walls, c call) uint32 {
	t.Helper()
	raw, err := filter(walls)
	if err != nil {
		t.Fatal(err)
	}
	program, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the filter has an instruction that nobody knows")
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	// The machine of packets reads big-endian; a half of an argument is where the kernel has it.
	data := binary.BigEndian.AppendUint32(nil, c.number)
	data = binary.BigEndian.AppendUint32(data, c.arch)
	data = binary.BigEndian.AppendUint64(data, 0)
	for _, arg := range c.args {
		data = binary.BigEndian.AppendUint32(data, uint32(arg&0xffffffff))
		data = binary.BigEndian.AppendUint32(data, uint32(arg>>32))
	}
	got, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

func refusal(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// What is on the list is allowed, whatever its arguments are; all else is refused, and so is each dangerous argument.
func TestFilter(t *testing.T) {
	t.Parallel()
	const allow = unix.SECCOMP_RET_ALLOW
	listed := map[uint32]bool{}
	for _, number := range allowedCalls() {
		listed[number] = true
	}
	special := specialCalls(Walls{Network: Itself})
	for number := range uint32(unix.SYS_MSEAL) {
		if _, ok := special[number]; ok {
			continue
		}
		want := refusal(unix.EPERM)
		if listed[number] {
			want = allow
		}
		if got := verdict(t, Walls{Charged: true, Own: true}, call{number: number, arch: architecture}); got != want {
			t.Errorf("system call %d: %#x, want %#x", number, got, want)
		}
	}
	for name, test := range map[string]struct {
		call    call
		network Network
		want    uint32
	}{
		"another architecture": {call{number: unix.SYS_READ, arch: unix.AUDIT_ARCH_I386}, Nothing,
			unix.SECCOMP_RET_KILL_PROCESS},
		"x32":                 {call{number: x32 | unix.SYS_READ}, Nothing, refusal(unix.EPERM)},
		"newer than the list": {call{number: 1000}, Nothing, refusal(unix.ENOSYS)},
		"clone3":              {call{number: unix.SYS_CLONE3}, Nothing, refusal(unix.ENOSYS)},
		"a thread": {call{number: unix.SYS_CLONE, args: [6]uint64{unix.CLONE_VM | unix.CLONE_THREAD}},
			Nothing, allow}, "a user namespace": {call{number: unix.SYS_CLONE, args: [6]uint64{unix.CLONE_NEWUSER}}, Nothing,
			refusal(unix.EPERM)},
		"a mount namespace": {call{number: unix.SYS_CLONE, args: [6]uint64{unix.CLONE_NEWNS | unix.CLONE_VM}}, Nothing,
			refusal(unix.EPERM)},
		"a network namespace": {call{number: unix.SYS_CLONE, args: [6]uint64{unix.CLONE_NEWNET}}, Itself,
			refusal(unix.EPERM)},
		"a unix socket": {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_UNIX}}, Nothing, allow},
		"IP without a network": {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET}}, Nothing,
			refusal(unix.EAFNOSUPPORT)},
		"IP": {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET6}}, Itself, allow},
		"packets": {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_PACKET}}, Itself,
			refusal(unix.EAFNOSUPPORT)},
		"routes": {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_NETLINK, 0, unix.NETLINK_ROUTE}},
			Itself, allow}, "routes without a network": {call{number: unix.SYS_SOCKET,
			args: [6]uint64{unix.AF_NETLINK, 0, unix.NETLINK_ROUTE}}, Nothing, refusal(unix.EAFNOSUPPORT)},
		"netfilter": {call{number: unix.SYS_SOCKET,
			args: [6]uint64{unix.AF_NETLINK, 0, unix.NETLINK_NETFILTER}}, Itself, refusal(unix.EAFNOSUPPORT)},
		"a pair of IP": {call{number: unix.SYS_SOCKETPAIR, args: [6]uint64{unix.AF_INET}}, Itself,
			refusal(unix.EAFNOSUPPORT)},
		"TCP to the proxy": {call{number: unix.SYS_SOCKET,
			args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}}, Proxied, allow},
		"TCP by its number": {call{number: unix.SYS_SOCKET,
			args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP}}, Proxied, allow},
		"MPTCP": {call{number: unix.SYS_SOCKET,
			args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}}, Proxied, refusal(unix.EPROTONOSUPPORT)},
		"UDP beside the proxy": {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET, unix.SOCK_DGRAM}}, Proxied,
			refusal(unix.EAFNOSUPPORT)},
		"raw beside the proxy": {call{number: unix.SYS_SOCKET,
			args: [6]uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}}, Proxied, refusal(unix.EAFNOSUPPORT)},
		"IPv6 beside the proxy": {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET6, unix.SOCK_STREAM}}, Proxied,
			refusal(unix.EAFNOSUPPORT)},
		"routes beside the proxy": {call{number: unix.SYS_SOCKET,
			args: [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}}, Proxied, refusal(unix.EAFNOSUPPORT)},
		"a unix socket beside it": {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}},
			Proxied, allow},
		"TIOCSTI": {call{number: unix.SYS_IOCTL, args: [6]uint64{0, unix.TIOCSTI}}, Nothing,
			refusal(unix.EPERM)},
		"TIOCSTI with a high half": {call{number: unix.SYS_IOCTL, args: [6]uint64{0, 1<<32 | unix.TIOCSTI}}, Nothing,
			refusal(unix.EPERM)},
		"another ioctl":          {call{number: unix.SYS_IOCTL, args: [6]uint64{0, unix.TIOCGWINSZ}}, Nothing, allow},
		"personality, asked for": {call{number: unix.SYS_PERSONALITY, args: [6]uint64{0xffffffff}}, Nothing, allow},
		"personality, changed": {call{number: unix.SYS_PERSONALITY, args: [6]uint64{0x40000}}, Nothing,
			refusal(unix.EPERM)},
		"what drives a terminal": {call{number: unix.SYS_IOCTL, args: [6]uint64{0, unix.TIOCSETD}}, Itself,
			refusal(unix.EPERM)},
		"TCP": {call{number: unix.SYS_SOCKET,
			args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP}}, Itself, allow},
		"SCTP": {call{number: unix.SYS_SOCKET,
			args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}}, Itself, refusal(unix.EPROTONOSUPPORT)},
		"UDP-Lite of version 6": {call{number: unix.SYS_SOCKET,
			args: [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE}}, Itself, refusal(unix.EPROTONOSUPPORT)},
		"a unix socket, with IP": {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_UNIX, 0, unix.IPPROTO_SCTP}},
			Itself, allow},
		"all disks' writing": {call{number: unix.SYS_SYNC}, Itself, unix.SECCOMP_RET_ERRNO},
		"a disk's writing":   {call{number: unix.SYS_SYNCFS}, Nothing, unix.SECCOMP_RET_ERRNO},
	} {
		if test.call.arch == 0 {
			test.call.arch = architecture
		}
		if got := verdict(t, Walls{Network: test.network, Charged: true, Own: true}, test.call); got != test.want {
			t.Errorf("%s: %#x, want %#x", name, got, test.want)
		}
	}
}

// What neither a control group nor a user of its own holds is refused, and only then.
func TestFilterWithoutWalls(t *testing.T) {
	t.Parallel()
	const allow = unix.SECCOMP_RET_ALLOW
	const shared = unix.MAP_SHARED | unix.MAP_ANON
	bare, charged, own, both := Walls{}, Walls{Charged: true}, Walls{Own: true}, Walls{Charged: true, Own: true}
	for name, test := range map[string]struct {
		number  uint32
		args    [6]uint64
		refused map[Walls]uint32 // all others are allowed
	}{
		"memfd": {unix.SYS_MEMFD_CREATE, [6]uint64{},
			map[Walls]uint32{bare: refusal(unix.ENOSYS), own: refusal(unix.ENOSYS)}},
		"shmget": {unix.SYS_SHMGET, [6]uint64{},
			map[Walls]uint32{bare: refusal(unix.ENOSYS), own: refusal(unix.ENOSYS)}},
		"mq_open": {unix.SYS_MQ_OPEN, [6]uint64{},
			map[Walls]uint32{bare: refusal(unix.ENOSYS), own: refusal(unix.ENOSYS), charged: refusal(unix.ENOSYS)}},
		"inotify": {unix.SYS_INOTIFY_INIT1, [6]uint64{},
			map[Walls]uint32{bare: refusal(unix.ENOSYS), charged: refusal(unix.ENOSYS)}},
		"a larger pipe": {unix.SYS_FCNTL, [6]uint64{0, setPipeSize},
			map[Walls]uint32{bare: refusal(unix.EPERM), charged: refusal(unix.EPERM), own: refusal(unix.EPERM)}},
		"another fcntl": {unix.SYS_FCNTL, [6]uint64{0, unix.F_GETFL}, nil},
		"shared memory": {unix.SYS_MMAP, [6]uint64{0, 1, 3, shared},
			map[Walls]uint32{bare: refusal(unix.EPERM), own: refusal(unix.EPERM)}},
		"a shared file":  {unix.SYS_MMAP, [6]uint64{0, 1, 3, unix.MAP_SHARED}, nil},
		"private memory": {unix.SYS_MMAP, [6]uint64{0, 1, 3, unix.MAP_PRIVATE | unix.MAP_ANON}, nil},
		"a larger queue": {unix.SYS_SETSOCKOPT, [6]uint64{0, unix.SOL_SOCKET, unix.SO_SNDBUF},
			map[Walls]uint32{bare: unix.SECCOMP_RET_ERRNO, own: unix.SECCOMP_RET_ERRNO}},
		"another option":   {unix.SYS_SETSOCKOPT, [6]uint64{0, unix.SOL_SOCKET, unix.SO_REUSEADDR}, nil},
		"an option of TCP": {unix.SYS_SETSOCKOPT, [6]uint64{0, unix.IPPROTO_TCP, unix.SO_SNDBUF}, nil},
		"splice": {unix.SYS_SPLICE, [6]uint64{},
			map[Walls]uint32{bare: refusal(unix.EINVAL), own: refusal(unix.EINVAL)}},
		"a name": {unix.SYS_PRCTL, [6]uint64{unix.PR_SET_NAME}, nil},
		"a filter": {unix.SYS_PRCTL, [6]uint64{unix.PR_SET_SECCOMP},
			map[Walls]uint32{bare: refusal(unix.EINVAL), own: refusal(unix.EINVAL)}},
		"large pages": {unix.SYS_MMAP, [6]uint64{0, 1, 3, unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_HUGETLB},
			map[Walls]uint32{
				bare: refusal(unix.ENOMEM), own: refusal(unix.ENOMEM), charged: refusal(unix.ENOMEM), both: refusal(unix.ENOMEM),
			}},
	} {
		for _, walls := range []Walls{bare, charged, own, both} {
			want, refused := test.refused[walls]
			if !refused {
				want = allow
			}
			if got := verdict(t, walls, call{number: test.number, arch: architecture, args: test.args}); got != want {
				t.Errorf("%s with %+v: %#x, want %#x", name, walls, got, want)
			}
		}
	}
}
