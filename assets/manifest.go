package assets

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"landfall.dev/landfall"
)

// Manifest says where each file of one version of a static unit is stored. It never changes.
type Manifest struct {
	prefix string
	files  []ManifestFile
	index  map[string]int32 // of files, by path
}

// ManifestFile is one file of a version.
type ManifestFile struct {
	Path   string          // decoded and absolute, as visitors ask for it
	Prefix string          // of the version that stored the object
	Key    string          // of the object; begins with Prefix
	Digest landfall.Digest // SHA-256 of the bytes
	Size   int64           // bytes
	Type   string          // the Content-Type
	Blob   string          // git's name for the bytes; empty when a build made the file
}

// newManifest returns the manifest of files, which are sorted by path.
func newManifest(prefix string, files []ManifestFile) *Manifest {
	m := &Manifest{prefix: prefix, files: files, index: make(map[string]int32, len(files))}
	for i := range files {
		m.index[files[i].Path] = int32(i)
	}
	return m
}

// Prefix returns the version's own prefix.
func (m *Manifest) Prefix() string { return m.prefix }

// Files returns the files, sorted by path. The caller must not change them.
func (m *Manifest) Files() []ManifestFile { return m.files }

// Lookup returns the file that is served at exactly this decoded path.
func (m *Manifest) Lookup(name string) (ManifestFile, bool) {
	i, ok := m.index[name]
	if !ok {
		return ManifestFile{}, false
	}
	return m.files[i], true
}

// Prefixes returns the prefixes that the version needs, without duplicates: first its own, where the manifest itself
// is, then the others in order.
func (m *Manifest) Prefixes() []string { return prefixes(m.prefix, m.files) }

func prefixes(own string, files []ManifestFile) []string {
	seen := map[string]struct{}{own: {}}
	all := []string{own}
	for i := range files {
		if _, ok := seen[files[i].Prefix]; !ok {
			seen[files[i].Prefix] = struct{}{}
			all = append(all, files[i].Prefix)
		}
	}
	slices.Sort(all[1:])
	return all
}

// Without returns the manifest without the files below the given prefixes, for Plan when these prefixes are being
// deleted.
func (m *Manifest) Without(prefixes ...string) *Manifest {
	var kept []ManifestFile
	for _, file := range m.files {
		if !slices.Contains(prefixes, file.Prefix) {
			kept = append(kept, file)
		}
	}
	return newManifest(m.prefix, kept)
}

// Figures describes the size of a version.
type Figures struct {
	Files  int   // served files
	Bytes  int64 // their size
	Own    int64 // bytes of objects that the version stored itself
	Shared int64 // bytes of objects that earlier versions stored
}

// Figures returns the manifest's figures. An object that is served at several paths counts once in Own and Shared.
func (m *Manifest) Figures() Figures {
	figures := Figures{Files: len(m.files)}
	seen := make(map[string]struct{}, len(m.files))
	for i := range m.files {
		file := &m.files[i]
		figures.Bytes += file.Size
		if _, again := seen[file.Key]; again {
			continue
		}
		seen[file.Key] = struct{}{}
		if file.Prefix == m.prefix {
			figures.Own += file.Size
		} else {
			figures.Shared += file.Size
		}
	}
	return figures
}

// Diff counts the changes from before to after; either can be nil.
func Diff(before, after *Manifest) landfall.FileChange {
	var none Manifest
	before, after = cmp.Or(before, &none), cmp.Or(after, &none)
	change := landfall.FileChange{Bytes: after.Figures().Bytes - before.Figures().Bytes}
	for i := range after.files {
		old, ok := before.Lookup(after.files[i].Path)
		switch {
		case !ok:
			change.Added++
		case old.Digest != after.files[i].Digest:
			change.Changed++
		}
	}
	change.Removed = len(before.files) + change.Added - len(after.files)
	return change
}

// wireManifest is the manifest as it is stored. Names and paths are escaped (escape).
type wireManifest struct {
	Version  int        `json:"version"`
	Prefixes []string   `json:"prefixes"` // the first is the version's own
	Files    []wireFile `json:"files"`
}

type wireFile struct {
	Path   string `json:"path"`
	In     int    `json:"in,omitempty"` // index of the prefix
	Key    string `json:"key"`          // below the prefix
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	Type   string `json:"type"`
	Blob   string `json:"blob,omitempty"`
}

const manifestVersion = 1

