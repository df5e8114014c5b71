package function_test

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// numbers returns the numbers of the versions of a function or package in its tracker.
func numbers(s *site.Site, path string) string {
	var all []string
	for _, v := range site.List[client.Version](s, path+"/versions") {
		all = append(all, strconv.FormatInt(v.Number, 10))
	}
	return strings.Join(all, " ")
}

// A person deletes a version that nothing needs; whatever needs one is named, and then nothing goes.
func TestVersionDelete(t *testing.T) {
	t.Parallel()
	s, r := site.NumberedIn(t, 3)
	refused := func(t *testing.T, code int, args string, says ...string) {
		t.Helper()
		out, got := s.Run(t.TempDir(), strings.Fields(args)...)
		if got != code {
			t.Errorf("%s: exit code %d, want %d", args, got, code)
		}
		testkit.Contains(t, site.Told{out}, says...)
	}
	versions := site.List[client.Version](s, "/functions/hello/versions")
	first, second := string(versions[0].UID), string(versions[1].UID)
	// C-024, N-036
	refused(t, 4, "function version delete --name hello --version 1",
		"function hello no. 1 (hello-"+first+") is in use by the alias prod",
		"landfall function alias update hello prod VERSION", "the release "+first, "landfall release expire shop "+first,
		"nothing was deleted")
	refused(t, 4, "function version delete hello 3", "which is live")
	refused(t, 4, "function version delete hello all", "no. 1", "no. 2", "no. 3")
	refused(t, 3, "function version delete hello 7", `has no version "7"`)
	refused(t, 3, "function version delete bye 1", "there is no function bye")
	refused(t, 4, "package version delete hello-pkg 2", "function hello no. 2", "package hello-pkg no. 2")
	// B-134: all or nothing
	testkit.Equal(t, "versions after what was refused",
		numbers(s, "/functions/hello")+"; "+numbers(s, "/packages/hello-pkg"), "1 2 3; 1 2 3")

	s.Landfall("release", "expire", "shop", second)
	said := s.Landfall("function", "version", "delete", "--name", "hello", "--version", "2")
	testkit.Contains(t, site.Told{said}, "DELETED", "function hello-"+second)
	// B-078, B-136, B-137, C-026
	testkit.Equal(t, "versions after one was deleted", numbers(s, "/functions/hello"), "1 3")
	// B-138
	testkit.Equal(t, "versions of its package", numbers(s, "/packages/hello-pkg"), "1 2 3")
	refused(t, 3, "function version delete hello 2", `has no version "2"`)
	refused(t, 3, "function invoke hello:2", `has no version "2"`)
	testkit.Equal(t, "what the others say", strings.TrimSpace(s.Landfall("fn", "invoke", "hello:1"))+
		strings.TrimSpace(s.Landfall("fn", "invoke", "hello:3")), "13")

	site.AddVersion(s, r, "4", true)
	testkit.Equal(t, "latest before that", strings.TrimSpace(s.Landfall("function", "invoke", "hello")), "4")
	s.Landfall("function", "version", "delete", "hello", "4")
	// B-060, B-061
	testkit.Equal(t, "latest after the newest was deleted",
		strings.TrimSpace(s.Landfall("function", "invoke", "hello")), "3")
	site.AddVersion(s, r, "5", false)
	// B-079, C-004: a push goes on as if nothing had happened, and no number comes twice.
	testkit.Equal(t, "versions after another push", numbers(s, "/functions/hello"), "1 3 5")

	s.Landfall("function", "alias", "update", "hello", "prod", "latest")
	s.Landfall("release", "expire", "shop", first)
	// B-130, B-131, B-132: the functions of a package's version go with it.
	said = s.Landfall("package", "version", "delete", "--name", "hello-pkg", "--version", "1")
	testkit.Contains(t, site.Told{said}, "function hello-"+first, "package hello-pkg-"+first)
	// B-133: one that no function uses any more
	said = s.Landfall("pkg", "version", "delete", "hello-pkg", "2")
	testkit.Contains(t, site.Told{said}, "package hello-pkg-"+second)
	testkit.Equal(t, "versions at the end", numbers(s, "/functions/hello")+"; "+numbers(s, "/packages/hello-pkg"),
		"3 5; 3 4 5")
	s.WantWhole()
}

