package builder_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
)

func TestFetchBringsWhatIsNew(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	first := origin.commit(map[string]string{"index.html": "one", "same.txt": strings.Repeat("same\n", 1000)})
	origin.set(mainRef, first)
	s := origin.serve(t)
	m := mirrors(t, s)

	mirror := fetch(t, m, s.remote(), mainRef, first)
	// P-003: the commit that was pushed is fetched, and its files are there
	if got := read(t, mirror, list(t, mirror, first)["index.html"]); got != "one" {
		t.Errorf("index.html of the first commit is %q, want %q", got, "one")
	}

	second := origin.commit(map[string]string{"index.html": "two", "same.txt": strings.Repeat("same\n", 1000)}, first)
	origin.set(mainRef, second)
	mirror = fetch(t, m, s.remote(), mainRef, second)
	// P-003: a later push brings the later commit
	if got := read(t, mirror, list(t, mirror, second)["index.html"]); got != "two" {
		t.Errorf("index.html of the second commit is %q, want %q", got, "two")
	}
	// L-015: files are those of the commit that is asked for, not of what the branch names now
	if got := read(t, mirror, list(t, mirror, first)["index.html"]); got != "one" {
		t.Errorf("index.html of the first commit is %q after the second push, want %q", got, "one")
	}
	if got := s.seen("git-upload-pack"); got != 2 {
		t.Errorf("%d packs were asked for, want 2", got)
	}

	packs := s.seen("git-upload-pack")
	fetch(t, m, s.remote(), mainRef, second)
	if got := s.seen("git-upload-pack"); got != packs {
		t.Errorf("a fetch with nothing new asked for a pack")
	}
	if got := s.seen("/info/refs"); got != 3 {
		t.Errorf("the remote was asked %d times, want 3: a mirror never stands for the right to read", got)
	}
	runGit(t, onlyMirror(t, m), nil, "fsck", "--full", "--strict")
}

// onlyMirror returns the folder of the one mirror.
func onlyMirror(tb testing.TB, m *builder.Mirrors) string {
	tb.Helper()
	found, err := filepath.Glob(filepath.Join(m.Root, "*"))
	if err != nil || len(found) != 1 {
		tb.Fatalf("got mirrors %v, %v; want one", found, err)
	}
	return found[0]
}

func TestFetchOfHistoryThatMoves(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	base := origin.commit(map[string]string{"a": "base"})
	old := origin.commit(map[string]string{"a": "old"}, base)
	origin.set(mainRef, old)
	s := origin.serve(t)
	m := mirrors(t, s)
	fetch(t, m, s.remote(), mainRef, old)

	t.Run("a force push brings the rewritten commit and keeps the old one", func(t *testing.T) {
		rewritten := origin.commit(map[string]string{"a": "rewritten"}, base)
		origin.set(mainRef, rewritten)
		mirror := fetch(t, m, s.remote(), mainRef, rewritten)
		if got := read(t, mirror, list(t, mirror, rewritten)["a"]); got != "rewritten" {
			t.Errorf("got %q", got)
		}
		if got := read(t, mirror, list(t, mirror, old)["a"]); got != "old" {
			t.Errorf("the old commit's file is %q, want %q", got, "old")
		}
	})
	t.Run("a branch below the name of a deleted one", func(t *testing.T) {
		c := origin.commit(map[string]string{"a": "feature"}, base)
		origin.set("refs/heads/feature", c)
		fetch(t, m, s.remote(), "refs/heads/feature", c)
		origin.git("update-ref", "-d", "refs/heads/feature")
		below := origin.commit(map[string]string{"a": "below"}, base)
		origin.set("refs/heads/feature/below", below)
		mirror := fetch(t, m, s.remote(), "refs/heads/feature/below", below)
		if got := read(t, mirror, list(t, mirror, below)["a"]); got != "below" {
			t.Errorf("got %q", got)
		}
		if got := read(t, fetch(t, m, s.remote(), "refs/heads/feature", c), list(t, mirror, c)["a"]); got != "feature" {
			t.Errorf("the deleted branch's commit, which the mirror has, gives %q", got)
		}
	})
	t.Run("a commit that no reference names any more comes by its name where the server gives it", func(t *testing.T) {
		gone := origin.commit(map[string]string{"a": "gone"}, base)
		_, err := m.Fetch(t.Context(), s.remote(), "refs/heads/gone", gone)
		// N-006: a commit that is gone says what happened and what to do
		wantError(t, err, landfall.NotFound, gone.Short(), "gone", s.remote().URL, "push again")
		origin.git("config", "uploadpack.allowAnySHA1InWant", "true")
		mirror := fetch(t, m, s.remote(), "refs/heads/gone", gone)
		if got := read(t, mirror, list(t, mirror, gone)["a"]); got != "gone" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a commit that never was", func(t *testing.T) {
		_, err := m.Fetch(t.Context(), s.remote(), mainRef, landfall.CommitSHA(strings.Repeat("ab", 20)))
		// N-006: a commit that the server does not have is not found
		wantError(t, err, landfall.NotFound, "abababa", "push again")
		next := origin.commit(map[string]string{"a": "next"}, base)
		origin.set(mainRef, next)
		// N-006: the next push works
		fetch(t, m, s.remote(), mainRef, next)
	})
}

