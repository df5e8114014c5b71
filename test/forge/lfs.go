package forge

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
)

// media is the host at which the forge keeps the bytes of Git LFS.
type media struct {
	*httptest.Server

	mu    sync.Mutex
	bytes map[string]string // by oid
	got   []string          // Authorization headers that came
}

func newMedia(tb testing.TB) *media {
	tb.Helper()
	m := &media{bytes: map[string]string{}}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.got = append(m.got, r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, m.bytes[strings.TrimPrefix(r.URL.Path, "/")])
	}))
	tb.Cleanup(m.Close)
	return m
}

// Pointer is the pointer of Git LFS to bytes.
func Pointer(content string) string {
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n",
		landfall.DigestOf([]byte(content)).Hex(), len(content))
}

// PushLFS stores bytes at the forge, as `git lfs push` does.
func (f *Forge) PushLFS(content string) {
	f.media.mu.Lock()
	defer f.media.mu.Unlock()
	f.media.bytes[landfall.DigestOf([]byte(content)).Hex()] = content
}

// SentForLFS returns the Authorization headers that the host of the bytes got.
func (f *Forge) SentForLFS() []string {
	f.media.mu.Lock()
	defer f.media.mu.Unlock()
	return append([]string(nil), f.media.got...)
}

// batch answers where the bytes of pointers are.
func (m *media) batch(w http.ResponseWriter, r *http.Request) {
	type action struct {
		Href   string            `json:"href"`
		Header map[string]string `json:"header"`
	}
	type refusal struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	type object struct {
		OID     string            `json:"oid"`
		Size    int64             `json:"size"`
		Actions map[string]action `json:"actions,omitempty"`
		Error   *refusal          `json:"error,omitempty"`
	}
	var list struct {
		Objects []object `json:"objects"`
	}
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, o := range list.Objects {
		if _, ok := m.bytes[o.OID]; !ok {
			list.Objects[i].Error = &refusal{http.StatusNotFound, "Object does not exist"}
			continue
		}
		list.Objects[i].Actions = map[string]action{
			"download": {m.URL + "/" + o.OID, map[string]string{"Authorization": "RemoteAuth for-the-media"}}}
	}
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	if err := json.NewEncoder(w).Encode(list); err != nil {
		m.got = append(m.got, err.Error()) // which no test expects
	}
}
