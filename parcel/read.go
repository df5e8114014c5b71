package parcel

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha1" // #nosec G505 -- git's names
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"landfall.dev/landfall"
)

// Parcel is an archive that was checked.
type Parcel struct {
	Document Document

	file  *os.File
	blobs map[landfall.Digest]section
}

// section is where a blob is in the file.
type section struct {
	offset, size int64
	git          string // the name that git has for the bytes
}

// The limits of an archive.
const (
	maxEntries = 100_000
	maxText    = 64 << 20 // bytes of a part that describes
	maxValues  = 400_000  // in all arrays of such a part that are no text
	maxCommas  = 2_000_000
)

func invalid(format string, args ...any) error {
	return landfall.Errorf("parcel.Open", landfall.Invalid, "the archive "+format, args...)
}

// Open checks an archive: its form, every digest and size, and what it says. The file must stay open, and as it is,
// while the Parcel is used. An error is Invalid, with a sentence, when the archive is damaged, cut off, or none.
func Open(ctx context.Context, file *os.File) (*Parcel, error) {
	p := &Parcel{file: file, blobs: map[landfall.Digest]section{}}
	texts, err := p.scan(ctx)
	if err != nil {
		return nil, err
	}
	var layout struct {
		Version string `json:"imageLayoutVersion"`
	}
	if decode(texts[layoutName], &layout) != nil || layout.Version != "1.0.0" {
		return nil, invalid("is no OCI image layout of version 1.0.0")
	}
	var index v1.IndexManifest
	if decode(texts[indexName], &index) != nil || len(index.Manifests) != 1 ||
		index.Manifests[0].MediaType != types.OCIManifestSchema1 {
		return nil, invalid("has no %s with one manifest", indexName)
	}
	used := map[landfall.Digest]bool{}
	text, err := p.text(index.Manifests[0], used)
	if err != nil {
		return nil, err
	}
	var manifest v1.Manifest
	if err := decode(text, &manifest); err != nil {
		return nil, invalid("has a manifest that cannot be read: %v", err)
	}
	if manifest.Config.MediaType != configType {
		return nil, invalid("is an image of another kind (%q), and no release", manifest.Config.MediaType)
	}
	if text, err = p.text(manifest.Config, used); err != nil {
		return nil, err
	}
	for _, layer := range manifest.Layers {
		if err := p.find(layer, used); err != nil {
			return nil, err
		}
	}
	if len(used) != len(p.blobs) {
		return nil, invalid("has %d parts that its manifest does not name", len(p.blobs)-len(used))
	}
	if p.Document, err = readDocument(text); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return p, nil
}

// scan reads the whole file, and returns the two texts that have names of their own.
func (p *Parcel) scan(ctx context.Context) (map[string][]byte, error) {
	info, err := p.file.Stat()
	if err != nil {
		return nil, err
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	texts, archive, total := map[string][]byte{}, tar.NewReader(p.file), int64(0)
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return nil, &landfall.Error{Op: "parcel.Open", Kind: landfall.Canceled, Err: err}
		}
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return texts, nil
		}
		if err != nil {
			return nil, invalid("is damaged, cut off, or no tar archive: %v", err)
		}
		if total += header.Size; header.Typeflag != tar.TypeReg || header.PAXRecords != nil || total > info.Size() {
			return nil, invalid("has %q, which is no plain file", header.Name)
		}
		if n == maxEntries {
			return nil, invalid("has more than %d parts", maxEntries)
		}
		name, isBlob := strings.CutPrefix(header.Name, blobFolder)
		switch {
		case isBlob:
			err = p.blob(archive, name, header.Size)
		case (header.Name == layoutName || header.Name == indexName) && texts[header.Name] == nil && header.Size < maxText:
			texts[header.Name], err = io.ReadAll(archive)
		default:
			err = invalid("has %q, which does not belong there, or stands twice", header.Name)
		}
		if err != nil {
			return nil, wrapRead(err)
		}
	}
}

func wrapRead(err error) error {
	if _, ok := errors.AsType[*landfall.Error](err); ok {
		return err
	}
	return invalid("is damaged or cut off: %v", err)
}

// blob reads a blob, which must be what its name says.
func (p *Parcel) blob(r io.Reader, name string, size int64) error {
	digest, err := landfall.ParseDigest("sha256:" + name)
	if err != nil {
		return invalid("has %q, which is no digest", blobFolder+name)
	}
	if _, twice := p.blobs[digest]; twice {
		return invalid("has %s twice", digest)
	}
	offset, err := p.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	hash, git := sha256.New(), sha1.New() // #nosec G401 -- git's names
	fmt.Fprintf(git, "blob %d\x00", size)
	if _, err := io.Copy(io.MultiWriter(hash, git), r); err != nil {
		return err
	}
	if is := landfall.DigestFromSum(hash.Sum(nil)); is != digest {
		return invalid("is damaged: the bytes of %s have the digest %s", digest, is)
	}
	p.blobs[digest] = section{offset, size, hex.EncodeToString(git.Sum(nil))}
	return nil
}

// find notes that a blob is used, which must be there with its size.
func (p *Parcel) find(d v1.Descriptor, used map[landfall.Digest]bool) error {
	digest := landfall.Digest(d.Digest.String())
	blob, ok := p.blobs[digest]
	if !ok {
		return invalid("lacks %s: it was cut off, or never whole", digest)
	}
	if blob.size != d.Size {
		return invalid("has %d bytes of %s, and its manifest says %d", blob.size, digest, d.Size)
	}
	used[digest] = true
	return nil
}

// text reads a blob that describes.
func (p *Parcel) text(d v1.Descriptor, used map[landfall.Digest]bool) ([]byte, error) {
	if err := p.find(d, used); err != nil {
		return nil, err
	}
	if d.Size > maxText {
		return nil, invalid("describes itself in %d bytes; at most %d are read", d.Size, maxText)
	}
	return io.ReadAll(p.open(landfall.Digest(d.Digest.String())))
}

// open reads a blob that is there.
func (p *Parcel) open(digest landfall.Digest) *io.SectionReader {
	b := p.blobs[digest]
	return io.NewSectionReader(p.file, b.offset, b.size)
}

// decode reads JSON whose values do not need much more memory than its text: a few bytes of text can be a struct of
// hundreds.
func decode(text []byte, into any) error {
	commas, values, quoted := 0, 0, false
	for n := 0; n < len(text); n++ {
		switch c := text[n]; {
		case quoted && c == '\\':
			n++
		case c == '"':
			quoted = !quoted
		case !quoted && c == ',':
			commas++
			if next := bytes.TrimLeft(text[n+1:], " \t\r\n"); len(next) > 0 && next[0] != '"' {
				values++
			}
		}
	}
	if commas > maxCommas || values > maxValues {
		return landfall.Errorf("parcel.decode", landfall.Invalid, "it has too many values")
	}
	return json.Unmarshal(text, into)
}

func readDocument(text []byte) (Document, error) {
	var known struct {
		Version int `json:"version"`
	}
	if err := decode(text, &known); err != nil {
		return Document{}, invalid("does not say what release it has: %v", err)
	}
	if known.Version != formatVersion {
		return Document{}, invalid("has the format %d, and this program knows %d", known.Version, formatVersion)
	}
	var d Document
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return d, invalid("does not say what release it has: %v", err)
	}
	return d, nil
}
