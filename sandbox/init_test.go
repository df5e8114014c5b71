package sandbox_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

// smallInit builds the init as it is delivered.
func smallInit(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "landfall-init")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path,
		"landfall.dev/landfall/cmd/landfall-init")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// A server uses the init that lies beside it, if that is of its version; a program sees no difference.
func TestInitBesideTheServer(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	server := filepath.Join(home, "server")
	program, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Program(t, server, program)
	size := func(path string) string {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.FormatInt(info.Size(), 10)
	}
	used := func() string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), server, "server", "auto", t.TempDir(), "stat -c %s "+sandbox.InitAt)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("the server: %v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got, want := used(), size(server); got != want {
		t.Errorf("without one, the init has %s bytes, want the server's own %s", got, want)
	}
	small := smallInit(t, home)
	if got, want := used(), size(small); got != want {
		t.Errorf("with one, the init has %s bytes, want %s", got, want)
	}
	s := confined(t)
	p := start(t, sandbox.WithInit(s, small), sandbox.Program{
		Args: shell(`id -u; pwd; echo "$GREETING"; grep -h CapEff /proc/self/status; cat; exit 3`),
		Env:  map[string]string{"GREETING": "hello"},
	})
	p.Stdin.Close()
	out, err := io.ReadAll(p.Stdout)
	if want := "65534\n/function\nhello\nCapEff:\t0000000000000000\n"; err != nil ||
		sandbox.WithoutNames(s, string(out)) != want {
		t.Errorf("it prints %q, %v; want %q", out, err, want)
	}
	if result, err := p.Result(); err != nil || result.ExitCode != 3 {
		t.Errorf("Result = %+v, %v; want exit code 3", result, err)
	}
	testkit.Program(t, small, []byte("#!/bin/sh\nexit 2\n"))
	if got, want := used(), size(server); got != want {
		t.Errorf("with one of another version, the init has %s bytes, want the server's own %s", got, want)
	}
}
