package remote_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/test/testkit"
)

// Only branches, tags and references of applies can be pushed, under names that are safe everywhere.
func TestReferencesThatAreRefused(t *testing.T) {
	t.Parallel()
	d := &doors{}
	s := serve(t, remote.Config{Receiver: d})
	w := newWork(t)
	w.git(t, "update-ref", "refs/tags/blob", w.git(t, "rev-parse", "HEAD:index.html"))
	for name, c := range map[string]struct{ refspec, want string }{
		"notes":          {"HEAD:refs/notes/commits", "only branches (refs/heads/…) and tags (refs/tags/…)"},
		"a pull request": {"HEAD:refs/pull/1/head", "only branches"},
		"a long name":    {"HEAD:refs/heads/" + strings.Repeat("long/", 210) + "x", "at most 1024 characters"},
		"a name in Latin-1": {"HEAD:refs/tags/caf\xe9",
			"remote: The push is refused: \"refs/tags/caf\ufffd\" is refused: the name is not valid UTF-8"},
		"a tag of no commit": {"refs/tags/blob:refs/tags/blob",
			`"refs/tags/blob" is refused: it would name something that is not a commit`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := w.try(t, "push", s.address("shop", token), "HEAD:refs/heads/too", c.refspec)
			// N-014: a name that the remote does not take is refused by name, on the pusher's terminal.
			refused(t, out, err, "remote: The push is refused: ", c.want)
		})
	}
	t.Cleanup(func() {
		if _, n := d.last(); n != 0 {
			t.Errorf("got %d accepted pushes, want none", n)
		}
	})
}

// Names that look dangerous but are none arrive as they are.
func TestReferencesThatAreTaken(t *testing.T) {
	t.Parallel()
	d := &doors{}
	s := serve(t, remote.Config{Receiver: d})
	w := newWork(t)
	names := []string{"-rf", "--upload-pack=x", "a/--upload-pack", "-", "Ünïcödé/分支", "a%2e%2e", "$(id)", "a;b",
		"'quoted\"", "Case", "case", "HEAD", strings.Repeat("x", 200)}
	refspecs := []string{"push", s.address("shop", token)}
	for _, name := range names {
		refspecs = append(refspecs, "HEAD:refs/heads/"+name)
	}
	w.git(t, refspecs...)
	heads := s.heads(t, "shop")
	for _, name := range names {
		// N-014: names of branches survive the push as they are.
		if heads[landfall.RefName("refs/heads/"+name)] != w.sha(t, "HEAD") {
			t.Errorf("got heads %v, want refs/heads/%s in them", heads, name)
		}
	}
}

// The app's rules come before anything moves, and the pusher reads the reason.
func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	d := &doors{}
	d.check = func(updates []remote.Update) error {
		for _, u := range updates {
			if u.Forced {
				return &landfall.Error{Kind: landfall.Forbidden, Message: "history of " + string(u.Ref) + " is not rewritten"}
			}
		}
		return nil
	}
	s := serve(t, remote.Config{Receiver: d})
	w := newWork(t)
	first := w.sha(t, "HEAD")
	w.git(t, "push", s.address("shop", token), "main")
	w.git(t, "commit", "-q", "--amend", "-m", "another")
	out, err := w.try(t, "push", "-f", s.address("shop", token), "main", "main:new")
	// L-011: no push is refused silently.
	refused(t, out, err, "remote: The push is refused: history of refs/heads/main is not rewritten")
	if got := s.heads(t, "shop"); len(got) != 1 || got["refs/heads/main"] != first {
		t.Errorf("got heads %v, want main at %s: nothing moves", got, first)
	}
	if got, n := d.last(); n != 1 {
		t.Errorf("got %d accepted pushes, the newest %v, want 1", n, got)
	}
	if left, _ := filepath.Glob(filepath.Join(s.root, "id-shop.git/objects/tmp_*")); len(left) != 0 {
		t.Errorf("the refused push left %v", left)
	}
}

