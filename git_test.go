package landfall_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"landfall.dev/landfall"
)

// gitAllows asks git whether it would take a name as a reference.
func gitAllows(t rapid.TB, name string) bool {
	t.Helper()
	if strings.ContainsRune(name, 0) {
		return false // it cannot even be an argument
	}
	err := exec.Command("git", "check-ref-format", name).Run()
	if _, refused := errors.AsType[*exec.ExitError](err); err != nil && !refused {
		t.Fatal(err)
	}
	return err == nil
}

// beyond are the rules that a reference here keeps beside git's: it is full, and so no option, of bounded length, and
// UTF-8.
func beyond(name string) bool {
	return !strings.HasPrefix(name, "refs/") || len(name) > 1024 || !utf8.ValidString(name)
}

func checkRefName(t rapid.TB, name string) {
	t.Helper()
	ref, err := landfall.ParseRefName(name)
	want := gitAllows(t, name) && !beyond(name)
	switch got := err == nil; {
	case got != want:
		t.Errorf("ParseRefName(%q): got the error %v; git allows it: %t", name, err, gitAllows(t, name))
	case got && string(ref) != name:
		t.Errorf("ParseRefName(%q): got %q, want it as it was", name, ref)
	case !got && landfall.KindOf(err) != landfall.Invalid:
		t.Errorf("ParseRefName(%q): got the kind %s, want %s", name, landfall.KindOf(err), landfall.Invalid)
	}
}

// References are those that git allows.
func TestParseRefName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"refs/heads/main", "refs/heads/feature/login", "refs/tags/v1.2.0", "refs/heads/a", "refs/heads/日本",
		"refs/heads/a@b", "refs/heads/@", "refs/heads/a{b", "refs/heads/a.b", "refs/heads/a.lock.b", "refs/heads/a}",
		"refs/heads/\xff", "refs/heads/#1", "refs/heads/HEAD", "refs/heads/a-b", "refs/heads/a-", "refs/landfall/apply/1",
		"refs/x", "refs/heads/'", "refs/heads/$(id)", "", "/", "refs", "refs/", "refs//heads/a", "refs/heads/",
		"refs/heads//a", "/refs/heads/a", "refs/heads/a/", "main", "heads/main", "HEAD", "@", "refs/heads/.a",
		"refs/.heads/a", "refs/heads/a.", "refs/heads/a..b", "refs/heads/a.lock", "refs/a.lock/b", "refs/heads/a b",
		"refs/heads/a~1", "refs/heads/a^", "refs/heads/a:b", "refs/heads/a?", "refs/heads/a*", "refs/heads/a[b",
		"refs/heads/a\\b", "refs/heads/a@{1}", "refs/heads/a\x00b", "refs/heads/a\tb", "refs/heads/a\nb", "refs/heads/a\x1f",
		"refs/heads/a\x7f", "refs/heads/-a", "refs/heads/a/-b", "refs/heads/--upload-pack=x", "refs/tags/-", "refs/-a/b",
		"--upload-pack=x", "-", "refs/../heads/a", "refs/heads/" + strings.Repeat("a", 1013),
		"refs/heads/" + strings.Repeat("a", 1014),
	} {
		checkRefName(t, name)
	}
}

// The same with names that nobody thought of.
func TestParseRefNameProperty(t *testing.T) {
	t.Parallel()
	part := rapid.OneOf(
		rapid.SampledFrom([]string{"heads", "a", ".", "..", "-", "@", "{", "@{", ".lock", "/", "//", " ", "\\", "*", "\x7f",
			"é", ":", "~", "^"}), rapid.StringN(0, 3, -1),
	)
	rapid.Check(t, func(t *rapid.T) {
		checkRefName(t, "refs/"+strings.Join(rapid.SliceOfN(part, 1, 6).Draw(t, "parts"), ""))
	})
}

func TestRefNameParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ref         landfall.RefName
		branch, tag string
	}{
		{"refs/heads/feature/x", "feature/x", ""},
		{"refs/tags/v1", "", "v1"},
		{"refs/landfall/apply/1", "", ""},
	} {
		branch, isBranch := c.ref.Branch()
		if isBranch != (c.branch != "") || (isBranch && branch != c.branch) {
			t.Errorf("%s: got the branch %q, %t, want %q", c.ref, branch, isBranch, c.branch)
		}
		tag, isTag := c.ref.Tag()
		if isTag != (c.tag != "") || (isTag && tag != c.tag) {
			t.Errorf("%s: got the tag %q, %t, want %q", c.ref, tag, isTag, c.tag)
		}
	}
}

func TestCommitSHA(t *testing.T) {
	t.Parallel()
	sha1, sha256 := strings.Repeat("0123456789abcdef", 3)[:40], strings.Repeat("0123456789abcdef", 4)
	for s, want := range map[string]bool{
		sha1: true, sha256: true,
		"": false, sha1[:39]: false, sha1 + "0": false, sha256[:63]: false, strings.ToUpper(sha1): false,
		"--upload-pack=" + sha1[:26]: false, sha1[:39] + "g": false, sha1[:39] + "\n": false, "refs/heads/main": false,
	} {
		got, err := landfall.ParseCommitSHA(s)
		if (err == nil) != want || (want && string(got) != s) {
			t.Errorf("ParseCommitSHA(%q): got %q and the error %v, want accepted %t", s, got, err, want)
		}
		if err != nil && landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("ParseCommitSHA(%q): got the kind %s, want %s", s, landfall.KindOf(err), landfall.Invalid)
		}
	}
	for c, want := range map[landfall.CommitSHA]string{landfall.CommitSHA(sha1): "0123456", "012": "012", "": ""} {
		if got := c.Short(); got != want {
			t.Errorf("Short of %q: got %q, want %q", c, got, want)
		}
	}
	for c, want := range map[landfall.CommitSHA]bool{
		"": true, landfall.CommitSHA(strings.Repeat("0", 40)): true, landfall.CommitSHA(strings.Repeat("0", 64)): true,
		landfall.CommitSHA(sha1): false, landfall.CommitSHA(strings.Repeat("0", 39) + "1"): false,
	} {
		if got := c.IsZero(); got != want {
			t.Errorf("IsZero of %q: got %t, want %t", c, got, want)
		}
		if got := (landfall.Push{After: c}).Deleted(); got != want {
			t.Errorf("Deleted of a push to %q: got %t, want %t", c, got, want)
		}
	}
}

// A file's bytes are named without being read where git names them.
func TestContentID(t *testing.T) {
	t.Parallel()
	digest := landfall.DigestOf([]byte("made"))
	if got, want := (landfall.File{Blob: "abc", Digest: digest}).ContentID(), "git:abc"; got != want {
		t.Errorf("of a file of the commit: got %q, want %q", got, want)
	}
	if got, want := (landfall.File{Digest: digest}).ContentID(), string(digest); got != want {
		t.Errorf("of a file that a build made: got %q, want %q", got, want)
	}
}
