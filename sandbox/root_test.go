package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/test/testkit"
)

// Without a sandbox nothing holds a program in a root of its own: it would see the machine.
func TestRootNeedsSandbox(t *testing.T) {
	t.Parallel()
	_, err := sandbox.Detect(t.Context(), sandbox.Off).Start(sandbox.Program{Args: shell("ls /"), Dir: "/",
		Root: t.TempDir()})
	if landfall.KindOf(err) != landfall.Forbidden || !strings.Contains(landfall.MessageOf(err), "without a sandbox") {
		t.Errorf("the error is %v, want that it is refused", err)
	}
}

// imageRoot makes a root as an image has one: a shell and its tools with their libraries, this binary as /probe, and a
// program with whatever rights its file gives in a folder that everybody may write to.
func imageRoot(t *testing.T, program string) string {
	t.Helper()
	root := t.TempDir()
	put := func(from, at string) {
		t.Helper()
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(from)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, at)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		testkit.Program(t, path, data)
		if err := os.Chmod(path, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	library := regexp.MustCompile(`/\S+\.so\S*`)
	add := func(from, at string) {
		t.Helper()
		put(from, at)
		needs, _ := exec.CommandContext(t.Context(), "ldd", from).Output() // nothing, of a program that needs none
		for _, path := range library.FindAllString(string(needs), -1) {
			put(path, path)
		}
	}
	for name := range strings.FieldsSeq("sh cat ls mount umount unshare nsenter chroot head tr grep date dmesg id su " +
		"nice hostname mknod stat chmod touch rm sleep true env mkdir") {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		add(path, "/bin/"+name)
	}
	add(self(t), "/probe")
	put(program, "/function/id")
	if err := os.Chmod(filepath.Join(root, "function"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../../../../../../..", filepath.Join(root, "up")); err != nil { // images may try
		t.Fatal(err)
	}
	for _, name := range []string{"proc", "dev", "tmp", "run", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, name, "of-the-image"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// However it is started, a program in an image's root sees that and nothing of the machine, beside what every program
// has.
func TestRootIsAll(t *testing.T) {
	t.Parallel()
	s := confined(t)
	root := imageRoot(t, "/usr/bin/id")
	for way, s := range map[string]*sandbox.Sandbox{
		"alone": s, "by bubblewrap": sandbox.WithInit(sandbox.WithoutAlone(s), smallInit(t, t.TempDir())),
	} {
		p := start(t, s, sandbox.Program{Dir: "/function", Root: root,
			Args: shell(`pwd; hostname; id -u; echo x > /tmp/x && cat /tmp/x
echo /*; echo /etc/* /usr/*; ls /up/etc; [ -e /proc/of-the-image ] || [ -e /tmp/of-the-image ] || cat /proc/self/status > /dev/null && echo there; /probe probe mount`)})
		want := "/function\nfunction\n65534\nx\n/bin /dev /etc /function /lib /lib64 /probe /proc /run /tmp " +
			"/up\n/etc/of-the-image /usr/*\nof-the-image\nthere\nmount EPERM\n"
		if got := sandbox.WithoutNames(s, said(t, p)); got != want {
			t.Errorf("%s: it sees\n%s\nwant\n%s", way, got, want)
		}
	}
}