// Who may come in, and what the others are told.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := serve(t, remote.Config{Receiver: &doors{}})
	for name, c := range map[string]struct {
		app, user, secret, service string
		want                       int
		text                       string
	}{
		"without a token":                   {app: "shop", want: 401, text: "a token is needed"},
		"unknown app without a token":       {app: "other", want: 401, text: "a token is needed"},
		"unknown token":                     {app: "shop", user: "any", secret: "guess", want: 401, text: "not known"},
		"unknown app with an unknown token": {app: "other", user: "any", secret: "guess", want: 401, text: "not known"},
		"unknown app": {app: "other", user: "any", secret: token, want: 404,
			text: "no app of this name"},
		"strange app": {app: "..%2f..", user: "any", secret: token, want: 404, text: "not found"},
		"deleted app": {app: "gone", user: "any", secret: token, want: 409, text: "was deleted"},
		"a reader that wants to push": {app: "shop", user: "any", secret: reader, service: "git-receive-pack",
			want: 403, text: "may only read"}, "a reader": {app: "shop", user: "any", secret: reader, want: 200,
			text: "# service=git-upload-pack"},
		"a writer under any name": {app: "shop", user: "", secret: token, service: "git-receive-pack",
			want: 200, text: "report-status"}, "a bearer": {app: "shop", user: "bearer", secret: token, want: 200,
			text: "# service=git-upload-pack"},
		"a store that is broken": {app: "down", user: "any", secret: token, want: 500,
			text: "internal error"},
		"a service that git has and we have not": {app: "shop", user: "any", secret: token, service: "git-upload-archive",
			want: 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.service == "" {
				c.service = "git-upload-pack"
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				s.URL+"/git/"+c.app+".git/info/refs?service="+c.service, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.user == "bearer":
				req.Header.Set("Authorization", "Bearer "+c.secret)
			case c.secret != "":
				req.SetBasicAuth(c.user, c.secret)
			}
			status, text := answer(t, req)
			if status != c.want || !strings.Contains(text, c.text) {
				t.Errorf("got %d %q, want %d and %q", status, text, c.want, c.text)
			}
		})
	}
	t.Run("git says what was wrong", func(t *testing.T) {
		t.Parallel()
		w := newWork(t)
		out, err := w.try(t, "push", s.address("shop", "guess"), "main")
		refused(t, out, err, "Authentication failed")
		out, err = w.try(t, "push", s.address("gone", token), "main")
		refused(t, out, err, "remote: the app gone was deleted")
		out, err = w.try(t, "clone", s.address("other", token))
		refused(t, out, err, "remote: there is no app of this name")
	})
	t.Run("the challenge is basic authentication", func(t *testing.T) {
		t.Parallel()
		resp, err := http.Get(s.URL + "/git/shop.git/info/refs?service=git-upload-pack")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("WWW-Authenticate"); got != `Basic realm="Landfall"` {
			t.Errorf("got challenge %q", got)
		}
	})
}

// Everything below /git/ that is not git's smart protocol is 404: no file of a repository can be read by its path.
func TestOtherPaths(t *testing.T) {
	t.Parallel()
	s := serve(t, remote.Config{Receiver: &doors{}})
	w := newWork(t)
	w.git(t, "push", s.address("shop", token), "main")
	for _, path := range []string{
		"/git/shop.git/HEAD", "/git/shop.git/config", "/git/shop.git/info/refs", "/git/shop.git/objects/info/packs",
		"/git/shop.git", "/git/shop.git/git-receive-pack", "/git/shop.git/git-upload-pack", "/git/shop",
		"/git/a/shop.git/info/refs?service=git-upload-pack", "/shop.git/info/refs?service=git-upload-pack",
		"/git/id-shop.git/info/refs?service=git-upload-pack",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("any", token)
		if status, text := answer(t, req); status != http.StatusNotFound {
			t.Errorf("%s: got %d %q, want 404", path, status, text)
		}
	}
	// A browser that remembers the password cannot be made to push by another site's form.
	if status, _ := post(t, s, "/git/shop.git/git-receive-pack", "text/plain", token,
		strings.NewReader("0000")); status != http.StatusUnsupportedMediaType {
		t.Errorf("got %d for a form, want 415", status)
	}
}

