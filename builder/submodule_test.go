package builder_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/test/testkit"
)

// beside makes another repository that the same server gives, as NAME.git.
func (r *repository) beside(name string) *repository {
	r.tb.Helper()
	other := &repository{tb: r.tb, dir: filepath.Join(filepath.Dir(r.dir), name+".git")}
	runGit(r.tb, "", nil, "init", "-q", "--bare", "-b", "main", other.dir)
	return other
}

// withModules commits files, and submodules: their commits by their paths.
func (r *repository) withModules(contents map[string]string, modules map[string]landfall.CommitSHA) landfall.CommitSHA {
	r.tb.Helper()
	var index strings.Builder
	for path, content := range contents {
		fmt.Fprintf(&index, "100644 %s\t%s\x00", r.blob(content), path)
	}
	for path, commit := range modules {
		fmt.Fprintf(&index, "160000 %s\t%s\x00", commit, path)
	}
	return r.commitTree(r.index([]byte(index.String())), "with submodules")
}

func says(address, path string) string {
	return fmt.Sprintf("[submodule %q]\n\tpath = %s\n\turl = %s\n", path, path, address)
}

// The files of a submodule are listed and read at its path, at the commit that is pinned, also of one in another.
func TestSubmodules(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	icons, theme := r.beside("icons"), r.beside("theme")
	icon := icons.commit(map[string]string{"star.svg": "a star"})
	icons.set(mainRef, icon)
	pinned := theme.withModules(map[string]string{"theme.css": "pinned", ".gitmodules": says("../icons.git", "icons")},
		map[string]landfall.CommitSHA{"icons": icon})
	theme.set(mainRef, theme.commit(map[string]string{"theme.css": "newer"}, pinned))
	s := r.serve(t)
	c := r.withModules(map[string]string{"index.html": "page", ".gitmodules": says(s.URL+"/theme.git", "site/theme")},
		map[string]landfall.CommitSHA{"site/theme": pinned})
	r.set(mainRef, c)
	m := mirrors(t, s)
	remote := s.remote()
	remote.Password = "token-of-the-repository"
	mirror := fetch(t, m, remote, mainRef, c)
	asked := len(s.authed)
	content := map[string]string{}
	for _, f := range testkit.Must(mirror.Files(t.Context(), c, "site"))(t) {
		content[f.Path] = read(t, mirror, f)
	}
	testkit.Same(t, "files", content, map[string]string{"site/theme/theme.css": "pinned",
		"site/theme/icons/star.svg": "a star", "site/theme/.gitmodules": says("../icons.git", "icons")})
	// S12: the credential of the repository is not sent for its submodules
	testkit.Equal(t, "requests with it for submodules", len(s.authed), asked)
	small := mirrors(t, s)
	small.Limits.Files = 4
	over := testkit.Must(small.Fetch(t.Context(), remote, mainRef, c))(t)
	defer func() { _ = over.Close() }()
	_, err := over.Files(t.Context(), c, "")
	// N-008: the limits hold for all files together
	wantError(t, err, landfall.Invalid, "the commit has 5 files with those of its submodules", "LANDFALL_MAX_FILES")
}

