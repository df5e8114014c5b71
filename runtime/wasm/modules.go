package wasm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"landfall.dev/landfall"
)

// Limits bound all modules together. Zero fields take the defaults.
type Limits struct {
	Module int64 // bytes of a module as it is stored; 32 MiB
	// bytes that loaded modules may take, roughly; those that wait for longest are unloaded beyond it; 512 MiB
	Code   int64
	Memory int64 // bytes that the memories of instances may take; 1 GiB
	Disk   int64 // bytes of machine code that are kept on disk; 2 GiB
}

// Modules has the modules of this machine. Its methods may be called at the same time.
type Modules struct {
	dir      string
	compiler compileFunc
	limits   Limits
	runtime  wazero.Runtime
	cache    wazero.CompilationCache
	config   wazero.ModuleConfig
	memories budget

	closing   chan struct{}  // closed by Close
	compiling sync.WaitGroup // of the compilations that are under way

	one sync.Mutex // held while a module is compiled: one after the other

	learning sync.Mutex
	target   string // what machine code is made for; empty: nobody knows yet

	mu      sync.Mutex
	making  map[string]*making // by digest
	refused map[string]refusal // by digest
	loaded  []*Module          // the one that has waited longest first
	code    int64              // of all loaded modules
}

// making is a module that is being compiled.
type making struct {
	done chan struct{} // closed when err is known
	err  error
}

// refusal is why a module could not be compiled when it was tried last.
type refusal struct {
	err error
	at  time.Time
}

// Module is one that can be run. It stays so as long as its file lies where it was loaded from.
type Module struct {
	file   string
	digest string // of what is compiled

	loading sync.Mutex

	// The lock of Modules guards these.
	compiled wazero.CompiledModule // nil: it is not in memory
	size     int64                 // which it takes
	users    int
}

// Open returns the modules whose machine code is kept in a folder, which nobody else may write or read. A compiler is a
// program that runs Compile, with its arguments; without one, modules are compiled in this process.
func Open(ctx context.Context, dir string, limits Limits, compiler ...string) (*Modules, error) {
	const op landfall.Op = "wasm.Open"
	const private = 0o700
	limits = Limits{Module: cmp.Or(limits.Module, 32*mib), Code: cmp.Or(limits.Code, 512*mib),
		Memory: cmp.Or(limits.Memory, 1024*mib), Disk: cmp.Or(limits.Disk, 2048*mib)}
	err := errors.Join(os.MkdirAll(dir, private), os.Chmod(dir, private))
	if err != nil {
		return nil, landfall.Wrapf(op, landfall.Internal, err, "the folder of compiled modules cannot be made")
	}
	m := &Modules{
		dir: dir, limits: limits, making: map[string]*making{}, refused: map[string]refusal{},
		memories: budget{most: limits.Memory}, compiler: compileHere, closing: make(chan struct{}),
	}
	if len(compiler) > 0 {
		m.compiler = func(ctx context.Context, module []byte, cache string) error {
			return compileApart(ctx, compiler, module, cache)
		}
	}
	// as on a full disk: it is tried again
	if err := m.learnTarget(ctx); err != nil && landfall.KindOf(err) != landfall.Unavailable {
		return nil, landfall.Wrapf(op, landfall.Internal, err, "this machine cannot compile modules")
	}
	if m.cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
		return nil, landfall.Wrapf(op, landfall.Internal, err, "the folder of compiled modules cannot be used")
	}
	if m.runtime, err = newRuntime(ctx, m.cache); err != nil {
		return nil, &landfall.Error{Op: op, Err: err}
	}
	m.config = wazero.NewModuleConfig().WithName("").WithSysWalltime().WithSysNanotime()
	return m, nil
}

// learnTarget finds out what machine code made here is for, unless that is known. The folder of it is in memory where
// there is one, so that nothing is written to a disk, which may be full: then it is Unavailable, and the next call
// tries again.
func (m *Modules) learnTarget(ctx context.Context) (err error) {
	m.learning.Lock()
	defer m.learning.Unlock()
	if m.target != "" {
		return nil
	}
	const inMemory = "/dev/shm"
	for _, dir := range []string{inMemory, m.dir} {
		if m.target, err = targetOf(ctx, dir); err == nil {
			return nil
		}
	}
	return err
}

// newRuntime returns what compiles and runs modules: the two must be set alike, or nothing that one compiled is found
// by the other.
func newRuntime(ctx context.Context, cache wazero.CompilationCache) (wazero.Runtime, error) {
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
		WithCompilationCache(cache).WithCloseOnContextDone(true).WithDebugInfoEnabled(false))
	_, err := wasi_snapshot_preview1.Instantiate(experimental.WithFunctionListenerFactory(ctx, polls{}), r)
	return r, err
}

