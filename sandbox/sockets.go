package sandbox

import (
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall/sandbox/inner"
)

// diagnosis is a socket with which all sockets of a sandbox's network can be listed (sock_diag(7)), including those
// that nobody has open because they are being sent from one process to another.
type diagnosis struct{ file *os.File }

// socketKind is a kind of sockets that a sandbox may have, with the request for them.
type socketKind struct {
	family, protocol byte
	request          []byte // after the family and the protocol
	head             int    // bytes of an answer before its attributes
	attribute        uint16 // tells what the socket holds
}

// These are the numbers of sock_diag's requests and answers.
const (
	askSockets     = 20  // SOCK_DIAG_BY_FAMILY
	memoryOfUnix   = 5   // UNIX_DIAG_MEMINFO, and the flag that asks for it
	queueOfUnix    = 4   // UNIX_DIAG_RQLEN
	peerOfUnix     = 2   // UNIX_DIAG_PEER
	memoryOfIP     = 7   // INET_DIAG_SKMEMINFO
	memoryOfLink   = 0   // NETLINK_DIAG_MEMINFO
	sizeOfUnix     = 16  // struct unix_diag_msg
	sizeOfIP       = 72  // struct inet_diag_msg
	sizeOfLink     = 28  // struct netlink_diag_msg
	allOfLink      = 255 // NDIAG_PROTO_ALL
	allStates      = 1<<32 - 1
	unixSends      = 208 * kib // default limit of the bytes in a socket between processes
	unixOverhead   = 1 * kib   // what the smallest piece of it takes
	datagramsInRow = 10        // datagrams in the queue of a socket, each from another one
)

func socketKinds() []socketKind {
	word := binary.NativeEndian.AppendUint32
	states := func(b []byte) []byte { return word(b, allStates) }
	ip := append([]byte{1 << (memoryOfIP - 1), 0}, append(states(nil), make([]byte, 48)...)...)
	unixRequest := append(word(word(states([]byte{0, 0}), 0), 1<<queueOfUnix|1<<memoryOfUnix|1<<peerOfUnix),
		make([]byte, 8)...)
	link := append(word(word([]byte{0, 0}, 0), 1), make([]byte, 8)...)
	return []socketKind{
		{unix.AF_UNIX, 0, unixRequest, sizeOfUnix, memoryOfUnix},
		{unix.AF_INET, unix.IPPROTO_TCP, ip, sizeOfIP, memoryOfIP},
		{unix.AF_INET6, unix.IPPROTO_TCP, ip, sizeOfIP, memoryOfIP},
		{unix.AF_INET, unix.IPPROTO_UDP, ip, sizeOfIP, memoryOfIP},
		{unix.AF_INET6, unix.IPPROTO_UDP, ip, sizeOfIP, memoryOfIP},
		{unix.AF_NETLINK, allOfLink, link, sizeOfLink, memoryOfLink},
	}
}

// openDiagnosis takes the socket that the init of a sandbox has opened there.
func openDiagnosis(init int) (*diagnosis, error) {
	pid, err := unix.PidfdOpen(init, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(pid) }() // nothing is written to it
	fd, err := unix.PidfdGetfd(pid, inner.Diagnosis, 0)
	if err != nil {
		return nil, err
	}
	return &diagnosis{os.NewFile(uintptr(fd), "diagnosis")}, nil
}

// detectSockets says why the sockets of sandboxes cannot be counted on this machine; empty when they can.
func detectSockets() string {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return err.Error()
	}
	d := &diagnosis{os.NewFile(uintptr(fd), "diagnosis")}
	defer d.file.Close()
	for _, kind := range socketKinds() {
		if kind.family == unix.AF_UNIX || kind.protocol == unix.IPPROTO_TCP {
			if _, err := d.bytes(kind); err != nil {
				return err.Error()
			}
		}
	}
	pid, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = unix.Close(pid) }() // nothing is written to it
	again, err := unix.PidfdGetfd(pid, fd, 0)
	if err != nil {
		return err.Error()
	}
	_ = unix.Close(again)
	return ""
}

// socketBytes returns the bytes that the sockets of the sandbox with this init hold.
func (r *run) socketBytes(init int) int64 {
	if r.sockets == nil {
		opened, err := openDiagnosis(init)
		if err != nil {
			return 0 // the init has not come so far; that sockets cannot be counted at all was found out before
		}
		r.sockets = opened
	}
	var total int64
	for _, kind := range socketKinds() {
		n, _ := r.sockets.bytes(kind) // Lacks names the kinds about which the kernel tells nothing
		total += n
	}
	return total
}

// bytes asks for all sockets of a kind, and adds up what they hold.
func (d *diagnosis) bytes(kind socketKind) (total int64, err error) {
	const dump = unix.NLM_F_REQUEST | unix.NLM_F_DUMP
	body := append([]byte{kind.family, kind.protocol}, kind.request...)
	head := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body))) // #nosec G115 -- it is small
	head = binary.NativeEndian.AppendUint16(head, askSockets)
	head = binary.NativeEndian.AppendUint16(head, dump)
	head = append(head, make([]byte, 8)...)
	fd := int(d.file.Fd()) // #nosec G115 -- a descriptor
	if err := unix.Sendto(fd, append(head, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	buffer := make([]byte, 64*kib)
	for {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return total, err
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofNlMsghdr; {
			size := int(binary.NativeEndian.Uint32(rest))
			if size < unix.SizeofNlMsghdr || size > len(rest) {
				return total, errors.New("an answer about sockets is cut")
			}
			switch message := rest[unix.SizeofNlMsghdr:size]; binary.NativeEndian.Uint16(rest[4:]) {
			case unix.NLMSG_DONE:
				return total, nil
			case unix.NLMSG_ERROR:
				return total, unix.Errno(-int32(binary.NativeEndian.Uint32(message))) // #nosec G115 -- the kernel's negative number
			default:
				total += kind.held(message)
			}
			rest = rest[min(len(rest), aligned(size)):]
		}
	}
}

func aligned(n int) int { return (n + 3) &^ 3 }

// held returns what one socket holds: its structure in the kernel, and the bytes that it received and sent.
func (k socketKind) held(message []byte) int64 {
	const structure, header = 2 * kib, 4
	total := int64(structure)
	if len(message) < k.head {
		return total
	}
	var sent, queued, peer int64
	for rest := message[k.head:]; len(rest) >= header; {
		size := int(binary.NativeEndian.Uint16(rest))
		if size < header || size > len(rest) {
			break
		}
		value := rest[header:size]
		number := func(i int) int64 { return int64(binary.NativeEndian.Uint32(value[4*i:])) }
		switch kind := binary.NativeEndian.Uint16(rest[2:]); {
		// struct sk_meminfo: received, its limit, sent, its limit, reserved, queued, options, backlog
		case kind == k.attribute && len(value) >= 8*4:
			total += number(0) + number(4) + number(6) + number(7)
			sent = max(number(2), number(5))
		case k.family == unix.AF_UNIX && kind == queueOfUnix && len(value) >= 4:
			queued = number(0)
		case k.family == unix.AF_UNIX && kind == peerOfUnix && len(value) >= 4:
			peer = number(0)
		}
		rest = rest[min(len(rest), aligned(size)):]
	}
	total += sent
	if k.family != unix.AF_UNIX {
		return total
	}
	// The bytes in its queue are counted at their sender, unless the sender is closed, which the kernel does not tell.
	if message[1] == unix.SOCK_DGRAM {
		return total + datagramsInRow*unixSends
	}
	if peer != 0 {
		return total
	}
	return total + min(queued*unixOverhead, unixSends)
}
