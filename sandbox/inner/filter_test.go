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
func verdict(t *testing.T, network Network, c call) uint32 {
	t.Helper()
	raw, err := filter(network)
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
	for _, number := range allowed() {
		listed[number] = true
	}
	special := special(Itself)
	for number := range uint32(unix.SYS_MSEAL) {
		if _, ok := special[number]; ok {
			continue
		}
		want := refusal(unix.EPERM)
		if listed[number] {
			want = allow
		}
		if got := verdict(t, Nothing, call{number: number, arch: architecture}); got != want {
			t.Errorf("system call %d: %#x, want %#x", number, got, want)
		}
	}
	for name, test := range map[string]struct {
		call    call
		network Network
		want    uint32
	}{
		"another architecture":     {call{number: unix.SYS_READ, arch: unix.AUDIT_ARCH_I386}, Nothing, unix.SECCOMP_RET_KILL_PROCESS},
		"x32":                      {call{number: x32 | unix.SYS_READ}, Nothing, refusal(unix.EPERM)},
		"newer than the list":      {call{number: 1000}, Nothing, refusal(unix.ENOSYS)},
		"clone3":                   {call{number: unix.SYS_CLONE3}, Nothing, refusal(unix.ENOSYS)},
		"a thread":                 {call{number: unix.SYS_CLONE, args: [6]uint64{unix.CLONE_VM | unix.CLONE_THREAD}}, Nothing, allow},
		"a user namespace":         {call{number: unix.SYS_CLONE, args: [6]uint64{unix.CLONE_NEWUSER}}, Nothing, refusal(unix.EPERM)},
		"a mount namespace":        {call{number: unix.SYS_CLONE, args: [6]uint64{unix.CLONE_NEWNS | unix.CLONE_VM}}, Nothing, refusal(unix.EPERM)},
		"a network namespace":      {call{number: unix.SYS_CLONE, args: [6]uint64{unix.CLONE_NEWNET}}, Itself, refusal(unix.EPERM)},
		"a unix socket":            {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_UNIX}}, Nothing, allow},
		"IP without a network":     {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET}}, Nothing, refusal(unix.EAFNOSUPPORT)},
		"IP":                       {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET6}}, Itself, allow},
		"packets":                  {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_PACKET}}, Itself, refusal(unix.EAFNOSUPPORT)},
		"routes":                   {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_NETLINK, 0, unix.NETLINK_ROUTE}}, Itself, allow},
		"routes without a network": {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_NETLINK, 0, unix.NETLINK_ROUTE}}, Nothing, refusal(unix.EAFNOSUPPORT)},
		"netfilter":                {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_NETLINK, 0, unix.NETLINK_NETFILTER}}, Itself, refusal(unix.EAFNOSUPPORT)},
		"a pair of IP":             {call{number: unix.SYS_SOCKETPAIR, args: [6]uint64{unix.AF_INET}}, Itself, refusal(unix.EAFNOSUPPORT)},
		"TCP to the proxy":         {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}}, Proxied, allow},
		"TCP by its number":        {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP}}, Proxied, allow},
		"MPTCP":                    {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}}, Proxied, refusal(unix.EPROTONOSUPPORT)},
		"UDP beside the proxy":     {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET, unix.SOCK_DGRAM}}, Proxied, refusal(unix.EAFNOSUPPORT)},
		"raw beside the proxy":     {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}}, Proxied, refusal(unix.EAFNOSUPPORT)},
		"IPv6 beside the proxy":    {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET6, unix.SOCK_STREAM}}, Proxied, refusal(unix.EAFNOSUPPORT)},
		"routes beside the proxy":  {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}}, Proxied, refusal(unix.EAFNOSUPPORT)},
		"a unix socket beside it":  {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}}, Proxied, allow},
		"TIOCSTI":                  {call{number: unix.SYS_IOCTL, args: [6]uint64{0, unix.TIOCSTI}}, Nothing, refusal(unix.EPERM)},
		"TIOCSTI with a high half": {call{number: unix.SYS_IOCTL, args: [6]uint64{0, 1<<32 | unix.TIOCSTI}}, Nothing, refusal(unix.EPERM)},
		"another ioctl":            {call{number: unix.SYS_IOCTL, args: [6]uint64{0, unix.TIOCGWINSZ}}, Nothing, allow},
		"personality, asked for":   {call{number: unix.SYS_PERSONALITY, args: [6]uint64{0xffffffff}}, Nothing, allow},
		"personality, changed":     {call{number: unix.SYS_PERSONALITY, args: [6]uint64{0x40000}}, Nothing, refusal(unix.EPERM)},
		"what drives a terminal":   {call{number: unix.SYS_IOCTL, args: [6]uint64{0, unix.TIOCSETD}}, Itself, refusal(unix.EPERM)},
		"TCP":                      {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP}}, Itself, allow},
		"SCTP":                     {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}}, Itself, refusal(unix.EPROTONOSUPPORT)},
		"UDP-Lite of version 6":    {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE}}, Itself, refusal(unix.EPROTONOSUPPORT)},
		"a unix socket, with IP":   {call{number: unix.SYS_SOCKET, args: [6]uint64{unix.AF_UNIX, 0, unix.IPPROTO_SCTP}}, Itself, allow},
		"all disks' writing":       {call{number: unix.SYS_SYNC}, Itself, unix.SECCOMP_RET_ERRNO},
		"a disk's writing":         {call{number: unix.SYS_SYNCFS}, Nothing, unix.SECCOMP_RET_ERRNO},
	} {
		if test.call.arch == 0 {
			test.call.arch = architecture
		}
		if got := verdict(t, test.network, test.call); got != test.want {
			t.Errorf("%s: %#x, want %#x", name, got, test.want)
		}
	}
}
