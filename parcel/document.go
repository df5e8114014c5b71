package parcel

import (
	"encoding/json"
	"time"

	"landfall.dev/landfall"
)

// formatVersion is the version of the format that this program writes, and the only one that it reads.
const formatVersion = 1

// The types of the parts of an archive.
const (
	configType  = "application/vnd.landfall.release.v1+json"
	fileType    = "application/vnd.landfall.file.v1"
	archiveType = "application/vnd.landfall.archive.v1+zip"
)

// The names of the entries of an OCI image layout.
const (
	layoutName = "oci-layout"
	indexName  = "index.json"
	blobFolder = "blobs/sha256/"
)

// Document is what an archive says of its release.
type Document struct {
	Version int                     `json:"version"`
	App     string                  `json:"app"` // where it was made
	Release landfall.UID            `json:"release"`
	Commit  landfall.CommitSHA      `json:"commit"`
	Branch  string                  `json:"branch"`
	Clean   bool                    `json:"clean"`
	Message string                  `json:"message"`
	Actor   string                  `json:"actor"`
	Created time.Time               `json:"created"`
	Policy  *landfall.ReleasePolicy `json:"policy,omitempty"`
	Units   []Unit                  `json:"units"`
	Secrets []string                `json:"secrets,omitempty"` // that functions read; their values are not here

	// Names says of each reference by which a unit names a version, such as "hello:4", which uid that has: in Units, or
	// in Versions.
	Names    map[string]landfall.UID `json:"names,omitempty"`
	Versions []Version               `json:"versions,omitempty"` // that the release does not have
	Aliases  []Alias                 `json:"aliases,omitempty"`
	Tags     []Tag                   `json:"tags,omitempty"`
}

// Unit is a unit of the release with all that it needs.
type Unit struct {
	Kind       landfall.UnitKind `json:"kind"`
	Name       string            `json:"name"`
	UID        landfall.UID      `json:"uid"` // where it was made, as the number and the digest are
	Number     int64             `json:"number"`
	Digest     landfall.Digest   `json:"digest"`
	Spec       json.RawMessage   `json:"spec"`
	Files      []File            `json:"files,omitempty"`      // of static files, sorted by path
	Source     *Blob             `json:"source,omitempty"`     // of a package
	Deployment *Blob             `json:"deployment,omitempty"` // of a package
}

// ID names the unit.
func (u Unit) ID() landfall.UnitID { return landfall.UnitID{Kind: u.Kind, Name: u.Name} }

// Blob names bytes of the archive.
type Blob struct {
	Digest landfall.Digest `json:"sha256"`
	Size   int64           `json:"size"`
}

// File is a static file.
type File struct {
	Blob
	Path string `json:"path"`          // where it is served
	Git  string `json:"git,omitempty"` // git's name of the bytes; empty when a build made them
}
