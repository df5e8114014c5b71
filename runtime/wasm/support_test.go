package wasm_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"landfall.dev/landfall/runtime/wasm"
	"landfall.dev/landfall/runtime/wasm/wasmtest"
)

// TestMain is also the compiler that the tests start.
func TestMain(m *testing.M) {
	if code, handled := wasm.Forward(os.Args[1:]); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// open returns modules that are compiled in a process of their own.
func open(t testing.TB, limits wasm.Limits) *wasm.Modules {
	t.Helper()
	return reopen(t, filepath.Join(t.TempDir(), "wasm"), limits)
}

func reopen(t testing.TB, dir string, limits wasm.Limits) *wasm.Modules {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m, err := wasm.Open(t.Context(), dir, limits, wasm.Compiler(self)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// stored writes a module to a file.
func stored(t testing.TB, module []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.wasm")
	if err := os.WriteFile(file, module, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// load returns a module that must be right.
func load(t testing.TB, m *wasm.Modules, s wasmtest.Source) *wasm.Module {
	t.Helper()
	module, err := m.Load(t.Context(), stored(t, s.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// run runs a module and returns what it wrote.
func run(ctx context.Context, m *wasm.Modules, module *wasm.Module) (string, error) {
	var out, log bytes.Buffer
	err := m.Run(ctx, module, wasm.Program{Args: []string{"main.wasm"}, Memory: 1 << 20, Stdin: bytes.NewReader(nil),
		Stdout: &out, Stderr: &log})
	return out.String(), err
}
