package wasm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"golang.org/x/sys/unix"

	"landfall.dev/landfall"
)

// word is the argument by which this binary becomes a compiler.
const word = "compile-module"

// Compiler returns the program that Open takes, when it is a binary whose main calls Forward first.
func Compiler(binary string) []string { return []string{binary, word} }

// These bound one compilation. It may take the processors' time, however long it waits for them on a busy machine, and
// it ends in any case.
const (
	compileTime   = time.Minute // of each processor
	compileEnd    = 10 * time.Minute
	mib           = 1 << 20
	compileMemory = 1024 * mib
)

// The exit codes of a compiler.
const (
	compiled   = 0
	refused    = 3 // what is wrong with the module is on its standard output
	notStarted = 4 // it could not limit itself
	notWritten = 5 // there was no place for the machine code
)

// Forward is the compiler: when args are those of one, it compiles the module on standard input into a folder, within
// bounds of memory, and returns the exit code. Otherwise handled is false. The program calls it before anything else.
func Forward(args []string) (code int, handled bool) {
	const count = 2
	if len(args) != count || args[0] != word {
		return 0, false
	}
	over, most, err := limitTime(compileTime * time.Duration(runtime.GOMAXPROCS(0)))
	if err = errors.Join(err, limitMemory(compileMemory)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return notStarted, true
	}
	ended := make(chan error, 1)
	go func() {
		module, err := io.ReadAll(os.Stdin)
		if err == nil {
			err = compileHere(context.Background(), module, args[1])
		}
		ended <- err
	}()
	select {
	case err = <-ended:
	case <-over:
		err = invalid("it took more than %.0f s of the processors' time to compile", most.Seconds())
	}
	switch {
	case err == nil:
		return compiled, true
	case landfall.Is(err, landfall.Unavailable): // which is no fault of the module's
		fmt.Fprintln(os.Stderr, err)
		return notWritten, true
	}
	fmt.Fprint(os.Stdout, landfall.MessageOf(err))
	return refused, true
}

// limitMemory makes this process fail when it wants so many bytes more than it has.
func limitMemory(more uint64) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(status), "\nVmData:")
	var kib uint64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return err
	}
	const unit = 1 << 10
	limit := kib*unit + more
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit})
}

// limitTime lets over receive when this process has taken so much of the processors' time, or less where less was
// allowed before: most. The kernel ends it soon after.
func limitTime(allowed time.Duration) (over <-chan os.Signal, most time.Duration, err error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CPU, &limit); err != nil {
		return nil, 0, err
	}
	const grace = 5 // seconds
	limit.Cur = min(limit.Cur, uint64(allowed.Seconds()))
	limit.Max = min(limit.Max, limit.Cur+grace)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGXCPU)
	// #nosec G115 -- at most allowed
	return signals, time.Duration(limit.Cur) * time.Second, unix.Setrlimit(unix.RLIMIT_CPU, &limit)
}

// compileApart compiles in a process of its own, with nothing of this one's environment.
func compileApart(ctx context.Context, compiler []string, module []byte, cache string) error {
	limited, cancel := context.WithTimeout(ctx, compileEnd)
	defer cancel()
	cmd := exec.CommandContext(limited, compiler[0], append(slices.Clone(compiler[1:]), cache)...)
	cmd.Env = []string{"GOTRACEBACK=none"}
	cmd.Stdin = bytes.NewReader(module)
	const wait = time.Second
	cmd.WaitDelay = wait
	out, err := cmd.Output()
	const most = 1000 // bytes of what is shown: it may name what the module calls as it likes
	out = out[:min(len(out), most)]
	fault, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return failed(context.Cause(ctx))
	case limited.Err() != nil:
		return invalid("it took more than %.0f minutes to compile", compileEnd.Minutes())
	case exited && fault.ExitCode() < 0 && fault.UserTime()+fault.SystemTime() > compileTime: // before it could say so
		return invalid("it took more than %.0f s of the processors' time to compile", compileTime.Seconds())
	case exited && fault.ExitCode() == refused:
		return invalid("%s", landfall.Plain(string(out)))
	case exited && outOfMemory.Match(fault.Stderr):
		return invalid("it took more than %d MiB to compile", compileMemory/mib)
	case exited && strings.HasPrefix(string(fault.Stderr), "panic: "):
		first, _, _ := strings.Cut(string(fault.Stderr), "\n")
		return invalid("the compiler fails on it (%s)", landfall.Plain(first))
	case exited:
		const line = 200
		return failed(fmt.Errorf("%w: %s", err, landfall.Plain(string(fault.Stderr[:min(len(fault.Stderr), line)]))))
	}
	return failed(err)
}