// Close ends it, with the compilations that are under way. Nothing may run any more. It is called once.
func (m *Modules) Close() error {
	close(m.closing)
	m.compiling.Wait()
	ctx := context.Background()
	return errors.Join(m.runtime.Close(ctx), m.cache.Close(ctx))
}

// Check looks at a module before anybody may run it, and compiles it. Invalid, with what is wrong, when it cannot be
// run here: it is broken, wants what it is not given, or takes too long or too much memory to compile.
func (m *Modules) Check(ctx context.Context, from io.Reader) error {
	module, err := io.ReadAll(io.LimitReader(from, m.limits.Module+1))
	if err != nil {
		return landfall.Wrapf("wasm.Check", landfall.KindOf(err), err, "a module cannot be read")
	}
	if int64(len(module)) > m.limits.Module {
		return invalid("it has more than %d bytes, which is the limit", m.limits.Module)
	}
	confined, imports, err := bounded(module)
	if err != nil {
		return err
	}
	if err := checkImports(imports, given(m.runtime)); err != nil {
		return err
	}
	if err := m.learnTarget(ctx); err != nil {
		return err
	}
	return m.compile(ctx, digestOf(confined), confined)
}

// Load returns the module of a file, compiled, and in memory. Where its machine code is not at hand, it is compiled
// apart from the caller, who waits for that until ctx ends. The errors are those of Check; Unavailable when ctx ended.
func (m *Modules) Load(ctx context.Context, file string) (*Module, error) {
	confined, err := m.read(file)
	if err != nil {
		return nil, err
	}
	module := &Module{file: file, digest: digestOf(confined)}
	if err := m.ready(ctx, module.digest, confined); err != nil {
		return nil, err
	}
	err = m.use(ctx, module, confined)
	if err == nil {
		m.leave(module)
	}
	return module, err
}

// read reads a module, and bounds it.
func (m *Modules) read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, landfall.Wrapf("wasm.Load", landfall.Internal, err, "a module cannot be read")
	}
	if info.Size() > m.limits.Module {
		return nil, invalid("it has more than %d bytes, which is the limit", m.limits.Module)
	}
	module, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return nil, landfall.Wrapf("wasm.Load", landfall.Internal, err, "a module cannot be read")
	}
	confined, imports, err := bounded(module)
	return confined, errors.Join(err, checkImports(imports, given(m.runtime)))
}

func digestOf(module []byte) string {
	sum := sha256.Sum256(module)
	return hex.EncodeToString(sum[:])
}

// use returns when a module is in memory, where it stays until leave. A module that is none yet is read.
func (m *Modules) use(ctx context.Context, module *Module, confined []byte) error {
	if m.enter(module) {
		return nil
	}
	module.loading.Lock()
	defer module.loading.Unlock()
	if m.enter(module) {
		return nil
	}
	if confined == nil {
		var err error
		if confined, err = m.read(module.file); err != nil {
			return err
		}
		if digestOf(confined) != module.digest {
			return landfall.Errorf("wasm.Run", landfall.Internal,
				"the module is another one than before: something changed the folder of its package")
		}
		if err := m.ready(ctx, module.digest, confined); err != nil { // nobody ran it for long
			return err
		}
	}
	compiled, err := m.find(ctx, module.digest, confined)
	if err != nil {
		return err
	}
	m.touch(module.digest)
	const times = 6 // what a module takes that is loaded, as was measured
	m.keep(ctx, module, compiled, times*int64(len(confined)))
	return nil
}

// find loads the machine code of a module, and makes it once more when it is damaged.
func (m *Modules) find(ctx context.Context, digest string, confined []byte) (wazero.CompiledModule, error) {
	ctx = context.WithoutCancel(ctx)
	compiled, err := m.runtime.CompileModule(ctx, confined) // which finds it
	if err == nil {
		return compiled, nil
	}
	name, wrong := os.ReadFile(m.record(digest))
	if wrong == nil {
		wrong = errors.Join(os.Remove(m.record(digest)), os.Remove(filepath.Join(m.dir, string(name))))
	}
	if wrong = errors.Join(wrong, m.ready(ctx, digest, confined)); wrong == nil {
		compiled, wrong = m.runtime.CompileModule(ctx, confined)
	}
	if wrong != nil {
		return nil, failed(errors.Join(err, wrong))
	}
	return compiled, nil
}

// ready makes sure that there is machine code of a module. One that could not be compiled is not tried again for a
// while: it would take a minute of each call, for which all others wait.
func (m *Modules) ready(ctx context.Context, digest string, confined []byte) error {
	const tries, most = 10 * time.Minute, 1000
	if err := m.learnTarget(ctx); err != nil {
		return err
	}
	if m.has(digest) {
		return nil
	}
	m.mu.Lock()
	last, tried := m.refused[digest]
	m.mu.Unlock()
	if tried && time.Since(last.at) < tries {
		return last.err
	}
	err := m.compile(ctx, digest, confined)
	if landfall.Is(err, landfall.Invalid) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.refused) >= most {
			clear(m.refused)
		}
		m.refused[digest] = refusal{err, time.Now()}
	}
	return err
}