// What a person says of a function stays while new code of it is being built, which says nothing of that.
func TestCodeLeavesWhatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SANDBOX=off")
	gate, code := t.TempDir(), map[string]string{}
	for _, word := range []string{"one", "two"} {
		code[word] = t.TempDir()
		text := fmt.Sprintf("def main():\n    return '%[1]s'\n\ndef other():\n    return 'another %[1]s'\n", word)
		if err := os.WriteFile(filepath.Join(code[word], "main.py"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Landfall("function", "version", "create", "tool", "--src", code["one"], "--env", "python", "--entrypoint", "main.main")
	var out string
	var exit int
	var building sync.WaitGroup
	building.Go(func() {
		out, exit = s.Run(gate, "function", "version", "update", "tool", "--src", code["two"], "--buildcmd",
			fmt.Sprintf("touch %[1]s/building; while ! [ -e %[1]s/open ]; do sleep 0.1; done; cp -r $SRC_PKG $DEPLOY_PKG", gate))
	})
	s.Eventually("the code is being built", func() bool { return site.IsThere(filepath.Join(gate, "building")) })
	t.Cleanup(func() { site.OpenGate(t, gate) })
	s.Landfall("function", "version", "update", "tool", "--entrypoint", "main.other")
	says := func(want string) {
		t.Helper()
		testkit.Equal(t, "what it says", strings.TrimSpace(s.Landfall("function", "invoke", "tool")), want)
	}
	says("another one")
	site.OpenGate(t, gate)
	building.Wait()
	if exit != 0 {
		t.Fatalf("exit code %d\n%s", exit, out)
	}
	says("another two")
	testkit.Equal(t, "its versions", numbers(s, "/functions/tool"), "1 2 3")
}

// A trigger that names a version holds it, and one that goes by an alias holds what the alias does.
func TestVersionNamedByTrigger(t *testing.T) {
	t.Parallel()
	s, r := site.NumberedIn(t, 2)
	specs := site.FunctionsSpec("binary-env", "hello hello") +
		"---\napiVersion: fission.io/v1\nkind: TimeTrigger\nmetadata: {name: nightly}\n" +
		"spec: {functionref: {type: name, name: hello, version: \"1\"}, cron: '@daily'}\n"
	r.Write("specs/functions.yaml", specs, "note.txt", "a trigger by number")
	s.Pushed(r, "shop", "A trigger by number")
	s.Landfall("function", "alias", "delete", "hello", "prod")
	for _, release := range s.Accessible("shop")[1:] {
		s.Landfall("release", "expire", "shop", string(release))
	}
	out, code := s.Run(t.TempDir(), "function", "version", "delete", "hello", "1")
	testkit.Equal(t, "exit code", code, 4)
	// C-024
	testkit.Contains(t, site.Told{out}, "is in use by the time-trigger nightly, which names it")
}

// A function goes by its name, with its aliases and versions, once no release that is live has it.
func TestFunctionDelete(t *testing.T) {
	t.Parallel()
	s, r := site.NumberedIn(t, 2)
	out, code := s.Run(t.TempDir(), "function", "delete", "hello", "--force")
	testkit.Equal(t, "exit code", code, 4)
	testkit.Contains(t, site.Told{out}, "which is live", "nothing was deleted")

	r.Write("specs/functions.yaml", site.FunctionsSpec("binary-env", "other hello"), "other/hello", "#!/bin/sh\ncat\n")
	s.Pushed(r, "shop", "Without hello")
	out, code = s.Run(t.TempDir(), "function", "delete", "hello")
	testkit.Equal(t, "exit code", code, 4)
	testkit.Contains(t, site.Told{out}, "landfall release expire shop")
	var dry client.Deletion
	s.Call(http.MethodDelete, "/functions/hello?force=true&dry_run=true", nil, &dry)
	if len(dry.Versions) != 2 || len(dry.Releases) != 2 {
		t.Errorf("what would go is %+v, want two versions and two releases", dry)
	}
	// B-139, C-030
	said := s.Landfall("function", "delete", "hello", "--force")
	testkit.Contains(t, site.Told{said}, "alias hello:prod", "function hello-", "release ")
	for _, args := range []string{"function version list hello", "function invoke hello:1", "function alias list hello",
		"function delete hello"} {
		out, code := s.Run(t.TempDir(), strings.Fields(args)...)
		if code != 3 || !strings.Contains(out, "there is no function hello") {
			t.Errorf("%s: exit code %d: %s, want 3: there is no function hello", args, code, out)
		}
	}
	s.WantWhole()
}

// What a version runs can be had again, and a person says something about it.
func TestVersionShown(t *testing.T) {
	t.Parallel()
	s := site.Numbered(t, 2)
	said := s.Landfall("function", "version", "update", "--name", "hello", "--version", "1", "--description",
		"The first one")
	// C-017
	testkit.Contains(t, site.Told{said}, "description:", "The first one")
	testkit.Contains(t, site.Told{s.Landfall("function", "version", "list", "hello")}, "The first one")
	// C-018
	site.WantRefused(t, s.Refused(http.MethodPut, "/functions/hello/versions/1",
		map[string]any{"description": "x", "label": "v1"}), landfall.Invalid, "label")
	testkit.Equal(t, "described", s.Landfall("function", "version", "describe", "hello:1"),
		s.Landfall("function", "version", "show", "hello:1"))
	//
	testkit.Contains(t, site.Told{s.Landfall("function", "show", "hello", "-o", "json")}, `"FunctionMaster"`,
		`"hello_master"`, `"hello_latest"`, `"hello_prod"`)

	dir := t.TempDir()
	for what, args := range map[string][]string{
		"function": {"function", "version", "download", "hello", "1", "--file", filepath.Join(dir, "function.zip")},
		"package": {"package", "version", "download", "--name", "hello-pkg", "--version", "1", "--file",
			filepath.Join(dir, "package.zip")},
	} {
		s.Landfall(args...)
		archive, err := zip.OpenReader(filepath.Join(dir, what+".zip"))
		if err != nil {
			t.Fatal(err)
		}
		// C-008, C-022
		if file, err := archive.Open("hello"); err != nil {
			t.Errorf("%s: %v", what, err)
		} else {
			testkit.Equal(t, what+": close", file.Close(), nil)
		}
		testkit.Equal(t, what+": close", archive.Close(), nil)
		out, code := s.Run(dir, args...)
		if code != 2 || !strings.Contains(out, "is there already") {
			t.Errorf("a second download of the %s: exit code %d: %s", what, code, out)
		}
	}
	out, code := s.Run(dir, "function", "version", "download", "hello", "--source")
	if code != 3 || !strings.Contains(out, "has no source archive") {
		t.Errorf("a source that there is not: exit code %d: %s", code, out)
	}
}

// A file that is sent in several parts arrives, and runs.
func TestVersionOfLargeFile(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	dir := t.TempDir()
	const size = 9 << 20 // three parts
	ballast := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(ballast) // it never fails
	for name, content := range map[string][]byte{
		"user.py": []byte("import os\ndef main():\n    return str(os.path.getsize(os.path.join(os.path.dirname(__file__), " +
			"'ballast')))\n"), "ballast": ballast,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Landfall("function", "create", "large", "--env", "python", "--code", dir, "--entrypoint", "user.main")
	testkit.Equal(t, "the size of what came", s.Landfall("function", "invoke", "large"), strconv.Itoa(size))
}

// line is a connection to a server that breaks when so many bytes went to it, once.
type line struct {
	net.Listener

	broken func(*line) // is called when it breaks; nobody connects meanwhile

	mu         sync.Mutex
	left, went int64
}

// sent returns how many bytes went to the server. What broken did is done when it shows that the line broke.
func (l *line) sent() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.went
}

func newLine(t *testing.T, server string, after int64, broken func(*line)) *line {
	t.Helper()
	l := &line{Listener: testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t), left: after, broken: broken}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			l.mu.Lock() // until what broke is whole
			to, err := net.Dial("tcp", server)
			l.mu.Unlock()
			if err != nil {
				_ = from.Close()
				continue
			}
			end := func() { _, _ = from.Close(), to.Close() }
			go func() {
				defer end()
				_, _ = io.Copy(from, to)
			}()
			go func() {
				defer end()
				_, _ = io.Copy(to, io.TeeReader(from, l))
			}()
		}
	}()
	return l
}

