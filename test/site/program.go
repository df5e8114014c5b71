package site

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Environ is the environment of every program that a test starts, and more: nothing of the person who runs the test
// plays a part.
func Environ(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return slices.ContainsFunc([]string{"LANDFALL_", "GIT_", "RCLONE_", "AWS_"}, func(p string) bool {
			return strings.HasPrefix(pair, p)
		})
	})
	return append(append(env, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"RCLONE_CONFIG=/dev/null", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada",
		"GIT_COMMITTER_EMAIL=ada@example.com"), more...)
}

// Landfall runs a command that must succeed.
func (s *Site) Landfall(args ...string) string {
	s.T.Helper()
	out, code := s.Run(s.T.TempDir(), args...)
	if code != 0 {
		s.T.Fatalf("landfall %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// Run runs the program as a person does, in a folder, and returns what it printed on both outputs and its exit code.
func (s *Site) Run(dir string, args ...string) (out string, code int) {
	s.T.Helper()
	path, err := Binary()
	if err != nil {
		s.T.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = Environ("LANDFALL_SERVER="+s.URL, "LANDFALL_TOKEN="+s.Token)
	data, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 0) {
		s.T.Fatalf("landfall %s: %v\n%s", strings.Join(args, " "), err, data)
	}
	return string(data), cmd.ProcessState.ExitCode()
}

// Binary compiles the program with crash points, and its init as it is installed. It returns the program's path; the
// init lies beside it.
var Binary = sync.OnceValues(func() (string, error) {
	dir, err := Install("-tags", "crashpoints,nomsgpack", "landfall.dev/landfall/cmd/landfall")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "landfall"), InstallIn(dir, []string{"CGO_ENABLED=0"},
		"landfall.dev/landfall/cmd/landfall-init")
})

// Root returns the folder of the module, wherever the test is.
var Root = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "landfall.dev/landfall").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
})

// raceVariable says that the programs have the race detector. Without it they start three times as fast, and tests start
// thousands; the rooms' own tests and the scripts of the server run all of it with the race detector, too.
const raceVariable = "LANDFALL_TEST_RACE"

// Install compiles programs, and returns the folder that they lie in. All packages of stories share it: what is there
// and is not old is not linked again.
func Install(args ...string) (dir string, err error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(root, "build", "test")
	flags, env := []string{"-ldflags", "-s -w", "-tags", "nomsgpack"}, []string{"CGO_ENABLED=0"}
	if os.Getenv(raceVariable) == "" {
		return dir, InstallIn(dir, env, slices.Concat(flags, []string{"-trimpath"}, args)...) // as `make build` compiles
	}
	dir += "-race"
	flags = append(flags, "-race")
	for _, alone := range []string{"modernc.org/...", "compress/...", "github.com/klauspost/compress/..."} { // as in the Makefile
		flags = append(flags, "-gcflags="+alone+"=-race=false")
	}
	return dir, InstallIn(dir, nil, append(flags, args...)...)
}

// InstallIn compiles programs of the module into a folder, one caller at a time.
func InstallIn(dir string, env []string, args ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.Create(filepath.Join(dir, ".lock"))
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"install"}, args...)...)
	if cmd.Dir, err = Root(); err != nil {
		return err
	}
	cmd.Env = append(append(os.Environ(), "GOBIN="+dir), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go install: %w\n%s", err, out)
	}
	return nil
}
