package sandbox_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/logtest"
	"landfall.dev/landfall/sandbox"
)

// tellers lists the processes whose command line or environment, as the kernel shows them to others, has a word in it.
func tellers(t *testing.T, word string) (lines, environments []int) {
	t.Helper()
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			t.Fatal(err)
		}
		if line, err := os.ReadFile(filepath.Join(folder, "cmdline")); err == nil && bytes.Contains(line, []byte(word)) {
			lines = append(lines, pid)
		}
		if environment, err := os.ReadFile(filepath.Join(folder, "environ")); err == nil &&
			bytes.Contains(environment, []byte(word)) {
			environments = append(environments, pid)
		}
	}
	return lines, environments
}

// What a process is given in its environment may be secret: no command line has it, and no environment but its own.
func TestEnvironmentIsNotTold(t *testing.T) {
	t.Parallel()
	word := fmt.Sprintf("canary-%d-in-the-environment", os.Getpid())
	const line = `[ -n "$SECRET" ] && echo given; for f in /proc/1/environ /proc/[0-9]*/cmdline; do tr '\0' '\n' < $f | grep 'canary-[0-9]'; done; echo ready; read -r line`
	env := map[string]string{"SECRET": word}
	for kind, s := range kinds(t) {
		t.Run(kind, func(t *testing.T) {
			t.Run("program", func(t *testing.T) {
				p := start(t, s, sandbox.Program{Args: shell(line), Env: env})
				out, said := bufio.NewReader(p.Stdout), []string{}
				for len(said) == 0 || said[len(said)-1] != "ready\n" {
					more, err := out.ReadString('\n')
					if err != nil {
						t.Fatalf("after %q: %v", said, err)
					}
					said = append(said, more)
				}
				if want := []string{"given\n", "ready\n"}; !slices.Equal(said, want) {
					t.Errorf("it says %q, want %q", said, want)
				}
				if lines, environments := tellers(t, word); len(lines) > 0 || len(environments) != 1 {
					t.Errorf("command lines of %v and environments of %v tell; want none and the program's", lines, environments)
				}
			})
			t.Run("command", func(t *testing.T) {
				var lines, environments []int
				output := reacting(func(printed string) {
					if strings.Contains(printed, "ready") {
						lines, environments = tellers(t, word)
					}
				})
				if _, err := s.Run(t.Context(), sandbox.Command{Dir: t.TempDir(), Env: env, Output: output,
					Shell: `sleep 600 & echo ready; kill $!; wait`}); err != nil {
					t.Fatal(err)
				}
				if len(lines) > 0 || len(environments) > 2 {
					t.Errorf("command lines of %v and environments of %v tell; want none, and those of the shell and its child", lines,
						environments)
				}
			})
		})
	}
}

// An environment arrives as it is, however long it is and whatever is in it; what cannot arrive is refused by its name.
func TestEnvironmentArrives(t *testing.T) {
	t.Parallel()
	for kind, s := range kinds(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := start(t, s, sandbox.Program{
				Args: shell(`printf '%s|%s|%s' "$EMPTY" "$LINES_OF_TEXT" "${#LONG}"`),
				Env:  map[string]string{"EMPTY": "", "LINES_OF_TEXT": "a\nb=c\n", "LONG": strings.Repeat("x", 100_000)},
			})
			if out, err := io.ReadAll(p.Stdout); err != nil || string(out) != "|a\nb=c\n|100000" {
				t.Errorf("it has %q, %v", out, err)
			}
			for name, env := range map[string]map[string]string{
				`"A"`: {"A": "x\x00LD_PRELOAD=/function/evil"}, `"A=B"`: {"A=B": "x"}, `""`: {"": "x"}, `"C\x00D"`: {"C\x00D": "x"},
			} {
				_, err := s.Start(sandbox.Program{Args: shell("true"), Dir: t.TempDir(), Env: env})
				if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(landfall.MessageOf(err), name) {
					t.Errorf("Start with %q: %v, want Invalid with the name", env, err)
				}
				var out logtest.Buffer
				_, err = s.Run(t.Context(), sandbox.Command{Shell: "echo it ran", Dir: t.TempDir(), Env: env, Output: &out})
				if landfall.KindOf(err) != landfall.Invalid || out.String() != "" {
					t.Errorf("Run with %q: %v, want Invalid; it printed %q", env, err, out.String())
				}
			}
		})
	}
}
