package builder_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/test/testkit"
)

// storage is a repository's server for Git LFS, and another host that has the bytes.
type storage struct {
	*server

	media *httptest.Server

	mu     sync.Mutex
	bytes  map[string]string // by oid
	status int               // of the answer to a batch; 0: 200
	batch  int               // batches that were asked for
	got    []http.Header     // of downloads
}

func newStorage(t *testing.T, r *repository) *storage {
	t.Helper()
	s := &storage{server: r.serve(t), bytes: map[string]string{}}
	git := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, "/shop.git/info/lfs/objects/batch") {
			s.answer(w, q)
			return
		}
		git.ServeHTTP(w, q)
	})
	s.media = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, q.Header)
		if target := q.URL.Query().Get("moved"); target != "" {
			http.Redirect(w, q, target, http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, s.bytes[strings.TrimPrefix(q.URL.Path, "/")])
	}))
	t.Cleanup(s.media.Close)
	return s
}

func (s *storage) answer(w http.ResponseWriter, q *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batch++
	var asked struct {
		Objects []struct {
			OID  string
			Size int64
		}
	}
	_ = json.NewDecoder(q.Body).Decode(&asked)
	if s.status != 0 {
		http.Error(w, "no", s.status)
		return
	}
	objects := []any{}
	for _, o := range asked.Objects {
		if _, ok := s.bytes[o.OID]; !ok {
			objects = append(objects, map[string]any{"oid": o.OID, "size": o.Size, "error": map[string]any{"code": 404}})
			continue
		}
		objects = append(objects, map[string]any{"oid": o.OID, "size": o.Size, "actions": map[string]any{
			"download": map[string]any{"href": s.media.URL + "/" + o.OID,
				"header": map[string]string{"Authorization": "RemoteAuth of-the-media", "X-Signed": "yes"}}}})
	}
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	if err := json.NewEncoder(w).Encode(map[string]any{"objects": objects}); err != nil {
		s.status = http.StatusInternalServerError
	}
}

// pointerTo is the pointer of Git LFS to bytes.
func pointerTo(content string) string {
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n",
		landfall.DigestOf([]byte(content)).Hex(), len(content))
}

const tracks = "*.png filter=lfs diff=lfs merge=lfs -text\n"

// A file of Git LFS is listed as what it stands for, and its bytes are fetched from where the repository's host says,
// once, and without the credential of the repository.
func TestLFS(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	s := newStorage(t, r)
	m := mirrors(t, s.server, &server{Server: s.media})
	image, other := strings.Repeat("pixels", 1000), "a short one"
	s.bytes[landfall.DigestOf([]byte(image)).Hex()], s.bytes[landfall.DigestOf([]byte(other)).Hex()] = image, other
	c := r.commit(map[string]string{".gitattributes": tracks, "img/a.png": pointerTo(image), "!b.png": pointerTo(other),
		"->link.png": "img/a.png", "page.html": "page"})
	r.set(mainRef, c)
	remote := s.remote()
	remote.Password = "token-of-the-repository"
	mirror := fetch(t, m, remote, mainRef, c)
	files := testkit.Must(mirror.Files(t.Context(), c, ""))(t)
	byPath := map[string]landfall.File{}
	for _, f := range files {
		byPath[f.Path] = f
	}
	for path, want := range map[string]string{"img/a.png": image, "link.png": image, "b.png": other} {
		f := byPath[path]
		if !f.LFS || f.Size != int64(len(want)) || f.Digest != landfall.DigestOf([]byte(want)) ||
			f.ContentID() != string(f.Digest) {
			t.Errorf("%s is listed as %+v", path, f)
		}
	}
	if err := mirror.FetchLFS(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"img/a.png": image, "link.png": image, "b.png": other, "page.html": "page"} {
		testkit.Equal(t, path, read(t, mirror, byPath[path]) == want, true)
	}
	testkit.Equal(t, "batches", s.batch, 1)
	testkit.Equal(t, "downloads", len(s.got), 2)
	for _, h := range s.got {
		// S12: the other host gets what the answer gave for it, and nothing of the repository's
		testkit.Equal(t, "Authorization at the other host", h.Get("Authorization"), "RemoteAuth of-the-media")
		testkit.Equal(t, "header of the answer", h.Get("X-Signed"), "yes")
	}
	inFolder := testkit.Must(mirror.Files(t.Context(), c, "img"))(t)
	testkit.Equal(t, "a file below a folder is Git LFS's", inFolder[0].LFS, true)
}

