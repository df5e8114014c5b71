package wasm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"landfall.dev/landfall"
)

// These bound what nothing else bounds: what a module allocates when it is read, and when it runs.
const (
	maxTables      = 8
	maxElements    = 1 << 20 // at the beginning, of all tables
	maxTableGrowth = 1 << 17 // of each table, unless it begins larger
	maxLocals      = 50_000  // of a function, as browsers have it
	maxParameters  = 1000    // of a type, and as many results, as browsers have it
	// Bytes of what a function is called where a module ended: that stands there for each call that was not over.
	maxName = 4096
)

// header is how a module begins.
const header = "\x00asm\x01\x00\x00\x00"

// These are the sections that are looked at.
const (
	customSection = iota
	typeSection
	importSection
	functionSection
	tableSection
	memorySection
	globalSection
	exportSection
	startSection
	elementSection
	codeSection
	dataSection
)

// counted are sections of which each instance has every part, or the server: no module that a compiler made has so
// many.
func counted(id byte) (what string, most uint64) {
	switch id {
	case typeSection:
		return "types", 100_000
	case functionSection:
		return "functions", 200_000
	case globalSection:
		return "global variables", 50_000
	case exportSection:
		return "exports", 100_000
	case elementSection:
		return "pieces of tables", 100_000
	case dataSection:
		return "pieces of data", 100_000
	}
	return "", 0
}

// boundCount refuses a section of too many parts.
func boundCount(id byte, section []byte) error {
	what, most := counted(id)
	if n := (&reader{rest: section}).number(); what != "" && n > most {
		return invalid("it has %d %s; the limit is %d", n, what, most)
	}
	if id == elementSection && len(section) > maxElements { // each takes a byte
		return invalid("what it puts into tables has %d bytes; the limit is %d", len(section), maxElements)
	}
	return nil
}

// These are the kinds of what is imported.
const (
	importedFunction = iota
	importedTable
	importedMemory
	importedGlobal
	importedTag
)

// imported is what a module wants to be given.
type imported struct {
	module, name string
	kind         byte
}

// String says it for people.
func (i imported) String() string {
	kinds := map[byte]string{
		importedFunction: "function", importedTable: "table", importedMemory: "memory", importedGlobal: "global variable",
		importedTag: "tag",
	}
	return fmt.Sprintf("the %s %.100q of the module %.100q", kinds[i.kind], i.name, i.module)
}

// bounded returns a module that does the same within bounds, and what it imports. Its tables have a largest size; its
// functions ask at their beginning whether they are to end, as loops do anyway: code that did neither could not be
// stopped, and would stop everything else here. What is for debuggers is left out.
func bounded(module []byte) (confined []byte, imports []imported, err error) {
	if !strings.HasPrefix(string(module[:min(len(module), len(header))]), header) {
		return nil, nil, invalid("it is no WebAssembly module of version 1 (a component, or text, is none)")
	}
	r := &reader{rest: module[len(header):]}
	out := append(room(module), header...)
	for len(r.rest) > 0 && !r.failed {
		id := r.byte()
		content := r.bytes(r.number())
		if err := boundCount(id, content); err != nil {
			return nil, nil, err
		}
		switch id {
		case customSection:
			if !shortNames(content) {
				continue
			}
		case typeSection:
			err = boundTypes(content)
		case importSection:
			imports, err = readImports(content)
		case tableSection:
			content, err = boundTables(content)
		case codeSection:
			content, err = boundCode(content)
		}
		if err != nil {
			return nil, nil, err
		}
		out = binary.AppendUvarint(append(out, id), uint64(len(content)))
		out = append(out, content...)
	}
	if r.failed {
		return nil, nil, invalid("it ends in the middle of a section")
	}
	return out, imports, nil
}

// room returns an empty slice for what becomes of code: what is added is less than an eighth, as a rule.
func room(code []byte) []byte {
	const part = 8
	return make([]byte, 0, len(code)+len(code)/part)
}

// boundCode makes each function of a section ask at its beginning whether it is to end. One that calls nothing need
// not: it ends, or has a loop.
func boundCode(section []byte) ([]byte, error) {
	const calls = "\x10\x11\x12\x13\x14\x15" // the instructions; the bytes may also be something else
	loop := []byte{0x03, 0x40, 0x0b}         // an empty loop, at whose beginning it is asked
	r := &reader{rest: section}
	n := r.number()
	out := binary.AppendUvarint(room(section), n)
	for ; n > 0 && !r.failed; n-- {
		body := r.bytes(r.number())
		locals, code, err := splitLocals(body)
		if err != nil {
			return nil, err
		}
		if !bytes.ContainsAny(code, calls) {
			out = append(binary.AppendUvarint(out, uint64(len(body))), body...)
			continue
		}
		out = binary.AppendUvarint(out, uint64(len(body)+len(loop)))
		out = append(append(append(out, locals...), loop...), code...)
	}
	if r.failed || len(r.rest) > 0 {
		return nil, invalid("its code cannot be read")
	}
	return out, nil
}

