package main

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/packages"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/sandbox"
)

// archive is a package that is stored under every key.
type archive struct{ *bytes.Reader }

// Open implements packages.Opener.
func (a archive) Open(context.Context, string) (io.ReadSeekCloser, error) {
	return archive{bytes.NewReader(a.bytes())}, nil
}

// Close implements io.Closer.
func (archive) Close() error { return nil }

func (a archive) bytes() []byte {
	all := make([]byte, a.Size())
	_, _ = a.ReadAt(all, 0)
	return all
}

// program returns the archive of a package with one program.
func program(t *testing.T, text string) archive {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	header := &zip.FileHeader{Name: "main"}
	header.SetMode(0o755)
	file, err := z.CreateHeader(header)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(file, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return archive{bytes.NewReader(out.Bytes())}
}

// Whenever it is tidied up, a function that is called has its package: also one that no release has.
func TestTidyUnderCalls(t *testing.T) {
	t.Parallel()
	const calls = 30
	stored := program(t, "#!/bin/sh\nexec cat\n")
	unpacked, err := packages.New(filepath.Join(t.TempDir(), "functions"), stored, packages.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	run := &runner.Runner{Sandbox: sandbox.Detect(t.Context(), sandbox.Off)}
	t.Cleanup(run.Close)
	nothing := registry.New(nil)
	host := newFunctionHost(run, unpacked, func() *registry.Table { return nothing }, slog.New(slog.DiscardHandler))
	over := make(chan struct{})
	go func() {
		defer close(over)
		for i := range calls {
			f := registry.Function{ID: fmt.Sprint(i / 2), Environment: registry.Environment{Name: "binary"},
				Package: registry.Archive{Key: "stored", Digest: landfall.DigestOf(stored.bytes())}}
			e := event.New()
			e.SetID("1")
			e.SetSource("/me")
			e.SetType("call")
			if _, err := host.Run(t.Context(), &f, e); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		}
	}()
	for now := time.Now(); ; now = now.Add(keepUnneeded) {
		select {
		case <-over:
			return
		default:
		}
		if err := host.tidy(now); err != nil {
			t.Errorf("tidy: %v", err)
		}
	}
}
