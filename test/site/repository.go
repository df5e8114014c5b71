package site

import (
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// Repository is a work tree with a remote.
type Repository struct {
	T   testing.TB
	Dir string
}

// Checkout makes a branch, or goes to it.
func (r *Repository) Checkout(branch string) {
	r.T.Helper()
	if _, err := r.Try("rev-parse", "--verify", "--quiet", "refs/heads/"+branch); err != nil {
		r.Git("checkout", "--quiet", "-b", branch)
		return
	}
	r.Git("checkout", "--quiet", branch)
}

// Told is what the server said during a push, line by line, as the person who pushed reads it.
type Told []string

func (o Told) String() string { return strings.Join(o, "\n") }

// ToldBy returns what the server said, of the output of git.
func ToldBy(output string) Told {
	var lines Told
	for line := range strings.Lines(output) {
		if text, ok := strings.CutPrefix(line, "remote: "); ok {
			lines = append(lines, strings.TrimRight(text, " \r\n"))
		}
	}
	return lines
}

// Push pushes to origin and fails the test when git fails.
func (r *Repository) Push(args ...string) Told {
	r.T.Helper()
	return ToldBy(r.Git(append([]string{"push", "origin"}, args...)...))
}

// NewRepository makes an empty repository on the branch main.
func NewRepository(t testing.TB) *Repository {
	t.Helper()
	r := &Repository{t, t.TempDir()}
	r.Git("init", "--quiet", "--initial-branch=main")
	r.Git("config", "gc.auto", "0") // it would go on behind the test's back
	return r
}

// Repository makes a repository whose remote "origin" is the app's built-in one.
func (s *Site) Repository(app client.App) *Repository {
	s.T.Helper()
	r := NewRepository(s.T)
	r.Git("remote", "add", "origin", s.Remote(app))
	return r
}

// Remote is the address of an app's built-in remote with the administrator's token.
func (s *Site) Remote(app client.App) string {
	return strings.Replace(app.Repository, "://", "://admin:"+s.Token+"@", 1)
}

// Try runs git and returns what it printed on both outputs. Each repository has a committer of its own: two that commit
// the same files in the same second would else have one commit.
func (r *Repository) Try(args ...string) (string, error) { return r.TryWith(nil, args...) }

// TryWith is try with an input.
func (r *Repository) TryWith(in io.Reader, args ...string) (string, error) {
	committer := fmt.Sprintf("GIT_COMMITTER_EMAIL=ada+%08x@example.com", crc32.ChecksumIEEE([]byte(r.Dir)))
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = r.Dir, in
	cmd.Env = Environ(committer)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Git runs git and fails the test when it fails.
func (r *Repository) Git(args ...string) string {
	r.T.Helper()
	out, err := r.Try(args...)
	if err != nil {
		r.T.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// Write writes files: pairs of name and content.
func (r *Repository) Write(pairs ...string) {
	r.T.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		path := filepath.Join(r.Dir, filepath.FromSlash(pairs[i]))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			r.T.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(pairs[i+1]), 0o644); err != nil {
			r.T.Fatal(err)
		}
	}
}

// Commit commits everything, and returns the commit.
func (r *Repository) Commit(message string) landfall.CommitSHA {
	r.T.Helper()
	r.Git("add", "--all")
	r.Git("commit", "--quiet", "--allow-empty", "--message", message)
	return r.Head()
}

// Head returns the commit that is checked out.
func (r *Repository) Head() landfall.CommitSHA {
	r.T.Helper()
	return landfall.CommitSHA(r.Git("rev-parse", "HEAD"))
}

// CopyTree copies a folder into the repository.
func (r *Repository) CopyTree(from string) {
	r.T.Helper()
	if err := os.CopyFS(r.Dir, os.DirFS(from)); err != nil {
		r.T.Fatal(err)
	}
}

// Replace replaces text in a file of the repository.
func (r *Repository) Replace(name, old, with string) {
	r.T.Helper()
	data, err := os.ReadFile(filepath.Join(r.Dir, name))
	if err != nil {
		r.T.Fatal(err)
	}
	if !strings.Contains(string(data), old) {
		r.T.Fatalf("%s has no %q", name, old)
	}
	r.Write(name, strings.ReplaceAll(string(data), old, with))
}
