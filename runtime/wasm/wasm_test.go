package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/wasm"
	"landfall.dev/landfall/runtime/wasm/wasmtest"
)

// A module that is right is compiled once, on this machine: not again by another process that has the same folder.
func TestCompiledOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "wasm")
	m := reopen(t, dir, wasm.Limits{})
	hello := wasmtest.Says("hello")
	if err := m.Check(t.Context(), bytes.NewReader(hello.Bytes())); err != nil {
		t.Fatal(err)
	}
	code := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "wazero-*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	made := code()
	if len(made) != 1 {
		t.Fatalf("there are %d files of machine code, want one", len(made))
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v; want that it is the server's alone", info.Mode(), err)
	}
	for range 2 {
		other, err := wasm.Open(t.Context(), dir, wasm.Limits{}, "/bin/false")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run(t.Context(), other, load(t, other, hello)); err != nil || got != "hello" {
			t.Errorf("it wrote %q, %v", got, err)
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
	if again := code(); len(again) != 1 || again[0] != made[0] {
		t.Errorf("then there are %q", again)
	}
}

// A module that cannot be compiled any more, because the machine is busier than when its version was made, does not
// take a minute of each call: it is tried again after a while.
func TestRefusedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tries := filepath.Join(dir, "tries")
	m, err := wasm.Open(t.Context(), filepath.Join(dir, "wasm"), wasm.Limits{}, "/bin/sh", "-c",
		"echo x >> "+tries+"; echo too much; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	file := stored(t, wasmtest.Says("hello").Bytes())
	for range 3 {
		if _, err := m.Load(t.Context(), file); landfall.KindOf(err) != landfall.Invalid ||
			!strings.Contains(landfall.MessageOf(err), "too much") {
			t.Errorf("the error is %v", err)
		}
	}
	if said, err := os.ReadFile(tries); err != nil || string(said) != "x\n" {
		t.Errorf("the compiler was started %d times, %v; want once", len(said)/2, err)
	}
}

// Machine code that is damaged is made again, once.
func TestDamagedCode(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(code []byte) []byte{
		"cut off": func(code []byte) []byte { return code[:len(code)/2] },
		"empty":   func([]byte) []byte { return nil },
		"another bit": func(code []byte) []byte {
			return append(code[:len(code)-30], append([]byte{^code[len(code)-30]}, code[len(code)-29:]...)...)
		},
	} {
		dir := filepath.Join(t.TempDir(), "wasm")
		file := stored(t, wasmtest.Says("hello").Bytes())
		if _, err := reopen(t, dir, wasm.Limits{}).Load(t.Context(), file); err != nil {
			t.Fatal(err)
		}
		found, err := filepath.Glob(filepath.Join(dir, "wazero-*", "*"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%q, %v", found, err)
		}
		code, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(found[0], damage(code), 0o600); err != nil {
			t.Fatal(err)
		}
		m := reopen(t, dir, wasm.Limits{})
		module, err := m.Load(t.Context(), file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := run(t.Context(), m, module); err != nil || got != "hello" {
			t.Errorf("%s: it wrote %q, %v", name, got, err)
		}
	}
}

// Machine code that an earlier version made, or another processor, is not taken for ours: nothing is compiled in this
// process.
func TestCodeOfAnother(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "wasm")
	file := stored(t, wasmtest.Says("hello").Bytes())
	if _, err := reopen(t, dir, wasm.Limits{}).Load(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "wazero-*", "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	records, err := filepath.Glob(filepath.Join(dir, "modules", "*"))
	if err != nil || len(records) != 1 {
		t.Fatalf("%q, %v", records, err)
	}
	// Another processor's has another name; so has its record.
	another := strings.Repeat("0", len(filepath.Base(found[0])))
	if err := os.Rename(found[0], filepath.Join(filepath.Dir(found[0]), another)); err != nil {
		t.Fatal(err)
	}
	if to := filepath.Join(dir, "modules", runtime.GOOS+"-"+runtime.GOARCH); to != records[0] {
		if err := os.Rename(records[0], to); err != nil {
			t.Fatal(err)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "modules", "*", "*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%q, %v", names, err)
	}
	if err := os.WriteFile(names[0], []byte(filepath.Base(filepath.Dir(found[0]))+"/"+another), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := wasm.Open(t.Context(), dir, wasm.Limits{}, "/bin/false")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	if _, err := m.Load(t.Context(), file); err == nil {
		t.Error("the module was compiled, and not by the compiler")
	}
}

// What cannot be run here is refused, with what is wrong.
func TestRefused(t *testing.T) {
	t.Parallel()
	m := open(t, wasm.Limits{Module: 1 << 20})
	wrong := wasmtest.Says("")
	wrong.Body = []byte{0x41, 1, 0x6a} // adds what is not there
	types := wasmtest.Says("")
	types.Imports[0][1] = "proc_exit"
	library := wasmtest.Says("")
	library.Export = "_initialize"
	host := wasmtest.Says("")
	host.Imports[0] = [2]string{"env", "emscripten_notify_memory_growth"}
	future := wasmtest.Says("")
	future.Imports[0][1] = "sock_open"
	tables := wasmtest.Says("")
	tables.Tables = []byte{1, 0x70, 0, 0xff, 0xff, 0xff, 0x7f}
	locals := wasmtest.Says("")
	locals.Locals = []byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f}
	imports := bytes.Replace(wasmtest.Says("").Bytes(), append([]byte{2, 35, 1}, wasmtest.Named(wasmtest.Preview1)...),
		append([]byte{2, 35, 9}, wasmtest.Named(wasmtest.Preview1)...), 1)
	memory := bytes.Replace(wasmtest.Says("").Bytes(), []byte("\x08fd_write\x00\x00"), []byte("\x08fd_write\x02\x00"), 1)
	for name, test := range map[string]struct {
		module []byte
		want   string
	}{
		"text":    {[]byte("(module)"), "no WebAssembly module"},
		"nothing": {nil, "no WebAssembly module"},
		"half":    {wasmtest.Says("hello").Bytes()[:60], "middle of a section"},
		"large":   {make([]byte, 1<<20+1), "more than 1048576 bytes"},
		"wrong":   {wrong.Bytes(), "cannot pop"},
		"types":   {types.Bytes(), `function "proc_exit" of the module "wasi_snapshot_preview1" with other types`},
		"library": {library.Bytes(), "_start"},
		"host":    {host.Bytes(), `function "emscripten_notify_memory_growth" of the module "env"`},
		"future":  {future.Bytes(), `function "sock_open" of the module "wasi_snapshot_preview1"`},
		"tables":  {tables.Bytes(), "more than 1048576"},
		"locals":  {locals.Bytes(), "local variables"},
		"imports": {imports, "imports cannot be read"},
		"memory":  {memory, `the memory "fd_write" of the module "wasi_snapshot_preview1"`},
		"no memory": {bytes.Replace(wasmtest.Says("").Bytes(), []byte("\x06memory"), []byte("\x06memery"), 1),
			"exports no memory"},
	} {
		err := m.Check(t.Context(), bytes.NewReader(test.module))
		// N-026: a module that does not validate, or imports what is not given, is refused with what it imports
		if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), test.want) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, test.want)
		}
	}
	// It still works.
	if got, err := run(t.Context(), m, load(t, m, wasmtest.Says("hello"))); err != nil || got != "hello" {
		t.Errorf("then it wrote %q, %v", got, err)
	}
}