// enter reports whether a module is in memory, where it stays then until leave.
func (m *Modules) enter(module *Module) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if module.compiled == nil {
		return false
	}
	module.users++
	return true
}

// keep puts a module that is used into memory, and unloads those that are too many.
func (m *Modules) keep(ctx context.Context, module *Module, compiled wazero.CompiledModule, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	module.compiled, module.size = compiled, size
	module.users++
	m.code += size
	m.loaded = append(m.loaded, module)
	kept := m.loaded[:0]
	for _, old := range m.loaded {
		if m.code <= m.limits.Code || old.users > 0 {
			kept = append(kept, old)
			continue
		}
		m.code -= old.size
		_ = old.compiled.Close(ctx) // it only forgets
		old.compiled = nil
	}
	clear(m.loaded[len(kept):])
	m.loaded = kept
}

func (m *Modules) leave(module *Module) {
	m.mu.Lock()
	defer m.mu.Unlock()
	module.users--
}

// has reports whether a module's machine code lies on disk.
func (m *Modules) has(digest string) bool {
	name, err := os.ReadFile(m.record(digest))
	if err != nil {
		return false
	}
	info, err := os.Stat(filepath.Join(m.dir, string(name)))
	return err == nil && info.Mode().IsRegular()
}

// record is the file that says where a module's machine code lies.
func (m *Modules) record(digest string) string {
	return filepath.Join(m.dir, "modules", m.target, digest)
}

// touch says that a module's machine code was used.
func (m *Modules) touch(digest string) {
	now := time.Now()
	name, err := os.ReadFile(m.record(digest))
	if err == nil {
		err = os.Chtimes(filepath.Join(m.dir, string(name)), now, now)
	}
	_ = err // then it is taken for old
}

// compile compiles a module unless its machine code is at hand. Others that want the same wait for the first. It goes
// on when ctx ends, which is Unavailable.
func (m *Modules) compile(ctx context.Context, digest string, confined []byte) error {
	m.mu.Lock()
	current, ok := m.making[digest]
	if !ok {
		current = &making{done: make(chan struct{})}
		m.making[digest] = current
		m.compiling.Go(func() {
			defer close(current.done)
			working, cancel := context.WithCancel(context.WithoutCancel(ctx))
			defer cancel()
			go func() {
				select {
				case <-m.closing:
					cancel()
				case <-working.Done():
				}
			}()
			current.err = m.make(working, digest, confined)
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.making, digest)
		})
	}
	m.mu.Unlock()
	select {
	case <-current.done:
		return current.err
	case <-ctx.Done():
		return landfall.Wrapf("wasm.compile", landfall.Unavailable, context.Cause(ctx),
			"the module is being compiled on this machine; try again later")
	}
}

// make compiles a module in a folder of its own, and moves what was made to its place.
func (m *Modules) make(ctx context.Context, digest string, confined []byte) error {
	m.one.Lock()
	defer m.one.Unlock()
	if m.has(digest) {
		return nil
	}
	temp, name, err := codeOf(ctx, m.dir, confined, m.compiler)
	if temp != "" {
		defer func() { _ = os.RemoveAll(temp) }()
	}
	if err != nil {
		return err
	}
	const private = 0o700
	record := m.record(digest)
	err = errors.Join(
		os.MkdirAll(filepath.Dir(record), private), os.MkdirAll(filepath.Dir(filepath.Join(m.dir, name)), private),
		os.Rename(filepath.Join(temp, name), filepath.Join(m.dir, name)))
	if err == nil { // the code is there before it is said to be
		fresh := filepath.Join(temp, "record")
		err = errors.Join(os.WriteFile(fresh, []byte(name), 0o600), os.Rename(fresh, record))
	}
	if err != nil {
		return failed(err)
	}
	return m.tidy()
}

// failed is about the machine, not about the module.
func failed(err error) error {
	return landfall.Wrapf("wasm.compile", landfall.Unavailable, err, "the module cannot be compiled now")
}

// tidy removes the machine code that was not used for longest, until what is left may be kept.
func (m *Modules) tidy() error {
	root := os.DirFS(m.dir)
	names, err := fs.Glob(root, "wazero-*/*")
	if err != nil {
		return failed(err)
	}
	var all []fs.FileInfo
	var sum int64
	paths := map[fs.FileInfo]string{}
	for _, name := range names {
		if info, err := fs.Stat(root, name); err == nil {
			all, sum, paths[info] = append(all, info), sum+info.Size(), name
		}
	}
	sortByAge(all)
	for _, info := range all {
		if sum <= m.limits.Disk {
			break
		}
		sum -= info.Size()
		err = errors.Join(err, os.Remove(filepath.Join(m.dir, paths[info])))
	}
	if err != nil {
		return failed(err)
	}
	return nil
}
