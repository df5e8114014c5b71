package host_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/host"
	"landfall.dev/landfall/runtime/packages"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

func TestMain(m *testing.M) {
	if code, handled := sandbox.Forward(os.Args[1:]); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

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
	runs := host.New(host.Config{Runner: run, Packages: unpacked, Logger: slog.New(slog.DiscardHandler)})
	over := make(chan struct{})
	go func() {
		defer close(over)
		for i := range calls {
			f := landfall.Function{ID: fmt.Sprint(i / 2), Environment: landfall.Environment{Name: "binary"},
				Package: landfall.Archive{Key: "stored", Digest: landfall.DigestOf(stored.bytes())}}
			e := event.New()
			e.SetID("1")
			e.SetSource("/me")
			e.SetType("call")
			if _, err := runs.Call(t.Context(), function.Call{Function: &f, Event: e}); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		}
	}()
	for now := time.Now(); ; now = now.Add(host.KeepUnneeded) {
		select {
		case <-over:
			return
		default:
		}
		if err := runs.TidyAt(now, nil); err != nil {
			t.Errorf("tidy: %v", err)
		}
	}
}

// Packages of functions that nobody calls stay unpacked for as long as there is room, and not for ever.
func TestTidyUnused(t *testing.T) {
	t.Parallel()
	stored := program(t, "#!/bin/sh\nexec cat\n")
	dir := filepath.Join(t.TempDir(), "functions")
	unpacked, err := packages.New(dir, stored, packages.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	run := &runner.Runner{Sandbox: sandbox.Detect(t.Context(), sandbox.Off)}
	t.Cleanup(run.Close)
	const count = 4
	var called []*landfall.Function
	release := registry.Release{ID: "aaaaaaa2"}
	for i := range count {
		f := &landfall.Function{ID: fmt.Sprint(i), Environment: landfall.Environment{Name: []string{"binary", "python"}[i%2]},
			Resources: landfall.Resources{IdleTimeout: time.Millisecond}, Entrypoint: []string{"main", "main.main"}[i%2],
			Package: landfall.Archive{Key: "stored", Digest: landfall.DigestOf(stored.bytes())}}
		called = append(called, f)
		release.Triggers = append(release.Triggers, &registry.Trigger{Name: f.ID, Function: f})
	}
	table := registry.New([]registry.App{{ID: "1", Name: "shop", Live: release.ID, Releases: []registry.Release{release}}})
	runs := host.New(host.Config{Runner: run, Packages: unpacked, Logger: slog.New(slog.DiscardHandler)})
	call := func(f *landfall.Function) {
		e := event.New()
		e.SetID("1")
		e.SetSource("/me")
		e.SetType("call")
		// what is no program in Python is unpacked all the same
		_, _ = runs.Call(t.Context(), function.Call{Function: f, Event: e})
	}
	left := func(now time.Time) int {
		t.Helper()
		for _, f := range called {
			runs, _ := run.Count(f.ID)
			for deadline := time.Now().Add(testkit.Patience); runs > 0 &&
				time.Now().Before(deadline); runs, _ = run.Count(f.ID) {
				<-time.After(time.Millisecond)
			}
		}
		if err := runs.TidyAt(now, table.Functions()); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for _, f := range called {
		call(f)
	}
	now := time.Now()
	testkit.Equal(t, "folders while they are used", left(now), 2)
	testkit.Equal(t, "folders while there is room", left(now.Add(host.KeepUnused/2)), 2)
	runs.SetMaxBytes(1)
	testkit.Equal(t, "folders of what was just called", left(now), 2)
	testkit.Equal(t, "folders when there is no room", left(now.Add(2*host.KeepUnneeded)), 0)
	runs.SetMaxBytes(0)
	call(called[0])
	testkit.Equal(t, "folders of what is called again", left(time.Now()), 1)
	testkit.Equal(t, "folders after long", left(time.Now().Add(2*host.KeepUnused)), 0)
}
