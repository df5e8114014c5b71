package site

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/disk"
	"landfall.dev/landfall/assets/s3"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

// Restored restores an archive into places of the test's own, of the kind that the test runs on, and starts a server
// there.
func Restored(t testing.TB, archive string) *Site {
	t.Helper()
	s := &Site{T: t, Engine: NewEngine(t), Data: filepath.Join(t.TempDir(), "restored"), Port: FreePort(t)}
	s.Env = s.Engine.Settings()
	s.Client = &client.Client{URL: "http://localhost:" + s.Port}
	if out, code := s.Restore(archive); code != 0 {
		t.Fatalf("landfall restore: %d\n%s", code, out)
	}
	s.Start()
	token, err := os.ReadFile(filepath.Join(s.Data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	s.Token = strings.TrimSpace(string(token))
	t.Cleanup(s.Stop)
	return s
}

// Restore runs landfall restore with the settings of the site.
func (s *Site) Restore(archive string) (out string, code int) {
	s.T.Helper()
	path, err := Binary()
	if err != nil {
		s.T.Fatal(err)
	}
	cmd := exec.Command(path, "restore", archive)
	cmd.Env = Environ(append([]string{"LANDFALL_DATA=" + s.Data}, s.Env...)...)
	data, _ := cmd.CombinedOutput()
	return string(data), cmd.ProcessState.ExitCode()
}

// FsckResult is what landfall fsck prints for programs.
type FsckResult struct {
	Findings []landfall.Finding `json:"findings"`
	Checked  *landfall.Checked  `json:"checked"`
}

// Fsck goes over everything, and returns what it found and its exit code.
func (s *Site) Fsck(args ...string) (FsckResult, int) {
	s.T.Helper()
	path, err := Binary()
	if err != nil {
		s.T.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"fsck", "-o", "json"}, args...)...)
	cmd.Env = Environ(append([]string{"LANDFALL_SERVER=" + s.URL, "LANDFALL_TOKEN=" + s.Token, "LANDFALL_DATA=" + s.Data},
		s.Env...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, _ := cmd.Output()
	if len(out) == 0 {
		s.T.Fatalf("landfall fsck %s: %d\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), &stderr)
	}
	return testkit.Decode[FsckResult](s.T, out), cmd.ProcessState.ExitCode()
}

// WantWhole fails the test unless nothing is damaged.
func (s *Site) WantWhole(args ...string) {
	s.T.Helper()
	if result, code := s.Fsck(args...); code != 0 || len(result.Findings) > 0 || result.Checked == nil ||
		result.Checked.Objects == 0 {
		s.T.Errorf("fsck: got %d %+v, want 0 and nothing damaged of some objects", code, result)
	}
}

// OpenState opens a site's database. One in a file must not be in use.
func (s *Site) OpenState() (*store.DB, error) {
	if s.Engine.Database != "" {
		return store.Open(context.Background(), s.Engine.Database)
	}
	return store.Open(context.Background(), filepath.Join(s.Data, "landfall.db"))
}

// Objects are the objects of a site, opened beside the server.
type Objects interface {
	assets.Store
	io.Closer
}

// OpenObjects opens a site's objects.
func (s *Site) OpenObjects() (Objects, error) {
	if s.Engine.Bucket.Endpoint != "" {
		return s3.Open(context.Background(), s.Engine.Bucket)
	}
	return disk.Open(filepath.Join(s.Data, "objects"))
}

// ObjectsOf returns the folder of the object store that holds an app's content.
func (s *Site) ObjectsOf(app string) string {
	s.T.Helper()
	return "apps/" + s.ShowApp(app).ID + "/"
}

// Stored returns the keys of all objects of an app.
func (s *Site) Stored(app string) []string {
	s.T.Helper()
	return s.StoredBelow(s.ObjectsOf(app))
}

// StoredBelow returns the keys of all objects below a folder of the object store.
func (s *Site) StoredBelow(folder string) []string {
	s.T.Helper()
	objects, err := s.OpenObjects()
	if err != nil {
		s.T.Fatal(err)
	}
	defer func() { _ = objects.Close() }()
	var keys []string
	for key, err := range objects.List(context.Background(), folder) {
		if err != nil {
			s.T.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