// Write counts what goes, and fails when the line breaks.
func (l *line) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.went
	if l.went += int64(len(p)); before < l.left && l.went >= l.left {
		l.broken(l)
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// An upload that breaks off at any tenth goes on, also when the server is killed then. Who types the command again sends
// only what did not come.
func TestUploadThatBreaksOff(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	const size, part = 5 << 20, 4 << 20
	folder := t.TempDir()
	fill := func(seed byte) {
		t.Helper()
		ballast := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(ballast) // it never fails
		if err := os.WriteFile(filepath.Join(folder, "ballast"), ballast, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fill(0)
	create := func(s *site.Site, name string) string {
		t.Helper()
		s.Landfall("package", "version", "create", name, "--env", "python", "--deploy", folder)
		archive := s.ReadAs("http://localhost:" + s.Port + "/api/v1/packages/" + name + "/versions/latest?download=true")
		return string(landfall.DigestOf([]byte(archive.Body)))
	}
	whole := create(s, "whole")
	for tenth := int64(1); tenth < 10; tenth++ {
		over := newLine(t, "127.0.0.1:"+s.Port, size*tenth/10, func(*line) {
			if tenth == 5 {
				s.Kill()
			}
		})
		away := s.In(t)
		away.URL = "http://" + over.Addr().String()
		testkit.Equal(t, "what came", create(away, "lib"+strconv.FormatInt(tenth, 10)), whole)
		testkit.Equal(t, "the line broke", over.sent() >= size*tenth/10, true)
	}

	fill(1)
	away := s.In(t)
	ctx, gone := context.WithCancel(t.Context())
	over := newLine(t, "127.0.0.1:"+s.Port, size*9/10, func(l *line) {
		gone()
		_ = l.Close() // it would try again before it is killed
	})
	away.URL = "http://" + over.Addr().String()
	command := exec.CommandContext(ctx, testkit.Must(site.Binary())(t), "package", "version", "create", "again",
		"--env", "python", "--deploy", folder)
	command.Env = site.Environ("LANDFALL_SERVER="+away.URL, "LANDFALL_TOKEN="+s.Token)
	if out, err := command.CombinedOutput(); err == nil {
		t.Fatalf("the command ended before it was killed: %s", out)
	}
	over = newLine(t, "127.0.0.1:"+s.Port, math.MaxInt64, nil) // what is still on the other one does not count
	away.URL = "http://" + over.Addr().String()
	create(away, "again")
	if again := over.sent(); again > size-part+part/8 {
		t.Errorf("typed again, the command sent %d bytes, of which %d had come", again, part)
	}
}