// A module may not have so many parts that each of its calls takes hundreds of megabytes, of which no memory's limit
// knows.
func TestManyParts(t *testing.T) {
	t.Parallel()
	m := open(t, wasm.Limits{})
	right := wasmtest.Says("hello").Bytes()
	const many, long = "\x81\xea\x30", "\x80\x80\xc0\x00" // 800,001; 1 MiB
	for section, test := range map[byte]struct{ content, want string }{
		1:  {many, "800001 types"},
		3:  {many, "800001 functions"},
		6:  {many, "800001 global variables"},
		7:  {many, "800001 exports"},
		9:  {many, "800001 pieces of tables"},
		11: {many, "800001 pieces of data"},
		// One type of that many parameters.
		101: {"\x01\x60\xff\xff\xff\xff\x0f", "more than 1000 parameters"},
		// One piece of that many elements.
		109: {"\x01\x01\x00" + long + strings.Repeat("\x00", 1<<20), "into tables"},
	} {
		bomb := bytes.Join([][]byte{right[:8], wasmtest.Section(section%100, []byte(test.content)), right[8:]}, nil)
		err := m.Check(t.Context(), bytes.NewReader(bomb))
		if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), test.want) {
			t.Errorf("section %d: the error is %v, want one with %q", section, err, test.want)
		}
	}
}

