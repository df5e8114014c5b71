package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	user        = 65532 // not root, and nobody's on the machine
	dataFolder  = "/data"
	programPath = "/usr/local/bin/landfall"
	initName    = "landfall-init" // beside the program: what sandboxes begin with
	exposed     = "8080/tcp"
)

// newImage returns the image of a program and the init beside it, on a base if one is named.
func newImage(program, base string) (v1.Image, error) {
	built, err := buildOf(program)
	if err != nil {
		return nil, err
	}
	if _, err := buildOf(initOf(program)); err != nil {
		return nil, err
	}
	var layers []v1.Layer
	if base != "" {
		layer, err := baseOf(base)
		if err != nil {
			return nil, fmt.Errorf("the base %s is no tar file: %w", base, err)
		}
		layers = append(layers, layer)
	}
	layer, err := layerOf(program, base == "")
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, append(layers, layer)...)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = built["GOOS"], built["GOARCH"]
	file.Created = v1.Time{Time: time.Unix(0, 0).UTC()}
	file.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", user, user),
		ExposedPorts: map[string]struct{}{exposed: {}},
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dataFolder,
			"LANDFALL_DATA=" + dataFolder, "LANDFALL_LISTEN=0.0.0.0:8080",
		},
		Entrypoint: []string{programPath},
		Cmd:        []string{"serve"},
		Volumes:    map[string]struct{}{dataFolder: {}},
		WorkingDir: dataFolder,
		Labels: map[string]string{
			"org.opencontainers.image.title":       "Landfall",
			"org.opencontainers.image.description": "Every git push becomes an immutable release with an address of its own",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.revision":    cmp.Or(built["vcs.revision"], "unknown"),
		},
		StopSignal: "SIGTERM",
	}
	return mutate.ConfigFile(image, file)
}

// initOf returns the path of the init beside a program.
func initOf(program string) string { return filepath.Join(filepath.Dir(program), initName) }

// buildOf returns how a program was built. It is an error when it needs libraries that the image does not have.
func buildOf(program string) (map[string]string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("%s is no Go program; make build makes it: %w", program, err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["CGO_ENABLED"] != "0" {
		return nil, fmt.Errorf("%s is built with cgo and needs libraries; make build makes one that does not", program)
	}
	return settings, nil
}

// baseOf returns a tar file, compressed or not, as a layer.
func baseOf(file string) (v1.Layer, error) {
	layer, err := tarball.LayerFromFile(file)
	if err != nil {
		return nil, err
	}
	content, err := layer.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	_, err = tar.NewReader(content).Next()
	return layer, err
}

// layerOf returns the layer with the program, its init and its data folder. Alone it brings what else a program needs
// of a system.
func layerOf(program string, alone bool) (v1.Layer, error) {
	data, err := os.ReadFile(filepath.Clean(program))
	if err != nil {
		return nil, err
	}
	init, err := os.ReadFile(filepath.Clean(initOf(program)))
	if err != nil {
		return nil, err
	}
	entries := []entry{
		{name: "usr/local/bin/", mode: 0o755},
		{name: programPath[1:], mode: 0o755, data: data},
		{name: path.Join(path.Dir(programPath), initName)[1:], mode: 0o755, data: init},
		{name: dataFolder[1:] + "/", mode: 0o700, owner: user},
	}
	if alone {
		entries = append(entries,
			entry{name: "tmp/", mode: 0o1777},
			entry{name: "etc/passwd", mode: 0o644,
				data: fmt.Appendf(nil, "landfall:x:%d:%d::%s:/usr/sbin/nologin\n", user, user, dataFolder)},
			entry{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: roots()},
		)
	}
	archive, err := archiveOf(entries)
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil })
}

// entry is a file, or a folder when its name ends with a slash.
type entry struct {
	name  string
	mode  int64
	owner int
	data  []byte
}

// archiveOf returns a tar archive without anything that differs from one time to the next.
func archiveOf(entries []entry) ([]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, e := range entries {
		header := &tar.Header{
			Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.data)), Typeflag: tar.TypeReg,
			ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
		}
		if e.name[len(e.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

// roots returns the certificates that Mozilla trusts, without those that it trusts in part only: a file cannot say
// that.
func roots() []byte {
	var file bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			file.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return file.Bytes()
}