// A repository may be named without .git, as elsewhere.
func TestAddressWithoutGit(t *testing.T) {
	t.Parallel()
	s := serve(t, remote.Config{Receiver: &doors{}})
	w := newWork(t)
	address := strings.TrimSuffix(s.address("shop", token), ".git")
	w.git(t, "push", address, "main")
	w.git(t, "push", s.address("shop", token), "main:other")
	if got := w.git(t, "ls-remote", address); !strings.Contains(got, "refs/heads/main") ||
		!strings.Contains(got, "refs/heads/other") {
		t.Errorf("got %q", got)
	}
}

// What git asks for at an address that is none of a repository is told the right one; everything else is not for git.
func TestMisplaced(t *testing.T) {
	t.Parallel()
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	public, err := url.Parse("https://landfall.example/")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/web.git/info/refs?service=git-upload-pack":      "https://landfall.example/git/web.git\n",
		"/web/info/refs?service=git-receive-pack":         "https://landfall.example/git/web.git\n",
		"/shop/web.git/info/refs?service=git-upload-pack": "https://landfall.example/git/web.git\n",
		"/web.git/git-receive-pack":                       "https://landfall.example/git/web.git\n",
		"/info/refs?service=git-upload-pack":              "https://landfall.example/git/APP.git\n",
		"/web.git":                                        "",
		"/apps/web/info/refs":                             "",
		"/apps":                                           "",
	} {
		w := httptest.NewRecorder()
		remote.Misplaced(public, pages).ServeHTTP(w,
			httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if want == "" && w.Code != http.StatusTeapot ||
			want != "" && (w.Code != http.StatusNotFound || !strings.HasSuffix(w.Body.String(), want)) {
			t.Errorf("%s: got %d %q, want %q", path, w.Code, w.Body, want)
		}
	}
}

