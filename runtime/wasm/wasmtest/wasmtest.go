// Package wasmtest makes small WebAssembly modules, byte by byte.
package wasmtest

import (
	"bytes"
	"cmp"
	"encoding/binary"
)

// Preview1 is the module whose functions modules may import.
const Preview1 = "wasi_snapshot_preview1"

// Source is a command as it is written by hand. It imports functions of four numbers, exports a memory of one page, and
// runs the instructions of Body. Its text lies in memory from TextAt on; what lies at 0 and at 4 is that address, and
// the text's length.
type Source struct {
	Imports [][2]string // by module and name
	Tables  []byte      // the section of tables; nil: none
	Locals  []byte      // of the function: how many, and of which kind; nil: none
	Body    []byte
	Export  string // what the function is exported as; empty: _start
	Text    string
}

// TextAt is where the text of a Source begins.
const TextAt = 16

// Says returns a command that writes a text to its standard output.
func Says(text string) Source {
	return Source{
		Imports: [][2]string{{Preview1, "fd_write"}}, Text: text,
		Body: []byte{0x41, 1, 0x41, 0, 0x41, 1, 0x41, 8, 0x10, 0, 0x1a}, // to 1, one text at 0; how many bytes, to 8
	}
}

// Echo returns a command that reads its standard input once, up to 60,000 bytes, and writes that to its standard
// output.
func Echo() Source {
	return Source{
		Imports: [][2]string{{Preview1, "fd_read"}, {Preview1, "fd_write"}},
		Body: []byte{
			0x41, 4, 0x41, 0xe0, 0xd4, 3, 0x36, 2, 0, // 60,000 at 4
			0x41, 0, 0x41, 0, 0x41, 1, 0x41, 4, 0x10, 0, 0x1a, // from 0, into one text at 0; how many bytes, to 4
			0x41, 1, 0x41, 0, 0x41, 1, 0x41, 8, 0x10, 1, 0x1a, // to 1, that text
		},
	}
}

// Section returns a section of a module.
func Section(id byte, parts ...[]byte) []byte {
	content := bytes.Join(parts, nil)
	return append(binary.AppendUvarint([]byte{id}, uint64(len(content))), content...)
}

// Named returns a name as modules have it, and what comes behind it.
func Named(name string, rest ...byte) []byte {
	return append(append(binary.AppendUvarint(nil, uint64(len(name))), name...), rest...)
}

// Bytes returns the module.
func (s Source) Bytes() []byte {
	s.Export = cmp.Or(s.Export, "_start")
	if s.Locals == nil {
		s.Locals = []byte{0}
	}
	if s.Tables == nil {
		s.Tables = []byte{0}
	}
	imports := []byte{byte(len(s.Imports))}
	for _, i := range s.Imports {
		imports = append(append(imports, Named(i[0])...), Named(i[1], 0, 0)...)
	}
	code := append(append(bytes.Clone(s.Locals), s.Body...), 0x0b)
	data := make([]byte, TextAt, TextAt+len(s.Text))
	data[0] = TextAt
	binary.LittleEndian.PutUint32(data[4:], uint32(len(s.Text)))
	data = append(data, s.Text...)
	return bytes.Join([][]byte{
		[]byte("\x00asm\x01\x00\x00\x00"),
		// types: four numbers to one; nothing to nothing
		Section(1, []byte{2, 0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f, 0x60, 0, 0}),
		Section(2, imports),
		Section(3, []byte{1, 1}),
		Section(4, s.Tables),
		Section(5, []byte{1, 0, 1}), // a memory of a page
		Section(7, []byte{2}, Named("memory", 2, 0), Named(s.Export, 0, byte(len(s.Imports)))),
		Section(10, []byte{1}, binary.AppendUvarint(nil, uint64(len(code))), code),
		Section(11, []byte{1, 0, 0x41, 0, 0x0b}, binary.AppendUvarint(nil, uint64(len(data))), data),
	}, nil)
}
