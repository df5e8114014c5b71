package parcel

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/store"
)

// Exporter makes archives of releases.
type Exporter struct {
	DB        *store.DB
	Objects   assets.Opener
	Manifests *assets.Manifests // of Objects
}

// Export is an archive that is to be written.
type Export struct {
	Document Document

	objects assets.Opener
	entries []entry
}

// entry is a file of the archive. It has data, or an object.
type entry struct {
	name string
	size int64
	data []byte
	key  string
}

// contents collects the blobs of a release.
type contents map[landfall.Digest]content

type content struct {
	size int64
	key  string
	kind string
}

// Prepare reads all about a release, and finds its content. Conflict when a part of it is not stored any more, and for
// a release of a fork, which must not become an own one by an import.
func (x *Exporter) Prepare(ctx context.Context, app landfall.App, uid landfall.UID) (*Export, error) {
	g, err := x.DB.Group(ctx, app.ID, uid)
	if err == nil && g.Fork != 0 {
		err = landfall.Errorf("parcel.Prepare", landfall.Conflict, "%s was made of the fork of pull request %d: it can only "+
			"be looked at; merge the pull request, which makes a release of its own", uid, g.Fork)
	}
	if err != nil {
		return nil, err
	}
	units, err := x.DB.GroupUnits(ctx, app.ID, uid)
	if err != nil {
		return nil, err
	}
	d := Document{Version: formatVersion, App: app.Name, Release: g.UID, Commit: g.Commit, Branch: g.Branch,
		Clean: g.Clean, Message: g.Message, Actor: g.Actor, Created: g.Created.UTC(), Policy: g.Policy, Units: []Unit{}}
	blobs := contents{}
	for _, u := range units {
		if u.Unit.Kind == landfall.SecretUnit {
			d.Secrets = append(d.Secrets, u.Unit.Name)
			continue
		}
		unit, err := x.unit(ctx, u, blobs)
		if landfall.Is(err, landfall.NotFound) {
			err = landfall.Wrapf("parcel.Prepare", landfall.Conflict, err, "what release %s has of %s is not stored any more: "+
				"landfall release create %s --version %[1]s stores it again", uid, u.Unit, app.Name)
		}
		if err != nil {
			return nil, err
		}
		d.Units = append(d.Units, unit)
	}
	if err := x.addNames(ctx, app, &d, blobs); err != nil {
		return nil, err
	}
	return x.layOut(d, blobs)
}

// unit describes a unit, and adds its blobs.
func (x *Exporter) unit(ctx context.Context, u store.GroupUnit, blobs contents) (Unit, error) {
	unit := Unit{Kind: u.Unit.Kind, Name: u.Unit.Name, UID: u.UID, Number: u.Number, Digest: u.Digest}
	v, err := x.DB.VersionByNumber(ctx, u.UnitID, u.Number)
	if err != nil {
		return unit, err
	}
	unit.Spec = v.Spec
	gone := &landfall.Error{Op: "parcel.unit", Kind: landfall.NotFound}
	switch u.Unit.Kind { //nolint:exhaustive // the others have no content
	case landfall.StaticUnit:
		if v.Content == nil {
			return unit, gone
		}
		manifest, err := x.Manifests.Load(ctx, assets.RefIn(v.Content))
		if err != nil {
			return unit, err
		}
		for _, f := range manifest.Files() {
			if !utf8.ValidString(f.Path) {
				return unit, landfall.Errorf("parcel.unit", landfall.Conflict,
					"%q cannot be exported, because its path is not UTF-8: rename the file", f.Path)
			}
			unit.Files = append(unit.Files, File{Blob{f.Digest, f.Size}, f.Path, f.Blob})
			blobs[f.Digest] = content{f.Size, f.Key, fileType}
		}
	case landfall.PackageUnit:
		c, err := landfall.ReadContent[landfall.PackageContent](v.Content)
		if err != nil {
			return unit, err
		}
		if c.Deployment == nil {
			return unit, gone
		}
		for _, a := range c.Archives() {
			blobs[a.Digest] = content{a.Size, a.Key, archiveType}
		}
		unit.Deployment = &Blob{c.Deployment.Digest, c.Deployment.Size}
		if c.Source != nil {
			unit.Source = &Blob{c.Source.Digest, c.Source.Size}
		}
	}
	return unit, nil
}

// layOut makes the entries of the archive: what describes comes first.
func (x *Exporter) layOut(d Document, blobs contents) (*Export, error) {
	config, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	about := map[string]string{
		"org.opencontainers.image.title": d.App, "org.opencontainers.image.version": string(d.Release),
		"org.opencontainers.image.revision": string(d.Commit),
		"org.opencontainers.image.created":  d.Created.Format(time.RFC3339),
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Annotations: about,
		Config: describe(landfall.DigestOf(config), int64(len(config)), configType), Layers: []v1.Descriptor{}}
	e := &Export{Document: d, objects: x.Objects}
	for _, digest := range slices.Sorted(maps.Keys(blobs)) {
		c := blobs[digest]
		manifest.Layers = append(manifest.Layers, describe(digest, c.size, c.kind))
		e.entries = append(e.entries, entry{name: blobFolder + digest.Hex(), size: c.size, key: c.key})
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	named := describe(landfall.DigestOf(text), int64(len(text)), string(types.OCIManifestSchema1))
	named.Annotations = map[string]string{"org.opencontainers.image.ref.name": string(d.Release)}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex,
		Manifests: []v1.Descriptor{named}})
	e.entries = slices.Concat([]entry{
		held(layoutName, []byte(`{"imageLayoutVersion":"1.0.0"}`)), held(indexName, index),
		held(blobFolder+landfall.DigestOf(text).Hex(), text), held(blobFolder+landfall.DigestOf(config).Hex(), config),
	}, e.entries)
	return e, err
}

func held(name string, data []byte) entry {
	return entry{name: name, size: int64(len(data)), data: data}
}

func describe(digest landfall.Digest, size int64, kind string) v1.Descriptor {
	return v1.Descriptor{MediaType: types.MediaType(kind), Size: size,
		Digest: v1.Hash{Algorithm: "sha256", Hex: digest.Hex()}}
}

// Size returns how many bytes Write writes.
func (e *Export) Size() int64 {
	const block = 512
	size := int64(2 * block) // the end
	for _, entry := range e.entries {
		size += block + (entry.size+block-1)/block*block
	}
	return size
}

// Write writes the archive. What was written before an error tells by itself that it is not whole.
func (e *Export) Write(ctx context.Context, w io.Writer) error {
	archive := tar.NewWriter(w)
	for _, entry := range e.entries {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: entry.name, Size: entry.size, Mode: 0o644,
			ModTime: e.Document.Created.Truncate(time.Second), Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if entry.key == "" {
			if _, err := archive.Write(entry.data); err != nil {
				return err
			}
			continue
		}
		if err := e.copy(ctx, archive, entry); err != nil {
			return err
		}
	}
	return archive.Close()
}

// copy writes an object. Internal when it is not what its name says.
func (e *Export) copy(ctx context.Context, w io.Writer, entry entry) error {
	object, err := e.objects.Open(ctx, entry.key)
	if err != nil {
		return err
	}
	defer object.Close()
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, hash), object)
	digest := landfall.DigestFromSum(hash.Sum(nil))
	if err == nil && (n != entry.size || blobFolder+digest.Hex() != entry.name) {
		err = fmt.Errorf("%s is damaged: landfall fsck says what to do", entry.key)
	}
	return cmp.Or(err, ctx.Err())
}
