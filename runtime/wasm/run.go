package wasm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"landfall.dev/landfall"
)

// Program is one run of a module.
type Program struct {
	Args   []string
	Env    map[string]string
	Memory int64     // bytes that it may have at most; what its tables and its stack take comes on top of it
	Stdin  io.Reader // none of these may block for long: the end of ctx ends a run when they return
	Stdout io.Writer
	Stderr io.Writer
}

// EndError says how a run ended, other than by itself with the exit code 0.
type EndError struct {
	Code   uint32 // its exit code; 0 for other ends
	Trap   string // what it did that no module may, and where; empty for other ends
	Memory bool   // it wanted more memory than it may have, and ended some time after that
	Full   bool   // it wanted more memory than there is for all modules now, and ended some time after that
}

// Error implements error.
func (e *EndError) Error() string {
	if e.Trap != "" {
		return e.Trap
	}
	return fmt.Sprintf("the module ended with exit code %d", e.Code)
}

// Finish ends the program from within a Read of its Stdin, as if it had ended by itself.
func Finish() { panic(sys.NewExitError(0)) } //nolint:forbidigo // as a module's own exit does; Run takes it up

// Run runs a module in a new instance, of which nothing is left afterwards. The error is an *EndError, or the cause of
// ctx when that ended the run; what else goes wrong is the machine's. It never panics.
func (m *Modules) Run(ctx context.Context, module *Module, p Program) (err error) {
	if err := m.use(ctx, module, nil); err != nil {
		return err
	}
	defer m.leave(module)
	mem := &memory{budget: &m.memories, most: p.Memory}
	defer mem.release()
	defer func() {
		if r := recover(); r != nil {
			err = landfall.Wrapf("wasm.Run", landfall.Internal, fmt.Errorf("panic: %v", r), "the module could not be run")
		}
		if err != nil && (mem.refused || mem.full) && ctx.Err() == nil {
			err = mem.end(err)
		}
	}()
	config := m.config.WithArgs(p.Args...).WithStdin(p.Stdin).WithStdout(until(ctx, p.Stdout)).WithStderr(until(ctx,
		p.Stderr)).
		WithRandSource(random(ctx)).WithNanosleep(func(ns int64) { sleep(ctx, time.Duration(ns)) })
	for name, value := range p.Env {
		config = config.WithEnv(name, value)
	}
	instance, err := m.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, mem), module.compiled, config)
	if instance != nil {
		_ = instance.Close(context.WithoutCancel(ctx)) // it has no files
	}
	return endOf(ctx, err)
}

// endOf says how a run ended.
func endOf(ctx context.Context, err error) error {
	exit, exited := errors.AsType[*sys.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return nil
	case exited:
		return &EndError{Code: exit.ExitCode()}
	}
	_, text, _ := strings.Cut(err.Error(), "failed: ")
	return &EndError{Trap: strings.TrimPrefix(text, "wasm error: ")}
}

// end says that memory was missing.
func (m *memory) end(err error) error {
	end, ok := errors.AsType[*EndError](err)
	if !ok {
		end = &EndError{} // it did not even begin
	}
	end.Memory, end.Full = m.refused, m.full
	return end
}

// sleep waits, but not longer than ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// until returns a writer that takes nothing any more once the time is over: one call of WASI may write the same bytes
// millions of times, and nothing else stops it.
func until(ctx context.Context, w io.Writer) io.Writer {
	if w == nil {
		return nil
	}
	return writeFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return w.Write(p)
	})
}

// writeFunc is an io.Writer.
type writeFunc func(p []byte) (int, error)

// Write implements io.Writer.
func (f writeFunc) Write(p []byte) (int, error) { return f(p) }

// readFunc is an io.Reader.
type readFunc func(p []byte) (int, error)

// Read implements io.Reader.
func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// random gives bytes in pieces, so that who asks for many can be stopped in between.
func random(ctx context.Context) io.Reader {
	const piece = 64 << 10
	return readFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return rand.Read(p[:min(len(p), piece)])
	})
}