// packet returns text as git sends a line.
func packet(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

const (
	zero     = "0000000000000000000000000000000000000000"
	pushPath = "/git/shop.git/git-receive-pack"
	pushType = "application/x-git-receive-pack-request"
)

// objectHead returns how an object in a pack begins that claims to be size bytes long.
func objectHead(kind byte, size uint64) []byte {
	head := []byte{kind<<4 | byte(size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(size&0x7f))
	}
	return head
}

// object returns an object as a pack holds it, which claims to be size bytes long.
func object(kind byte, size uint64, content []byte) []byte {
	out := bytes.NewBuffer(objectHead(kind, size))
	z := zlib.NewWriter(out)
	_, _ = z.Write(content)
	_ = z.Close()
	return out.Bytes()
}

// pack returns a pack of objects, complete with its checksum.
func pack(objects ...[]byte) []byte {
	var out bytes.Buffer
	out.WriteString("PACK")
	_ = binary.Write(&out, binary.BigEndian, []uint32{2, uint32(len(objects))})
	for _, o := range objects {
		out.Write(o)
	}
	sum := sha1.Sum(out.Bytes())
	return append(out.Bytes(), sum[:]...)
}

// named returns git's name of an object.
func named(kind string, content []byte) string {
	return fmt.Sprintf("%x", sha1.Sum(append(fmt.Appendf(nil, "%s %d\x00", kind, len(content)), content...)))
}

// rawPush returns what a client sends that makes refs/heads/main name a commit.
func rawPush(capabilities, commit string, content []byte) []byte {
	return append([]byte(packet(zero+" "+commit+" refs/heads/main\x00"+capabilities)+"0000"), content...)
}

// emptyCommit returns the name of a commit without files, and a pack of it.
func emptyCommit() (string, []byte) {
	commit := []byte("tree " + named("tree", nil) +
		"\nauthor A <a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +0000\n\nraw\n")
	return named("commit", commit), pack(object(1, uint64(len(commit)), commit), object(2, 0, nil))
}

// What no git client would send is refused, moves nothing, and costs nothing.
func TestHostilePushes(t *testing.T) {
	t.Parallel()
	badTime := []byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@example.com> never\ncommitter A " +
		"<a@example.com> never\n\nx\n")
	good := []byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@example.com> 1 +0000\ncommitter A " +
		"<a@example.com> 1 +0000\n\nraw\n")
	dotGit := append([]byte("40000 .git\x00"), make([]byte, 20)...)
	tree := func(kind, entry string) []byte {
		return fmt.Appendf(nil, "tree %s\nauthor A <a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +0000\n\nx\n",
			named(kind, []byte(entry)))
	}
	const wants = "report-status side-band-64k"
	line := func(ref string) string {
		return packet(zero + " " + named("commit", good) + " " + ref + "\x00" + wants)
	}
	for name, c := range map[string]struct {
		body   []byte
		status int
		text   string
	}{
		"a commit that fsck refuses": {rawPush(wants, named("commit", badTime),
			pack(object(1, uint64(len(badTime)), badTime), object(2, 0, nil))), 200, "fsck error"},
		"a folder .git": {rawPush(wants, named("commit", tree("tree", string(dotGit))),
			pack(object(1, uint64(len(good)), tree("tree", string(dotGit))), object(2, uint64(len(dotGit)), dotGit))),
			200, "unpack"},
		"a commit without its tree": {rawPush(wants, named("commit", tree("tree", "none")),
			pack(object(1, uint64(len(good)), tree("tree", "none")))), 200, "ng refs/heads/main"},
		"an object of 4 GiB": {rawPush(wants, named("commit", good), pack(object(1, 4<<30, good))), 200, "Out of memory"},
		"a pack that is cut off": {rawPush(wants, named("commit", good), pack(object(1, uint64(len(good)), good))[:40]), 200,
			"ng refs/heads/main"},
		"no pack": {rawPush(wants, named("commit", good), nil), 200, "ng refs/heads/main"},
		"a line break in a name": {[]byte(line("refs/heads/x\n\n"+zero+" "+named("commit", good)+" refs/heads/main") +
			"0000"), 400, "not a push"},
		"no packets": {[]byte("GET / HTTP/1.1"), 400, "not a push"},
		"nothing":    {nil, 400, "not a push"},
		"a certificate": {[]byte(packet("push-cert\x00"+wants+"\n") + packet("pushee x\n") + packet("push-cert-end\n") +
			"0000"), 400, "not a push"},
		"a list without end": {[]byte(strings.Repeat(line("refs/heads/x"), 10_000)), 400, "limited to 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &doors{}
			s := serve(t, remote.Config{Receiver: d})
			status, text := post(t, s, pushPath, pushType, token, bytes.NewReader(c.body))
			if status != c.status || !strings.Contains(text, c.text) {
				t.Errorf("got %d %q, want %d and %q", status, text, c.status, c.text)
			}
			if got, n := s.heads(t, "shop"), len(d.accepted); len(got) != 0 || n != 0 {
				t.Errorf("got heads %v and %d accepted pushes, want none", got, n)
			}
			testkit.Eventually(t, "no process is left", func() bool { return len(s.processes(t)) == 0 })
		})
	}
}

// Clients that are simpler than git's own can push as well.
func TestSimpleClients(t *testing.T) {
	t.Parallel()
	commit, content := emptyCommit()
	for name, c := range map[string]struct{ capabilities, want string }{
		"without a side band": {"report-status", packet("unpack ok\n") + packet("ok refs/heads/main\n") + "0000"},
		"without a report":    {"side-band-64k", packet("\x02live at last\n") + "0000"},
		"with nothing":        {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &doors{accept: func([]remote.Update) ([]string, error) { return []string{"run"}, nil }, follow: liveAtLast}
			s := serve(t, remote.Config{Receiver: d})
			var zipped bytes.Buffer
			z := gzip.NewWriter(&zipped)
			_, _ = z.Write(rawPush(c.capabilities, commit, content))
			_ = z.Close()
			status, text := post(t, s, pushPath, pushType, token, &zipped, "Content-Encoding", "gzip")
			if status != http.StatusOK || text != c.want {
				t.Errorf("got %d %q, want 200 %q", status, text, c.want)
			}
			equal(t, d, remote.Update{Ref: "refs/heads/main", After: landfall.CommitSHA(commit), Message: "raw"})
		})
	}
	t.Run("a question before a large push", func(t *testing.T) {
		t.Parallel()
		s := serve(t, remote.Config{Receiver: &doors{}})
		if status, text := post(t, s, pushPath, pushType, token, strings.NewReader("0000")); status != http.StatusOK ||
			text != "" {
			t.Errorf("got %d %q, want 200 and nothing", status, text)
		}
	})
}