// A branch that was rewritten far back, and whose old commits the remote forgot, does not travel whole again.
func TestFetchOfRewrittenBranch(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	grow := func(what string, commits int, parents ...landfall.CommitSHA) []landfall.CommitSHA {
		for i := range commits {
			parents = []landfall.CommitSHA{origin.commit(map[string]string{"a": fmt.Sprint(what, i), "same": "same"},
				parents...)}
		}
		origin.set(mainRef, parents[0])
		return parents
	}
	base := grow("base", 10)
	old := grow("old", 10, base...)
	s := origin.serve(t)
	m := mirrors(t, s)
	fetch(t, m, s.remote(), mainRef, old[0])
	before := packed(t, onlyMirror(t, m))
	rewritten := grow("new", 10, base...)
	origin.git("prune", "--expire=now")
	mirror := fetch(t, m, s.remote(), mainRef, rewritten[0])
	if got := read(t, mirror, list(t, mirror, rewritten[0])["a"]); got != "new9" {
		t.Errorf("got %q", got)
	}
	const commits, objects = 10 + 6, 3 // the new commits, and those since the ancestor that both know; commit, tree, file
	if got := packed(t, onlyMirror(t, m)) - before; got > commits*objects {
		t.Errorf("%d objects travelled for 10 commits, want %d at most", got, commits*objects)
	}
}

// packed returns how many objects lie in a repository's packs.
func packed(tb testing.TB, dir string) int {
	tb.Helper()
	_, rest, _ := strings.Cut(runGit(tb, dir, nil, "count-objects", "-v"), "in-pack: ")
	digits, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(digits)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func TestFetchOfTags(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	c := origin.commit(map[string]string{"a": "1"})
	origin.set(mainRef, c)
	origin.git("tag", "-a", "-m", "release", "v1", string(c))
	origin.git("tag", "-a", "-m", "tag of a tag", "v1-signed", "v1")
	outer := landfall.CommitSHA(origin.git("rev-parse", "refs/tags/v1-signed"))
	s := origin.serve(t)
	m := mirrors(t, s)
	for name, remote := range map[string]builder.Remote{"external": s.remote(), "built-in": origin.local()} {
		t.Run(name, func(t *testing.T) {
			mirror := fetch(t, m, remote, "refs/tags/v1-signed", outer)
			info, err := mirror.Commit(outer)
			if err != nil || info.SHA != c || info.Message != "a commit" || info.Author != "Ada" ||
				info.Time.Unix() != 1700000000 {
				t.Errorf("got %+v, %v; want commit %s", info, err, c)
			}
			if got, err := mirror.Peel(outer); err != nil || got != c {
				t.Errorf("Peel gives %s, %v; want %s", got, err, c)
			}
			if files, err := mirror.Files(t.Context(), outer, ""); err != nil || len(files) != 1 {
				t.Errorf("Files of a tag gives %v, %v", files, err)
			}
			heads, head, err := m.Heads(t.Context(), remote)
			if err != nil || head != mainRef || len(heads) != 3 || heads["refs/tags/v1-signed"] != c || heads[mainRef] != c {
				t.Errorf("Heads gives %v, %q, %v", heads, head, err)
			}
		})
	}
	t.Run("a tag of a tree", func(t *testing.T) {
		tree := landfall.CommitSHA(origin.git("rev-parse", string(c)+"^{tree}"))
		_, err := m.Fetch(t.Context(), origin.local(), "refs/tags/tree", tree)
		wantError(t, err, landfall.Invalid, "only a commit can be released")
	})
}

func TestEmptyRepository(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	s := origin.serve(t)
	m := mirrors(t, s)
	for name, remote := range map[string]builder.Remote{"external": s.remote(), "built-in": origin.local()} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Fetch(t.Context(), remote, mainRef, landfall.CommitSHA(strings.Repeat("1", 40)))
			// N-007: an empty repository is a clear failure
			wantError(t, err, landfall.NotFound, "is empty", "push a commit")
			heads, _, err := m.Heads(t.Context(), remote)
			if err != nil || len(heads) != 0 {
				t.Errorf("Heads gives %v, %v; want none", heads, err)
			}
		})
	}
}

