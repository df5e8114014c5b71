package environment_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/environment"
	"landfall.dev/landfall/spec"
)

// A program of an environment that may be Fission's gets events when its package knows of them, and requests otherwise.
func TestEitherProgram(t *testing.T) {
	t.Parallel()
	const events, plain = "echo '{\"specversion\":\"1.0\"}'\n", "echo hello\n"
	for _, c := range []struct {
		programs   string
		content    files
		entrypoint string
		want       string // the command; empty: an error
	}{
		{spec.Either, files{"hello.sh": plain}, "hello.sh", "python3 -B .landfall/exec.py --request ./hello.sh"},
		{spec.Either, files{"hello.sh*": plain}, "", "python3 -B .landfall/exec.py --request ./hello.sh"},
		{spec.Either, files{"hello.sh*": events}, "hello.sh", "./hello.sh"},
		{spec.Either, files{"hello.sh": events}, "hello.sh", "/bin/sh ./hello.sh"},
		{spec.Either, files{"start*": plain, "lib/app.py": "'cloud-events-version'"}, "start", "./start"},
		{spec.Either, files{"hello.sh*": events}, "exec:hello.sh", "python3 -B .landfall/exec.py --request ./hello.sh"},
		{spec.Either, files{"hello.sh*": plain}, "draft:hello.sh", "./hello.sh"},
		{spec.Requests, files{"hello.sh*": events}, "hello.sh", "python3 -B .landfall/exec.py --request ./hello.sh"},
		{spec.Events, files{"hello.sh*": plain}, "hello.sh", "./hello.sh"},
		{spec.Either, files{"a": plain, "b": plain}, "", ""},
		{spec.Either, files{"a": plain}, "../a", ""},
		{spec.Either, files{"a": plain}, "b", ""},
	} {
		e, err := environment.Of(landfall.Environment{Name: "binary", Image: "fission/binary-env", Programs: c.programs})
		if err != nil {
			t.Fatal(err)
		}
		args, _, err := e.PortableCommand(unpack(t, c.content), c.entrypoint)
		if got := strings.Join(args, " "); got != c.want || (c.want == "") != (landfall.Is(err, landfall.Invalid)) {
			t.Errorf("%s %q %v: got %q, %v; want %q", c.programs, c.entrypoint, slices.Sorted(maps.Keys(c.content)), got,
				err, c.want)
		}
	}
}