// Encode returns the manifest as it is stored: JSON, and always the same bytes for the same manifest.
func (m *Manifest) Encode() ([]byte, error) {
	wire := wireManifest{Version: manifestVersion, Prefixes: m.Prefixes(), Files: make([]wireFile, len(m.files))}
	number := map[string]int{}
	for i, prefix := range wire.Prefixes {
		number[prefix] = i
	}
	for i := range m.files {
		file := &m.files[i]
		wire.Files[i] = wireFile{
			Path: escape(file.Path), In: number[file.Prefix], Key: strings.TrimPrefix(file.Key, file.Prefix),
			SHA256: file.Digest.Hex(), Size: file.Size, Type: file.Type, Blob: file.Blob,
		}
	}
	data, err := json.Marshal(wire)
	if err != nil {
		return nil, &landfall.Error{Op: "assets.encode", Err: err}
	}
	return data, nil
}

// Decode returns the manifest from which Encode made data. For other data the error is Internal, because only we write
// manifests.
func Decode(data []byte) (*Manifest, error) {
	var wire wireManifest
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wire); err != nil {
		return nil, manifestError(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, manifestError(errors.New("more follows the manifest"))
	}
	if wire.Version != manifestVersion || len(wire.Prefixes) == 0 {
		return nil, manifestError(fmt.Errorf("version %d with %d prefixes", wire.Version, len(wire.Prefixes)))
	}
	for _, prefix := range wire.Prefixes {
		if rest, ok := strings.CutSuffix(prefix, "/"); !ok || CheckKey(rest) != nil {
			return nil, manifestError(fmt.Errorf("prefix %q", prefix))
		}
	}
	files := make([]ManifestFile, len(wire.Files))
	for i := range wire.Files {
		file, ok := decodeFile(&wire.Files[i], wire.Prefixes)
		if !ok || (i > 0 && files[i-1].Path >= file.Path) {
			return nil, manifestError(fmt.Errorf("file %d, %q", i, wire.Files[i].Path))
		}
		files[i] = file
	}
	return newManifest(wire.Prefixes[0], files), nil
}

func decodeFile(wire *wireFile, prefixes []string) (ManifestFile, bool) {
	name, ok := unescape(wire.Path)
	digest, err := landfall.ParseDigest("sha256:" + wire.SHA256)
	if !ok || err != nil || wire.In < 0 || wire.In >= len(prefixes) || wire.Size < 0 ||
		name != path.Clean(name) || !strings.HasPrefix(name, "/") || !isHeaderValue(wire.Type) {
		return ManifestFile{}, false
	}
	if _, err := landfall.ParseCommitSHA(wire.Blob); err != nil && wire.Blob != "" {
		return ManifestFile{}, false
	}
	file := ManifestFile{
		Path: name, Prefix: prefixes[wire.In], Key: prefixes[wire.In] + wire.Key,
		Digest: digest, Size: wire.Size, Type: wire.Type, Blob: wire.Blob,
	}
	return file, CheckKey(file.Key) == nil
}

// isHeaderValue reports whether a content type consists of visible characters and spaces.
func isHeaderValue(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}

func manifestError(err error) error {
	return landfall.Wrapf("assets.decode", landfall.Internal, err, "a manifest of static files is damaged")
}

// Ref names a manifest: its key and its digest. After a collection another manifest may be stored at the key.
type Ref struct {
	Key    string
	Digest landfall.Digest // of the stored bytes; empty: any manifest at the key
}

// refSeparator is in no key that we make, and in no digest.
const refSeparator = "@"

// String returns the reference as ParseRef reads it.
func (r Ref) String() string { return r.Key + refSeparator + string(r.Digest) }

// ParseRef is the inverse of Ref.String.
func ParseRef(s string) Ref {
	i := strings.LastIndex(s, refSeparator)
	if i < 0 {
		return Ref{Key: s}
	}
	return Ref{s[:i], landfall.Digest(s[i+len(refSeparator):])}
}

// RefOf names the manifest of a version of a static unit; it has no key when the manifest is not stored.
func RefOf(c landfall.StaticContent) Ref { return Ref{Key: c.Manifest, Digest: c.Digest} }

// RefIn names the manifest of a static unit's version with this content; it has no key when the manifest is not stored.
func RefIn(content json.RawMessage) Ref {
	c, _ := landfall.ReadContent[landfall.StaticContent](content)
	return RefOf(c)
}

// Load returns the manifest that ref names. A manifest with another digest is an Internal error.
func Load(ctx context.Context, store Opener, ref Ref) (*Manifest, error) {
	object, err := store.Open(ctx, ref.Key)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(object)
	if err := errors.Join(err, object.Close()); err != nil {
		return nil, failure("assets.load", err)
	}
	if ref.Digest != "" && landfall.DigestOf(data) != ref.Digest {
		return nil, manifestError(fmt.Errorf("%s has another digest than %s", ref.Key, ref.Digest))
	}
	return Decode(data)
}

// failure returns err as an error of ours. An unclassified error becomes Internal, or Canceled.
func failure(op landfall.Op, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &landfall.Error{Op: op, Kind: landfall.Canceled, Err: err}
	}
	return &landfall.Error{Op: op, Kind: landfall.KindOf(err), Err: err}
}