// What a module calls its functions stands in the error of each call that ends badly, and what it imports in that of
// its check: a name of megabytes does not, since who calls such a module, or pushes it, would take as much of the
// server's memory each time.
func TestLongNames(t *testing.T) {
	t.Parallel()
	m := open(t, wasm.Limits{})
	trapAfter := []byte{ // adds one to what lies at 1000; calls itself while that is below 25, and then ends
		0x41, 0, 0x41, 0, 0x28, 2, 0xe8, 7, 0x41, 1, 0x6a, 0x36, 2, 0xe8, 7, 0x41, 0, 0x28, 2, 0xe8, 7, 0x41, 25, 0x49, 0x04,
		0x40, 0x10, 0, 0x0b, 0x00,
	}
	named := func(module, function string) []byte {
		part := func(id byte, content []byte) []byte { return wasmtest.Section(id, content) } // they look like sections
		return append(wasmtest.Source{Body: trapAfter}.Bytes(), wasmtest.Section(0, wasmtest.Named("name"),
			part(0, wasmtest.Named(module)), part(1, append([]byte{1, 0}, wasmtest.Named(function)...)))...)
	}
	long := strings.Repeat("n", 1<<20)
	for title, test := range map[string]struct {
		module []byte
		says   string
	}{
		"names":           {named("shop", "order"), "order"},
		"a long function": {named("shop", long), "unreachable"},
		"a long module":   {named(long, "order"), "unreachable"},
		"half a section": {append(wasmtest.Source{Body: trapAfter}.Bytes(),
			wasmtest.Section(0, wasmtest.Named("name", 1, 200, 1))...), "unreachable"},
		"a list without end": {append(wasmtest.Source{Body: trapAfter}.Bytes(),
			wasmtest.Section(0, wasmtest.Named("name", 1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f))...), "unreachable"},
	} {
		module, err := m.Load(t.Context(), stored(t, test.module))
		if err != nil {
			t.Errorf("%s: %v", title, err)
			continue
		}
		_, err = run(t.Context(), m, module)
		end, ok := errors.AsType[*wasm.EndError](err)
		if !ok || !strings.Contains(end.Trap, test.says) || len(end.Trap) > 10_000 {
			t.Errorf("%s: the error is %.300v, of %d bytes; want one with %q", title, err, len(fmt.Sprint(err)), test.says)
		}
	}
	imports, twice := wasmtest.Says(""), wasmtest.Says("").Bytes()
	imports.Imports[0][1] = long
	exported := wasmtest.Section(7, []byte{2}, wasmtest.Named(long, 2, 0), wasmtest.Named(long, 0, 1))
	twice = bytes.Replace(twice, wasmtest.Section(7, []byte{2}, wasmtest.Named("memory", 2, 0),
		wasmtest.Named("_start", 0, 1)), exported, 1)
	for title, module := range map[string][]byte{"imports": imports.Bytes(), "twice exported": twice} {
		err := m.Check(t.Context(), bytes.NewReader(module))
		if n := len(landfall.MessageOf(err)); landfall.KindOf(err) != landfall.Invalid || n > 2000 {
			t.Errorf("%s: the error is %.300v, of %d bytes", title, err, n)
		}
	}
}

// A module that wants a lot of memory to be read fails alone.
func TestCompilerBomb(t *testing.T) {
	t.Parallel()
	m := open(t, wasm.Limits{})
	const locals = "\x02\x05\xff\xff\xff\xff\x0f" // what those of so many functions are called
	bomb := append(wasmtest.Says("").Bytes(), wasmtest.Section(0, wasmtest.Named("name"), []byte(locals))...)
	err := m.Check(t.Context(), bytes.NewReader(bomb))
	if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), "MiB to compile") {
		t.Errorf("the error is %v, want that it took too much memory", err)
	}
}

