package inner

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Plan is what the server tells an init, over a pipe, because everybody can read command lines.
type Plan struct {
	Dir       string // the host's folder of the command; for Rooted, of its root. Empty for an init whose root was made
	At        string // where the command starts; for Rooted, where it sees its folder
	Temporary int64  // bytes of /tmp; for an init that makes it
	File      int64  // bytes of the largest file
	Writable  bool   // the command may write to its folder
	Network   bool   // there is a proxy
	// a control group counts all memory that the kernel allocates; otherwise the server counts, and needs Diagnosis
	Charged   bool
	Processes int // limit of processes of its user, which no one else has; 0: no limit

	Filter string // of system calls, as Filter returns it

	Env   []string
	Args  []string
	Files map[string]string // small files for the command alone, by their paths below one of Folders
}

// Bytes returns the plan as the server writes it.
func (p *Plan) Bytes() []byte {
	words := append([]string{
		p.Dir, p.At, strconv.FormatInt(p.Temporary, 10), strconv.FormatInt(p.File, 10),
		strconv.FormatBool(p.Writable), strconv.FormatBool(p.Network), strconv.FormatBool(p.Charged),
		strconv.Itoa(p.Processes), strconv.Itoa(len(p.Env)), strconv.Itoa(len(p.Files)),
	}, p.Env...)
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		words = append(words, name, base64.StdEncoding.EncodeToString([]byte(p.Files[name]))) // a word has no zero byte
	}
	text := strings.Join(append(words, p.Args...), "\x00")
	plan := binary.NativeEndian.AppendUint32(nil, uint32(len(p.Filter))) // #nosec G115 -- it is small
	// #nosec G115 -- the kernel would refuse a longer command
	plan = binary.NativeEndian.AppendUint32(plan, uint32(len(text)))
	return append(append(plan, p.Filter...), text...)
}

// readPlan reads what Bytes wrote, and nothing after it.
func readPlan(r io.Reader) (*Plan, error) {
	const size, most, fixed = 8, 64 << 20, 10
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
	processes, many := strconv.Atoi(words[7])
	variables, bad := strconv.Atoi(words[8])
	files, worse := strconv.Atoi(words[9])
	err = errors.Join(err, failed, many, bad, worse)
	if err != nil || variables < 0 || files < 0 || files >= len(words) || variables+2*files >= len(words)-fixed {
		return nil, errors.Join(wrong, err)
	}
	args := words[fixed+variables:]
	contents := map[string]string{}
	for ; files > 0; files-- {
		content, err := base64.StdEncoding.DecodeString(args[1])
		if err != nil {
			return nil, errors.Join(wrong, err)
		}
		contents[args[0]], args = string(content), args[2:]
	}
	return &Plan{
		Dir: words[0], At: words[1], Temporary: temporary, File: file, Filter: string(text[:filter]),
		Writable: words[4] == "true", Network: words[5] == "true", Charged: words[6] == "true", Processes: processes,
		Env: words[fixed : fixed+variables], Files: contents, Args: args,
	}, nil
}
