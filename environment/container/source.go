package container

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"landfall.dev/landfall"
)

// These are the names of the parts of an image.
const (
	archiveName  = "image.tar" // in a package
	layoutName   = "oci-layout"
	indexName    = "index.json"
	blobsFolder  = "blobs"
	manifestName = "manifest.json" // of a docker archive
)

const (
	maxDocument = 4 << 20  // bytes of a JSON document
	maxWords    = 64 << 10 // bytes of it that a process gets
)

// invalidImage is the error for a malformed image.
func invalidImage(format string, args ...any) error {
	return &landfall.Error{Op: "container.Unpack", Kind: landfall.Invalid,
		Message: "the image " + fmt.Sprintf(format, args...)}
}

// source is a place with the files of an image: a folder, or a tar file.
type source interface {
	// open opens a file. fs.ErrNotExist when there is none.
	open(name string) (io.ReadCloser, error)
}

// folderSource is a folder.
type folderSource struct{ *os.Root }

func (s folderSource) open(name string) (io.ReadCloser, error) {
	file, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// archiveSource is a tar file with the positions of its files.
type archiveSource struct {
	file  io.ReaderAt
	found map[string]*io.SectionReader
	links map[string]string
}

// maxEntries is how many files an archive with an image may have.
const maxEntries = 10_000

// readArchive finds the files of a tar file.
func readArchive(file *os.File) (source, error) {
	s := archiveSource{file: file, found: map[string]*io.SectionReader{}, links: map[string]string{}}
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return nil, invalidImage("%s is no tar file: %v; docker save and podman save write one", archiveName, err)
		}
		if len(s.found)+len(s.links) == maxEntries {
			return nil, invalidImage("%s has more than %d files", archiveName, maxEntries)
		}
		if tooLong(header.Name) || tooLong(header.Linkname) {
			continue // no part of an image has such a name
		}
		name := path.Clean(header.Name)
		switch header.Typeflag {
		case tar.TypeReg:
			begin, err := file.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			s.found[name] = io.NewSectionReader(file, begin, header.Size)
		case tar.TypeSymlink: // a layer that is stored once already
			//nolint:gosec // G305: nothing is opened by it on disk, it is a key of s.found
			s.links[name] = path.Join(path.Dir(name), header.Linkname)
		}
	}
}

func (s archiveSource) open(name string) (io.ReadCloser, error) {
	name = path.Clean(name)
	if to, ok := s.links[name]; ok {
		name = to
	}
	section, ok := s.found[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(io.NewSectionReader(section, 0, section.Size())), nil
}

// document reads a small file.
func document(s source, name string) ([]byte, error) {
	file, err := s.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, invalidImage("has no %s", name)
	}
	if err != nil {
		return nil, invalidImage("has %q, which cannot be read: %v", name, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxDocument+1))
	switch {
	case err != nil:
		return nil, invalidImage("has %s, which cannot be read: %v", name, err)
	case len(text) > maxDocument:
		return nil, invalidImage("has %s with more than %d bytes", name, maxDocument)
	}
	return text, nil
}

// has reports whether there is a file.
func has(s source, name string) bool {
	file, err := s.open(name)
	if err == nil {
		_ = file.Close() // nothing was written
	}
	return err == nil
}

// parts are an image's configuration and the names of its layers, the lowest first.
type parts struct {
	config *v1.ConfigFile
	layers []string
}

// read reads the parts of an image.
func read(s source) (parts, error) {
	var p parts
	var config string
	var err error
	switch {
	case has(s, layoutName):
		config, p.layers, err = readLayout(s)
	case has(s, manifestName):
		config, p.layers, err = readSaved(s)
	default:
		err = invalidImage("has neither %s nor %s: it must be what docker save, podman save or skopeo copy write", layoutName,
			manifestName)
	}
	if err != nil {
		return p, err
	}
	text, err := document(s, config)
	if err != nil {
		return p, err
	}
	p.config = &v1.ConfigFile{}
	if err := json.Unmarshal(text, p.config); err != nil {
		return p, invalidImage("has a configuration that cannot be read: %v", err)
	}
	if !matchesPlatform(&v1.Platform{OS: p.config.OS, Architecture: p.config.Architecture}) {
		return p, invalidImage("is for %.40s/%.40s; this server runs linux/%s", p.config.OS, p.config.Architecture,
			runtime.GOARCH)
	}
	if tooLong(p.config.Config.WorkingDir) {
		return p, invalidImage("starts in a folder whose name has more than %d bytes or %d folders", maxName, maxDepth)
	}
	size := 0
	for _, words := range [][]string{p.config.Config.Env, p.config.Config.Entrypoint, p.config.Config.Cmd} {
		size += len(strings.Join(words, "\x00"))
	}
	if size > maxWords {
		return p, invalidImage("has more than %d bytes of ENV, ENTRYPOINT and CMD", maxWords)
	}
	return p, nil
}

// matchesPlatform reports whether an image for a platform runs here. An image without a platform does.
func matchesPlatform(p *v1.Platform) bool {
	return p == nil || (p.OS == "" || p.OS == "linux") && (p.Architecture == "" || p.Architecture == runtime.GOARCH)
}

// readLayout reads an OCI image layout.
func readLayout(s source) (config string, layers []string, err error) {
	const most = 4 // nested indexes
	name := indexName
	for range most {
		text, err := document(s, name)
		if err != nil {
			return "", nil, err
		}
		var m struct {
			Manifests []v1.Descriptor `json:"manifests"`
			Config    v1.Descriptor   `json:"config"`
			Layers    []v1.Descriptor `json:"layers"`
		}
		if err := json.Unmarshal(text, &m); err != nil {
			return "", nil, invalidImage("has %s, which cannot be read: %v", name, err)
		}
		if len(m.Manifests) == 0 {
			for _, l := range m.Layers {
				layers = append(layers, blob(l))
			}
			return blob(m.Config), layers, nil
		}
		var fitting []v1.Descriptor
		for _, d := range m.Manifests {
			if matchesPlatform(d.Platform) {
				fitting = append(fitting, d)
			}
		}
		if len(fitting) != 1 {
			return "", nil, invalidImage("is one of %d for linux/%s in %s; there must be one", len(fitting),
				runtime.GOARCH, name)
		}
		name = blob(fitting[0])
	}
	return "", nil, invalidImage("lies within more than %d indexes", most)
}

// blob returns the path of a blob in a layout.
func blob(d v1.Descriptor) string { return path.Join(blobsFolder, d.Digest.Algorithm, d.Digest.Hex) }

// readSaved reads the output of docker save and podman save.
func readSaved(s source) (config string, layers []string, err error) {
	text, err := document(s, manifestName)
	if err != nil {
		return "", nil, err
	}
	var images []struct {
		Config string   `json:"Config"`
		Layers []string `json:"Layers"`
	}
	if err := json.Unmarshal(text, &images); err != nil {
		return "", nil, invalidImage("has %s, which cannot be read: %v", manifestName, err)
	}
	if len(images) != 1 {
		return "", nil, invalidImage("is one of %d in %s; there must be one", len(images), manifestName)
	}
	for _, name := range append([]string{images[0].Config}, images[0].Layers...) {
		if !fs.ValidPath(strings.TrimPrefix(name, "./")) || tooLong(name) {
			return "", nil, invalidImage("names %.200q, which is outside of it", name)
		}
	}
	return images[0].Config, images[0].Layers, nil
}

// say returns an error about a part of an image.
func say(format string, args ...any) error { return fmt.Errorf(format, args...) }