// What a module takes of the processors bounds its compilation, not how long it waits for them; here less is allowed
// than it takes. A compilation that nobody waits for any more says nothing of the module.
func TestCompileTime(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	compiler := append([]string{"/bin/sh", "-c", `ulimit -S -t 1; exec "$@"`, "sh"}, wasm.Compiler(self)...)
	m, err := wasm.Open(t.Context(), filepath.Join(t.TempDir(), "wasm"), wasm.Limits{}, compiler...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	long := wasmtest.Source{Body: bytes.Repeat([]byte{0x41, 0, 0x04, 0x40, 0x0b}, 2_000_000)}.Bytes() // so many ifs
	err = m.Check(t.Context(), bytes.NewReader(long))
	if landfall.KindOf(err) != landfall.Invalid ||
		!strings.Contains(landfall.MessageOf(err), "more than 1 s of the processors' time") {
		t.Errorf("the error is %v, want that it took too long", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(100*time.Millisecond, cancel).Stop()
	if err := m.Check(ctx, bytes.NewReader(long)); landfall.Is(err, landfall.Invalid) {
		t.Errorf("of one that was stopped: %v", err)
	}
}

// spins are modules that never end: in a loop, by calling themselves, by sleeping.
func spins() map[string]wasmtest.Source {
	loop := wasmtest.Source{Body: []byte{0x03, 0x40, 0x0c, 0, 0x0b}}
	// adds one to what lies at 1000
	deeper := []byte{0x41, 0, 0x41, 0, 0x28, 2, 0xe8, 7, 0x41, 1, 0x6a, 0x36, 2, 0xe8, 7}
	higher := []byte{0x41, 0, 0x41, 0, 0x28, 2, 0xe8, 7, 0x41, 1, 0x6b, 0x36, 2, 0xe8, 7} // takes one away
	// unless that is 50, calls itself twice
	twice := []byte{0x41, 0, 0x28, 2, 0xe8, 7, 0x41, 50, 0x49, 0x04, 0x40, 0x10, 0, 0x10, 0, 0x0b}
	sleep := wasmtest.Source{Imports: [][2]string{{wasmtest.Preview1, "poll_oneoff"}},
		Body: []byte{0x41, 0x80, 1, 0x41, 0x80, 2, 0x41, 1, 0x41, 0x80, 4, 0x10, 0, 0x1a}}
	// a subscription to a clock, of a very long time
	sleep.Text = strings.Repeat("\x00", 128-wasmtest.TextAt+24) + strings.Repeat("\xff", 6)
	return map[string]wasmtest.Source{"loop": loop, "recursion": {Body: bytes.Join([][]byte{deeper, twice, higher}, nil)},
		"sleep": sleep}
}

// Whatever a module does, it ends when its time is over.
func TestStopped(t *testing.T) {
	t.Parallel()
	m := open(t, wasm.Limits{})
	for name, s := range spins() {
		module := load(t, m, s)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("time is over"))
		_, err := run(ctx, m, module)
		cancel()
		if err == nil || err.Error() != "time is over" {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// A module that waits for very many things at once is told that it may not, before the server takes memory for each;
// one that waits for fewer does so.
func TestPollsAreFew(t *testing.T) {
	t.Parallel()
	m := open(t, wasm.Limits{})
	// 1,024 of them, and one more: EINVAL
	for few, want := range map[string]string{"\x80\x08": "\x00", "\x81\x08": "\x1c"} {
		poll := wasmtest.Source{
			Imports: [][2]string{{wasmtest.Preview1, "poll_oneoff"}, {wasmtest.Preview1, "fd_write"}}, Text: "?",
			Body: slices.Concat( // writes the answer to so many clocks of no time, which is what there is from 4096 on
				[]byte{0x41, wasmtest.TextAt, 0x41, 0x80, 0x20, 0x41, 0x80, 0x20, 0x41}, []byte(few),
				[]byte{0x41, 8, 0x10, 0, 0x36, 2, 0},
				[]byte{0x41, 1, 0x41, 0, 0x41, 1, 0x41, 8, 0x10, 1, 0x1a},
			),
		}
		if got, err := run(t.Context(), m, load(t, m, poll)); err != nil || got != want {
			t.Errorf("the answer to %q is %q, %v; want %q", few, got, err, want)
		}
	}
}

// One call of WASI that writes the same text again and again ends, too.
func TestFloodInOneCall(t *testing.T) {
	t.Parallel()
	const texts = 8000
	m := open(t, wasm.Limits{})
	for name, to := range map[string]byte{"standard output": 1, "standard error": 2} {
		flood := wasmtest.Source{
			Imports: [][2]string{{wasmtest.Preview1, "fd_write"}},
			Text:    strings.Repeat("\x00\x00\x00\x00\x01\x00\x00\x00", texts),
			// It writes 8000 (0xc0 0x3e) texts, each of which is the byte at 0.
			Body: []byte{0x41, to, 0x41, wasmtest.TextAt, 0x41, 0xc0, 0x3e, 0x41, 8, 0x10, 0, 0x1a},
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		out := &stopper{stop: func() { cancel(errors.New("time is over")) }}
		err := m.Run(ctx, load(t, m, flood), wasm.Program{Memory: 1 << 20, Stdin: bytes.NewReader(nil), Stdout: out,
			Stderr: out})
		if err == nil || err.Error() != "time is over" || out.writes != 1 {
			t.Errorf("%s: %d texts were written after the time was over, %v", name, out.writes-1, err)
		}
	}
}

// stopper is a writer during whose first write the time is over.
type stopper struct {
	stop   func()
	writes int
}

// Write implements io.Writer.
func (s *stopper) Write(p []byte) (int, error) {
	s.stop()
	s.writes++
	return len(p), nil
}

// Many run at once, each with a memory of its own; what is unloaded is there again when it is needed.
func TestMany(t *testing.T) {
	t.Parallel()
	m := open(t, wasm.Limits{Code: 1})
	texts := []string{"one", "two", "three"}
	var modules []*wasm.Module
	for _, text := range texts {
		modules = append(modules, load(t, m, wasmtest.Says(text)))
	}
	var group sync.WaitGroup
	for i := range 30 {
		group.Go(func() {
			if got, err := run(t.Context(), m, modules[i%3]); err != nil || got != texts[i%3] {
				t.Errorf("it wrote %q, %v; want %q", got, err, texts[i%3])
			}
		})
	}
	group.Wait()
}

// A module that ends otherwise than it should says how.
func TestEnds(t *testing.T) {
	t.Parallel()
	m := open(t, wasm.Limits{Memory: 2 << 20})
	for name, test := range map[string]struct {
		source wasmtest.Source
		want   wasm.EndError
	}{
		"exit code": {wasmtest.Source{Imports: [][2]string{{wasmtest.Preview1, "fd_write"}}, Body: []byte{0x00}},
			wasm.EndError{Trap: "unreachable"}},
		"stack": {wasmtest.Source{Body: []byte{0x10, 0}}, wasm.EndError{Trap: "stack overflow"}},
		"memory": {wasmtest.Source{Body: []byte{0x41, 0xe4, 0, 0x40, 0, 0x41, 0x7f, 0x46, 0x04, 0x40, 0x00, 0x0b}},
			wasm.EndError{Trap: "unreachable", Memory: true}},
	} {
		_, err := run(t.Context(), m, load(t, m, test.source))
		end, ok := errors.AsType[*wasm.EndError](err)
		if !ok {
			t.Errorf("%s: the error is %v", name, err)
			continue
		}
		if !strings.HasPrefix(end.Trap, test.want.Trap) || end.Memory != test.want.Memory || end.Code != test.want.Code {
			t.Errorf("%s: it ended as %+v, want %+v", name, end, test.want)
		}
	}
	module := load(t, m, wasmtest.Says("hello"))
	err := m.Run(t.Context(), module, wasm.Program{Memory: 1000, Stdin: bytes.NewReader(nil)})
	if end, ok := errors.AsType[*wasm.EndError](err); !ok || !end.Memory {
		t.Errorf("a module that begins larger than it may be: the error is %v", err)
	}
	if got, err := run(t.Context(), m, module); err != nil || got != "hello" {
		t.Errorf("then it wrote %q, %v", got, err)
	}
}

// A module has nothing of the machine but its three streams: there is no folder and no socket behind any other number.
func TestSeesNothing(t *testing.T) {
	t.Parallel()
	m := open(t, wasm.Limits{})
	const bad, most = 8, 10 // EBADF of WASI
	for number := byte(3); number < most; number++ {
		module := load(t, m, wasmtest.Source{
			Imports: [][2]string{{wasmtest.Preview1, "fd_read"}, {wasmtest.Preview1, "fd_write"}}, Text: "?",
			Body: []byte{
				0x41, wasmtest.TextAt, 0x41, number, 0x41, 0, 0x41, 1, 0x41, 8, 0x10, 0, // what reading it comes to
				0x41, '0', 0x6a, 0x3a, 0, 0, // is the text, as a digit
				0x41, 1, 0x41, 0, 0x41, 1, 0x41, 8, 0x10, 1, 0x1a,
			},
		})
		if got, err := run(t.Context(), m, module); err != nil || got != string(rune('0'+bad)) {
			t.Errorf("reading descriptor %d comes to %q, %v; want %d: it is none", number, got, err, bad)
		}
	}
}

// BenchmarkRun runs the smallest module that says something.
func BenchmarkRun(b *testing.B) {
	m := open(b, wasm.Limits{})
	module := load(b, m, wasmtest.Says("hello"))
	for b.Loop() {
		if _, err := run(b.Context(), m, module); err != nil {
			b.Fatal(err)
		}
	}
}