func TestMirrorsOfNamespacesAreApart(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	c := origin.commit(map[string]string{"a": "1"})
	origin.set(mainRef, c)
	s := origin.serve(t)
	m := mirrors(t, s)
	fetch(t, m, s.remote(), mainRef, c)
	other := s.remote()
	other.Namespace = "other"
	s.mu.Lock()
	s.check = func(*http.Request) int { return http.StatusUnauthorized }
	s.mu.Unlock()
	for _, remote := range []builder.Remote{other, s.remote()} {
		_, err := m.Fetch(t.Context(), remote, mainRef, c)
		wantError(t, err, landfall.Unauthorized)
	}
}

// wanting returns the repositories that somebody wants, for Sweep.
func wanting(remotes ...builder.Remote) func(context.Context) ([]builder.Remote, error) {
	return func(context.Context) ([]builder.Remote, error) { return remotes, nil }
}

// Mirrors of repositories that nobody wants any more go, also half made ones, and no others; one that is wanted in the
// moment in which it would go, stays.
func TestSweep(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	c := origin.commit(map[string]string{"a": "1"})
	origin.set(mainRef, c)
	s := origin.serve(t)
	m := mirrors(t, s)
	if err := m.Sweep(t.Context(), wanting()); err != nil {
		t.Errorf("before anything was fetched: %v", err)
	}
	other := s.remote()
	other.Namespace = "other"
	fetch(t, m, s.remote(), mainRef, c)
	if err := os.Mkdir(filepath.Join(m.Root, "0123.git.new"), 0o700); err != nil {
		t.Fatal(err)
	}
	fetch(t, m, other, mainRef, c)
	asked := 0
	err := m.Sweep(t.Context(), func(context.Context) ([]builder.Remote, error) {
		asked++
		if asked == 1 {
			return []builder.Remote{s.remote()}, nil
		}
		return []builder.Remote{s.remote(), other}, nil
	})
	left, _ := os.ReadDir(m.Root)
	if err != nil || len(left) != 2 {
		t.Fatalf("got %v and the error %v, want both mirrors", left, err)
	}
	if err := m.Sweep(t.Context(), wanting(other)); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(m.Root); len(left) != 1 {
		t.Errorf("got %v, want the one that is wanted", left)
	}
	fetch(t, m, s.remote(), mainRef, c) // it is made again
	if err := m.Sweep(t.Context(), wanting()); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(m.Root); len(left) != 0 {
		t.Errorf("got %v, want none", left)
	}
}

// A fetch does not look at what keeps the commits of earlier releases: there is more of it with each. Here it could not
// be read.
func TestFetchLooksAtNothingKept(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	commit := origin.commit(map[string]string{"a": "b"})
	origin.set(mainRef, commit)
	s := origin.serve(t)
	m := mirrors(t, s)
	if err := fetch(t, m, s.remote(), mainRef, commit).Keep("k2f7qaow", commit); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(m.Root, "*", "refs", "landfall", "keep", "*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("got %q, %v, want one reference", kept, err)
	}
	if err := os.Truncate(kept[0], 0); err != nil {
		t.Fatal(err)
	}
	next := origin.commit(map[string]string{"a": "c"}, commit)
	origin.set(mainRef, next)
	mirror := fetch(t, m, s.remote(), mainRef, next)
	if got := read(t, mirror, list(t, mirror, next)["a"]); got != "c" {
		t.Errorf("got %q of the next commit, want c", got)
	}
}

func TestKeepHoldsACommit(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	kept := origin.commit(map[string]string{"a": "kept"})
	lost := origin.commit(map[string]string{"a": "lost"})
	origin.set(mainRef, kept)
	m := mirrors(t)
	mirror := fetch(t, m, origin.local(), mainRef, kept)
	uid := landfall.NewUID()
	for range 2 {
		if err := mirror.Keep(uid, kept); err != nil {
			t.Fatalf("Keep: %v", err)
		}
	}
	origin.git("update-ref", "-d", string(mainRef))
	err := m.Exclusive(t.Context(), origin.local(), func() error {
		origin.git("repack", "-adq")
		origin.git("prune", "--expire=now")
		return nil
	})
	if err != nil {
		t.Fatalf("Exclusive: %v", err)
	}
	if got := read(t, mirror, list(t, mirror, kept)["a"]); got != "kept" {
		t.Errorf("the kept commit's file is %q", got)
	}
	_, err = mirror.Files(t.Context(), lost, "")
	wantError(t, err, landfall.NotFound)
	if err := mirror.Release(uid); err != nil {
		t.Errorf("Release: %v", err)
	}
	if got := origin.git("for-each-ref"); got != "" {
		t.Errorf("after Release there are references %s", got)
	}
	wantError(t, mirror.Keep("../../x", kept), landfall.Invalid)
	wantError(t, mirror.Keep(uid, lost), landfall.NotFound)
}