// What cannot be fetched is refused with the file's name and what to do, and never taken for the file.
func TestLFSThatFails(t *testing.T) {
	t.Parallel()
	r := newRepository(t)
	s := newStorage(t, r)
	m := mirrors(t, s.server, &server{Server: s.media})
	image := strings.Repeat("pixels", 100)
	oid := landfall.DigestOf([]byte(image)).Hex()
	c := r.commit(map[string]string{".gitattributes": tracks, "img/a.png": pointerTo(image),
		".lfsconfig": "[lfs]\n\turl = http://127.0.0.1:1/elsewhere\n"})
	r.set(mainRef, c)
	mirror := fetch(t, m, s.remote(), mainRef, c)
	list := func(mirror *builder.Mirror) landfall.File {
		t.Helper()
		return testkit.Must(mirror.Files(t.Context(), c, "img"))(t)[0]
	}
	fails := func(kind landfall.Kind, parts ...string) {
		t.Helper()
		_, err := mirror.Read(t.Context(), list(mirror))
		// N-013: a pointer that leads nowhere is named
		wantError(t, err, kind, append(parts, "img/a.png is a file of Git LFS")...)
	}
	fails(landfall.NotFound, "does not have its bytes", "git lfs push --all origin")
	s.bytes[oid] = strings.Repeat("pixelz", 100)
	fails(landfall.Unavailable, "other bytes than its pointer names")
	s.bytes[oid] = image + "more"
	fails(landfall.Unavailable, "other bytes than its pointer names")
	s.bytes[oid] = image[1:]
	fails(landfall.Unavailable, "other bytes than its pointer names")
	for status, want := range map[int]landfall.Kind{http.StatusForbidden: landfall.Unauthorized,
		http.StatusNotFound: landfall.Invalid, http.StatusBadGateway: landfall.Unavailable, http.StatusGone: landfall.Invalid} {
		s.status = status
		fails(want, s.host())
	}
	s.status = 0
	m.Dialer.AllowedHosts = []string{s.host()}
	// S13: where the answer leads is checked like every address
	fails(landfall.Invalid, "https://")
	m.Dialer.AllowedHosts = append(m.Dialer.AllowedHosts, (&server{Server: s.media}).host())

	s.bytes[oid] = image
	testkit.Equal(t, "content", read(t, mirror, list(mirror)), image)
	testkit.Equal(t, "requests to .lfsconfig's server", len(s.got) > 0, true) // S11: it would have failed

	local := testkit.Must(m.Fetch(t.Context(), r.local(), mainRef, c))(t)
	defer func() { _ = local.Close() }()
	_, err := local.Read(t.Context(), list(local))
	wantError(t, err, landfall.Invalid, "img/a.png is a file of Git LFS", "built-in remote", "git lfs migrate export")

	small := mirrors(t, s.server)
	small.Limits.FileBytes = 500
	over := testkit.Must(small.Fetch(t.Context(), s.remote(), mainRef, c))(t)
	defer func() { _ = over.Close() }()
	_, err = over.Files(t.Context(), c, "")
	// N-008: the size that counts is that of the file, not of its pointer
	wantError(t, err, landfall.Invalid, `"img/a.png" has 600 bytes`, "LANDFALL_MAX_FILE_BYTES")
	small.Limits = builder.Limits{CommitBytes: 500}
	over = testkit.Must(small.Fetch(t.Context(), s.remote(), mainRef, c))(t)
	defer func() { _ = over.Close() }()
	_, err = over.Files(t.Context(), c, "")
	wantError(t, err, landfall.Invalid, "the commit's files have", "LANDFALL_MAX_COMMIT_BYTES")
}

// By ssh the repository's host says where its files of Git LFS are, and what to send there.
func TestLFSBySSH(t *testing.T) {
	t.Parallel()
	d := newDeployed(t)
	s := newStorage(t, d.repository)
	m := d.mirrors(t)
	m.Dialer.AllowedHosts = append(m.Dialer.AllowedHosts, s.host(), (&server{Server: s.media}).host())
	image := strings.Repeat("pixels", 100)
	s.bytes[landfall.DigestOf([]byte(image)).Hex()] = image
	c := d.commit(map[string]string{".gitattributes": tracks, "a.png": pointerTo(image)})
	d.set(mainRef, c)
	mirror := fetch(t, m, d.remote, mainRef, c)
	file := testkit.Must(mirror.Files(t.Context(), c, ""))(t)[1]
	_, err := mirror.Read(t.Context(), file)
	wantError(t, err, landfall.Invalid, "does not say by ssh where it keeps them")
	d.host.LFS = `{"href": "` + s.URL + `/shop.git/info/lfs", "header": {"Authorization": "RemoteAuth x"}}`
	testkit.Equal(t, "content", read(t, mirror, file), image)
}