// splitLocals parts the body of a function in its variables and its instructions.
func splitLocals(body []byte) (locals, code []byte, err error) {
	r := &reader{rest: body}
	var sum uint64
	for n := r.number(); n > 0 && !r.failed; n-- {
		sum += r.number()
		if kind := r.byte(); sum > maxLocals || kind == 0x63 || kind == 0x64 { // the types that go on
			return nil, nil,
				invalid("a function of it has more than %d local variables, or some of a kind that is not known here", maxLocals)
		}
	}
	if r.failed {
		return nil, nil, invalid("its code cannot be read")
	}
	return body[:len(body)-len(r.rest)], r.rest, nil
}

// readImports reads a section of imports. It ends at one of a kind that only newer rules have: they are refused anyway.
func readImports(section []byte) ([]imported, error) {
	r := &reader{rest: section}
	var all []imported
	for n := r.number(); n > 0 && !r.failed; n-- {
		i := imported{module: string(r.bytes(r.number())), name: string(r.bytes(r.number())), kind: r.byte()}
		if r.failed {
			break
		}
		all = append(all, i)
		if i.kind != importedFunction {
			return all, nil
		}
		r.number() // its type
	}
	if r.failed {
		return nil, invalid("its imports cannot be read")
	}
	return all, nil
}

// shortNames reports whether a section says what functions are called, and nothing that is too long for those who read
// where a module ended.
func shortNames(section []byte) bool {
	const ofModule, ofFunctions = 0, 1
	r := &reader{rest: section}
	if string(r.bytes(r.number())) != "name" {
		return false
	}
	for len(r.rest) > 0 && !r.failed {
		kind := r.byte()
		part := &reader{rest: r.bytes(r.number())}
		names := uint64(1)
		switch kind {
		case ofModule:
		case ofFunctions:
			names = part.number()
		default:
			continue
		}
		for ; names > 0 && !part.failed; names-- {
			if kind == ofFunctions {
				part.number() // which function
			}
			if len(part.bytes(part.number())) > maxName {
				return false
			}
		}
		r.failed = r.failed || part.failed
	}
	return !r.failed
}

// boundTypes refuses functions of very many parameters, which are all said where a module ended.
func boundTypes(section []byte) error {
	r := &reader{rest: section}
	for n := r.number(); n > 0 && !r.failed; n-- {
		r.byte() // that it is one of a function: the compiler sees to that
		for range 2 {
			values := r.number()
			if values > maxParameters {
				return invalid("it has functions of more than %d parameters or results", maxParameters)
			}
			r.bytes(values)
		}
	}
	return nil
}

// boundTables gives each table of a section a largest size.
func boundTables(section []byte) ([]byte, error) {
	const refused = "it has tables of a kind that is not known here"
	r := &reader{rest: section}
	n := r.number()
	if n > maxTables {
		return nil, invalid("it has %d tables; the limit is %d", n, maxTables)
	}
	out := binary.AppendUvarint(nil, n)
	var elements uint64
	for range n {
		kind, flags := r.byte(), r.byte()
		least := r.number()
		most := uint64(maxTableGrowth)
		if flags == 1 {
			most = min(most, r.number())
		}
		if r.failed || flags > 1 || kind != 0x70 && kind != 0x6f {
			return nil, invalid(refused)
		}
		if elements += least; least > maxElements || elements > maxElements {
			return nil, invalid("its tables have more than %d elements", maxElements)
		}
		out = append(out, kind, 1)
		out = binary.AppendUvarint(out, least)
		out = binary.AppendUvarint(out, max(most, least))
	}
	if len(r.rest) > 0 {
		return nil, invalid(refused)
	}
	return out, nil
}

// reader reads the numbers and bytes of a module.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) bytes(n uint64) []byte {
	if r.failed || n > uint64(len(r.rest)) {
		r.failed = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// number reads an unsigned number of 32 bits.
func (r *reader) number() uint64 {
	const longest = 5
	n, size := binary.Uvarint(r.rest[:min(len(r.rest), longest)])
	if size <= 0 || n > 1<<32-1 {
		r.failed = true
		return 0
	}
	r.bytes(uint64(size))
	return n
}

// invalid refuses a module.
func invalid(format string, args ...any) error {
	return &landfall.Error{Op: "wasm.Check", Kind: landfall.Invalid, Message: fmt.Sprintf(format, args...)}
}