// compileHere compiles in this process.
func compileHere(ctx context.Context, module []byte, cache string) error {
	kept, err := wazero.NewCompilationCacheWithDir(cache)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = kept.Close(ctx) }() // its files are written
	r, err := newRuntime(ctx, kept)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = r.Close(ctx) }()
	compiled, err := r.CompileModule(experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0)), module)
	if _, ofFile := errors.AsType[*fs.PathError](err); ofFile { // the disk is full, for example
		return failed(err)
	}
	if err != nil {
		return invalid("%s", strings.TrimPrefix(err.Error(), "invalid "))
	}
	return checkCommand(r, compiled)
}

// compileFunc compiles a module, and leaves its machine code in a folder.
type compileFunc func(ctx context.Context, module []byte, cache string) error

// codeOf compiles a module to a new folder in dir, and returns that folder and the name of its machine code in it.
func codeOf(ctx context.Context, dir string, module []byte, compile compileFunc) (temp, name string, err error) {
	if temp, err = os.MkdirTemp(dir, ".new-"); err != nil {
		return "", "", failed(err)
	}
	if err := compile(ctx, module, temp); err != nil {
		return temp, "", err
	}
	made, err := fs.Glob(os.DirFS(temp), "wazero-*/*")
	if err != nil || len(made) != 1 {
		return temp, "", failed(errors.Join(err, errors.New("the compiler made nothing")))
	}
	return temp, made[0], nil
}

// targetOf names what machine code made now is for: this version of the compiler and this kind of processor, which are
// both in the name that the compiler gives the code of any module. What was made for another would not be found, and be
// made again, in this process.
func targetOf(ctx context.Context, dir string) (string, error) {
	const nothing = header + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" + "\x05\x03\x01\x00\x00" +
		"\x07\x13\x02" + "\x06memory\x02\x00" + "\x06_start\x00\x00" + "\x0a\x04\x01\x02\x00\x0b"
	temp, name, err := codeOf(ctx, dir, []byte(nothing), compileHere)
	if temp != "" {
		_ = os.RemoveAll(temp)
	}
	return strings.ReplaceAll(name, "/", "-"), err
}

// checkCommand refuses a module that is no command, or whose imports are of another type than what it is given.
func checkCommand(r wazero.Runtime, module wazero.CompiledModule) error {
	start, ok := module.ExportedFunctions()["_start"]
	if !ok || len(start.ParamTypes())+len(start.ResultTypes()) > 0 {
		return invalid("it has no function _start, so it is no command: build a program, not a library (a WASI reactor " +
			"has no _start)")
	}
	if _, ok := module.ExportedMemories()["memory"]; !ok {
		return invalid("it exports no memory")
	}
	functions := given(r)
	for _, f := range module.ImportedFunctions() {
		of, name, _ := f.Import()
		g := functions[name] // it is there: see checkImports
		if g == nil || !slices.Equal(f.ParamTypes(), g.ParamTypes()) || !slices.Equal(f.ResultTypes(), g.ResultTypes()) {
			return invalid("it imports %s with other types than that has", imported{module: of, name: name})
		}
	}
	return nil
}

// given returns what modules can import.
func given(r wazero.Runtime) map[string]api.FunctionDefinition {
	return r.Module(wasi_snapshot_preview1.ModuleName).ExportedFunctionDefinitions()
}

// checkImports refuses imports of anything but the functions that are given.
func checkImports(imports []imported, given map[string]api.FunctionDefinition) error {
	const all = wasi_snapshot_preview1.ModuleName
	for _, i := range imports {
		if i.kind != importedFunction || i.module != all || given[i.name] == nil {
			return invalid("it imports %s, which is not given here: modules get the functions of %s and nothing else", i, all)
		}
	}
	return nil
}

// outOfMemory is what a process of Go says that gets no more memory; with the race detector the second.
var outOfMemory = regexp.MustCompile(`out of memory|failed to allocate|cannot allocate memory`)

// sortByAge sorts files, the oldest first.
func sortByAge(files []fs.FileInfo) {
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
}
