package inner

import (
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"
)

// Plan is what an init is told by the server, over a pipe: no command line shows it.
type Plan struct {
	Dir       string // the host's folder of the command; for Rooted, of its root. Nothing for who finds a root made
	At        string // where the command starts; but for Rooted, where it sees its folder
	Temporary int64  // bytes of /tmp, for who finds none
	File      int64  // bytes of the largest file
	Writable  bool   // the command may write to its folder
	Network   bool   // there is a proxy

	Filter string // of system calls, as Filter returns it; nothing for who is under one

	Env  []string
	Args []string
}

// Bytes returns the plan as the server writes it.
func (p *Plan) Bytes() []byte {
	words := append([]string{
		p.Dir, p.At, strconv.FormatInt(p.Temporary, 10), strconv.FormatInt(p.File, 10),
		strconv.FormatBool(p.Writable), strconv.FormatBool(p.Network), strconv.Itoa(len(p.Env)),
	}, p.Env...)
	text := strings.Join(append(words, p.Args...), "\x00")
	plan := binary.NativeEndian.AppendUint32(nil, uint32(len(p.Filter))) // #nosec G115 -- it is small
	plan = binary.NativeEndian.AppendUint32(plan, uint32(len(text)))     // #nosec G115 -- the kernel would take no such command
	return append(append(plan, p.Filter...), text...)
}

// readPlan reads what Bytes wrote, and nothing of what follows.
func readPlan(r io.Reader) (*Plan, error) {
	const size, most, fixed = 8, 64 << 20, 7
	var head [size]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	wrong := errors.New("this is no plan")
	filter, length := binary.NativeEndian.Uint32(head[:size/2]), binary.NativeEndian.Uint32(head[size/2:])
	if filter > most || length > most {
		return nil, wrong
	}
	text := make([]byte, filter+length)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	words := strings.Split(string(text[filter:]), "\x00")
	if len(words) < fixed {
		return nil, wrong
	}
	temporary, err := strconv.ParseInt(words[2], 10, 64)
	file, failed := strconv.ParseInt(words[3], 10, 64)
	variables, bad := strconv.Atoi(words[6])
	if err := errors.Join(err, failed, bad); err != nil || variables < 0 || variables >= len(words)-fixed {
		return nil, errors.Join(wrong, err)
	}
	return &Plan{
		Dir: words[0], At: words[1], Temporary: temporary, File: file, Filter: string(text[:filter]),
		Writable: words[4] == "true", Network: words[5] == "true", Env: words[fixed : fixed+variables], Args: words[fixed+variables:],
	}, nil
}