// What cannot be fetched, or must not be, harms only those who select it, and says why.
func TestSubmodulesThatAreRefused(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	loop := r.beside("loop")
	s := r.serve(t)
	m := mirrors(t, s)
	one := r.commit(map[string]string{"a": "1"})
	refused := func(modules string, commit landfall.CommitSHA, want string) {
		t.Helper()
		c := r.withModules(map[string]string{"index.html": "page", ".gitmodules": modules},
			map[string]landfall.CommitSHA{"theme": commit})
		r.set(mainRef, c)
		mirror := fetch(t, m, s.remote(), mainRef, c)
		named := false
		for _, f := range testkit.Must(mirror.Files(t.Context(), c, ""))(t) {
			if f.Mode == landfall.Submodule {
				named = true
				// N-013: a submodule that is not fetched is named
				wantError(t, builder.Check(f), landfall.Invalid, "theme", "submodule", want, "exclude it")
			} else if f.Path == "index.html" {
				testkit.Equal(t, "the rest", read(t, mirror, f), "page")
			}
		}
		testkit.Equal(t, "a submodule is refused: "+want, named, true)
	}
	for address, want := range map[string]string{
		"file:///etc": "must begin with https://", "ext::sh -c x": "space", "/srv/git/x.git": "must begin with https://",
		"https://10.0.0.1/x.git": "own network", "https://u:p@github.com/a/b": "credentials", "-x": "begins with",
		"git@[::1]:x": "cannot be read", "https://169.254.169.254/latest": "own network", "--upload-pack=x": "begins with",
		"https://localhost/x": "own network",
	} {
		// S11: nothing of .gitmodules leads into the own network, to a file or to a program
		refused(says(address, "theme"), one, want)
	}
	refused("", one, ".gitmodules does not say")
	refused("[submodule", one, ".gitmodules does not say")
	refused(says("../shop.git", "other"), one, ".gitmodules does not say")
	refused(says("../shop.git", "theme"), landfall.CommitSHA(strings.Repeat("ab", 20)), "cannot be read by everybody")

	a := loop.withModules(map[string]string{".gitmodules": says("../loop.git", "again")},
		map[string]landfall.CommitSHA{"again": one})
	for range 4 { // a commit cannot have itself: each is in the next
		a = loop.withModules(map[string]string{".gitmodules": says("../loop.git", "again")},
			map[string]landfall.CommitSHA{"again": a})
	}
	loop.set(mainRef, a)
	loop.git("config", "uploadpack.allowAnySHA1InWant", "true")
	// S11: how deep they lie in each other is bounded
	refused(says("../loop.git", "theme"), a, "more than 3 deep")

	many, paths := "", map[string]landfall.CommitSHA{}
	for i := range 21 {
		path := fmt.Sprintf("m%02d", i)
		many, paths[path] = many+says("../shop.git", path), one
	}
	r.git("config", "uploadpack.allowAnySHA1InWant", "true")
	c := r.withModules(map[string]string{".gitmodules": many}, paths)
	r.set(mainRef, c)
	mirror := fetch(t, m, s.remote(), mainRef, c)
	files := testkit.Must(mirror.Files(t.Context(), c, ""))(t)
	// S11: and how many there are
	wantError(t, builder.Check(files[len(files)-1]), landfall.Invalid, "at most 20")

	s.check = func(q *http.Request) int {
		if strings.HasPrefix(q.URL.Path, "/loop.git") {
			return http.StatusUnauthorized
		}
		return 0
	}
	// S12: a private one needs a credential of its own, which there is none
	refused(says("../loop.git", "theme"), a, "credential of the app is for its own repository only")

	local := testkit.Must(m.Fetch(t.Context(), r.local(), mainRef, c))(t)
	defer func() { _ = local.Close() }()
	wantError(t, builder.Check(testkit.Must(local.Files(t.Context(), c, ""))(t)[1]), landfall.Invalid, "relative")
}

// A fork's commit has submodules from where its base branch has them, and asks no other host.
func TestSubmodulesOfForks(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	theme, inner := r.beside("theme"), r.beside("inner")
	secret := inner.commit(map[string]string{"plans": "of the own network"})
	inner.set(mainRef, secret)
	nested := theme.withModules(map[string]string{"theme.css": "new", ".gitmodules": says("../inner.git", "in")},
		map[string]landfall.CommitSHA{"in": secret})
	theme.set(mainRef, nested)
	s := r.serve(t)
	base := r.withModules(map[string]string{".gitmodules": says("../theme.git", "old/place")}, nil)
	r.set(mainRef, base)
	modules := says("../inner.git", "in") + says(s.URL+"/theme.git", "theme")
	fork := r.withModules(map[string]string{".gitmodules": modules},
		map[string]landfall.CommitSHA{"in": secret, "theme": nested})
	r.set("refs/pull/12/head", fork)
	mirror := fetch(t, mirrors(t, s), s.remote(), "refs/pull/12/head", fork)
	s.check = func(q *http.Request) int {
		if strings.HasPrefix(q.URL.Path, "/inner.git") {
			t.Errorf("%s was asked for, which the base branch does not name", q.URL)
		}
		return 0
	}
	if err := mirror.LimitModules(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range testkit.Must(mirror.Files(t.Context(), fork, ""))(t) {
		paths = append(paths, f.Path)
		if f.Mode == landfall.Submodule {
			// S18: a fork asks no host that its base branch does not name
			wantError(t, builder.Check(f), landfall.Invalid, "that its base branch names alone", "/inner.git")
		}
	}
	testkit.EqualList(t, "files", paths,
		[]string{".gitmodules", "in", "theme/.gitmodules", "theme/in", "theme/theme.css"})
}
