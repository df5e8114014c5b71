package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// program builds a small program, with the init beside it.
func program(t *testing.T, env ...string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "landfall")
	for to, source := range map[string]string{path: "../testreport",
		filepath.Join(dir, "landfall-init"): "../../cmd/landfall-init"} {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", to, source)
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	return path
}

// written writes an image and reads it back.
func written(t *testing.T, program, base string) (v1.Image, string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image.tar")
	digest, err := run(program, base, out)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	return image, digest
}

// files returns what a container has: the owner, mode and size of each name, and some contents.
func files(t *testing.T, image v1.Image, contents ...string) (names map[string]string, data map[string][]byte) {
	t.Helper()
	names, data = map[string]string{}, map[string][]byte{}
	all := mutate.Extract(image)
	defer all.Close()
	for r := tar.NewReader(all); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, data
		}
		if err != nil {
			t.Fatal(err)
		}
		names[header.Name] = fmt.Sprintf("%d:%d %o", header.Uid, header.Gid, header.Mode)
		if slices.Contains(contents, header.Name) {
			if data[header.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The image is valid, runs the program as nobody's user, and is the same every time.
func TestImage(t *testing.T) {
	t.Parallel()
	binary := program(t, "CGO_ENABLED=0")
	image, digest := written(t, binary, "")
	if err := validate.Image(image); err != nil {
		t.Errorf("the image is not valid: %v", err)
	}
	if _, again := written(t, binary, ""); again != digest {
		t.Errorf("the same program gave %s, and then %s", digest, again)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.OS != "linux" || file.Architecture == "" {
		t.Errorf("got an image for %q %q", file.OS, file.Architecture)
	}
	c := file.Config
	got := []string{c.User, strings.Join(c.Entrypoint, " "), strings.Join(c.Cmd, " "), c.WorkingDir,
		c.Labels["org.opencontainers.image.title"], c.Labels["org.opencontainers.image.licenses"]}
	want := []string{"65532:65532", "/usr/local/bin/landfall", "serve", "/data", "Landfall", "Apache-2.0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("user, entry point, arguments, folder, labels (- want, + got):\n%s", diff)
	}
	if _, ok := c.ExposedPorts["8080/tcp"]; !ok || !slices.Contains(c.Env, "LANDFALL_LISTEN=0.0.0.0:8080") {
		t.Errorf("got the ports %v and the settings %v, want one port, and that the program listens there",
			c.ExposedPorts, c.Env)
	}
	if _, ok := c.Volumes["/data"]; !ok || !slices.Contains(c.Env, "LANDFALL_DATA=/data") {
		t.Errorf("got the volumes %v and the settings %v, want that data is kept", c.Volumes, c.Env)
	}

	const certificates = "etc/ssl/certs/ca-certificates.crt"
	names, data := files(t, image, certificates, "usr/local/bin/landfall", "usr/local/bin/landfall-init")
	wantNames := map[string]string{"usr/local/bin": "0:0 755", "usr/local/bin/landfall": "0:0 755",
		"usr/local/bin/landfall-init": "0:0 755", "data": "65532:65532 700", "tmp": "0:0 1777",
		"etc/passwd": "0:0 644", certificates: "0:0 644"}
	if diff := cmp.Diff(wantNames, names); diff != "" {
		t.Errorf("what is in it (- want, + got):\n%s", diff)
	}
	for _, name := range []string{"landfall", "landfall-init"} {
		original, err := os.ReadFile(filepath.Join(filepath.Dir(binary), name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data["usr/local/bin/"+name], original) {
			t.Errorf("%s in the image is another one", name)
		}
	}
	if !x509.NewCertPool().AppendCertsFromPEM(data[certificates]) ||
		bytes.Count(data[certificates], []byte("BEGIN")) < 100 {
		t.Error("the image trusts nobody")
	}
}

// A base brings what builds and the built-in remote need; nothing of it is replaced.
func TestBase(t *testing.T) {
	t.Parallel()
	archive, err := archiveOf([]entry{{name: "usr/bin/git", mode: 0o755, data: []byte("git")},
		{name: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0::/root:/bin/sh\n")}})
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(t.TempDir(), "base.tar")
	if err := os.WriteFile(base, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	image, _ := written(t, program(t, "CGO_ENABLED=0"), base)
	if err := validate.Image(image); err != nil {
		t.Errorf("the image is not valid: %v", err)
	}
	names, data := files(t, image, "etc/passwd")
	if names["usr/bin/git"] == "" || names["usr/local/bin/landfall"] == "" ||
		!strings.HasPrefix(string(data["etc/passwd"]), "root:") {
		t.Errorf("got %v, want the base with the program on it", names)
	}
}

// What cannot run in the image is not put there.
func TestRefused(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	alone := program(t, "CGO_ENABLED=0")
	if err := os.Remove(filepath.Join(filepath.Dir(alone), "landfall-init")); err != nil {
		t.Fatal(err)
	}
	for name, what := range map[string]struct{ program, base, word string }{
		"no init":    {alone, "", "landfall-init"},
		"no program": {text, "", "no Go program"},
		"no base":    {program(t, "CGO_ENABLED=0"), text, "base"},
	} {
		if _, err := run(what.program, what.base, filepath.Join(t.TempDir(), "image.tar")); err == nil ||
			!strings.Contains(err.Error(), what.word) {
			t.Errorf("%s: got the error %v, want one that says %q", name, err, what.word)
		}
	}
}
