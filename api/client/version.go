package client

import (
	"encoding/json"
	"fmt"
	"time"

	"landfall.dev/landfall"
)

// Version is one version of a function or package, in the shape of the object it stands for.
type Version struct {
	Kind        string             `json:"kind"`
	Metadata    Metadata           `json:"metadata"`
	Spec        json.RawMessage    `json:"spec"`
	Status      *VersionStatus     `json:"status,omitempty"`
	UID         landfall.UID       `json:"uid"`
	Number      int64              `json:"number"`
	Label       string             `json:"label,omitempty"`
	Description string             `json:"description,omitempty"`
	Digest      landfall.Digest    `json:"digest"`
	Commit      landfall.CommitSHA `json:"commit"`
	Created     time.Time          `json:"created"`
	Latest      bool               `json:"latest"`
	Live        bool               `json:"live"`
	Aliases     []string           `json:"aliases,omitempty"` // of a function, which point to it, with whatever weight
}

// VersionStatus is the status of a package's version.
type VersionStatus struct {
	BuildStatus string `json:"buildstatus" enum:"succeeded,none"`
}

// FunctionMaster is a function's aliases and versions, as Fission's document has them: names are "hello_prod" and
// "hello_v1.0.0", with the version's uid where it has no label.
type FunctionMaster struct {
	Kind     string          `json:"kind"`
	Metadata Metadata        `json:"metadata"`
	Name     string          `json:"name"`
	Alias    []FunctionAlias `json:"alias"` // latest is the first; one with two versions stands twice
	Versions []FunctionRef   `json:"versions"`
}

// FunctionAlias is an alias in a FunctionMaster.
type FunctionAlias struct {
	Name        string      `json:"name"`
	FunctionRef FunctionRef `json:"functionref"`
}

// FunctionRef names a version of a function in a FunctionMaster.
type FunctionRef struct {
	Name   string `json:"name"`
	Weight int    `json:"weight,omitempty"` // percent of the calls of the alias
}

// NewVersion is what a person says of a version of a function or package that is to be made. Where a field is absent,
// it is as the latest version is.
type NewVersion struct {
	Label          string   `json:"label,omitempty"`
	Description    string   `json:"description,omitempty" maxLength:"1000"`
	Environment    string   `json:"environment,omitempty"`
	Entrypoint     string   `json:"entrypoint,omitempty" doc:"of a function"`
	Package        string   `json:"package,omitempty" doc:"of a function: a package that there is"`
	PackageVersion string   `json:"package_version,omitempty" doc:"a version of it: uid, number, label or latest"`
	Code           *Content `json:"code,omitempty" doc:"a file or an archive that runs as it is"`
	Source         *Content `json:"source,omitempty" doc:"an archive from which the environment builds"`
	Deployment     *Content `json:"deployment,omitempty" doc:"an archive that runs as it is"`
	Build          string   `json:"buildcmd,omitempty"`
	New            bool     `json:"new,omitempty" doc:"refused when there is a version already"`
	Update         bool     `json:"update,omitempty" doc:"refused when there is none yet"`
	Tag            string   `json:"tag,omitempty" doc:"of a function: the function tag that is to name the version; it is made if it is not there"`
	NoRelease      bool     `json:"no_release,omitempty" doc:"no release of the app that owns it is made with it"`
}

// Check fails with Invalid when what is said makes no sense, whatever versions there are.
func (n NewVersion) Check() error {
	hasContent := n.Code != nil || n.Source != nil || n.Deployment != nil
	wrong := ""
	switch {
	case n.Build != "" && n.Package != "":
		wrong = "a package that is there was built already: leave the build command out (--buildcmd)"
	case n.Build != "" && n.Source == nil && hasContent:
		wrong = "a build command builds the source (--src): what runs as it is (--code, --deploy) is not built"
	case hasContent && n.Package != "":
		wrong = "a package that is there, or what a new version of one is made of: say one of them"
	case n.Code != nil && (n.Source != nil || n.Deployment != nil):
		wrong = "code runs as it is: leave the other archives out"
	case n.PackageVersion != "" && n.Package == "":
		wrong = "a version of a package was named, and no package"
	}
	if why := landfall.UnfitName(n.Label); wrong == "" && n.Label != "" && why != "" {
		wrong = fmt.Sprintf("%q cannot be the label of a version: %s", n.Label, why)
	}
	if why := landfall.UnfitName(n.Tag); wrong == "" && n.Tag != "" && why != "" {
		wrong = fmt.Sprintf("%q cannot be a function tag: %s", n.Tag, why)
	}
	if wrong != "" {
		return landfall.Errorf("client.NewVersion", landfall.Invalid, "%s", wrong)
	}
	return nil
}

// Content is a file or an archive: exactly one of upload, url and literal says where it is.
type Content struct {
	Upload  string          `json:"upload,omitempty" doc:"the id of an upload of which all was sent"`
	URL     string          `json:"url,omitempty" doc:"fetched once"`
	Literal []byte          `json:"literal,omitempty" doc:"the bytes, in base64"`
	Name    string          `json:"name,omitempty" doc:"of a single file"`
	Digest  landfall.Digest `json:"digest,omitempty" doc:"that it must have"`
}

// MadeVersion is what became of a version that is to be made: one that is there, or the run that makes it.
type MadeVersion struct {
	Made

	Version *Version `json:"version,omitempty"`
	Run     *Run     `json:"run,omitempty"`
}

// NewUpload is a file that is to be sent.
type NewUpload struct {
	Size   int64           `json:"size" minimum:"1"`
	Digest landfall.Digest `json:"digest"`
}

// Upload is a file of which offset bytes were sent.
type Upload struct {
	ID     string `json:"id"`
	Size   int64  `json:"size"`
	Offset int64  `json:"offset"`
}

// Deletion is what was deleted, or would be.
type Deletion struct {
	Versions []DeletedVersion  `json:"versions"`
	Aliases  []string          `json:"aliases"`
	Tags     []string          `json:"function_tags"` // that named it
	Releases []landfall.UID    `json:"releases"`      // that expired first
	Triggers []landfall.UnitID `json:"triggers"`      // of accessible releases, which lead nowhere from now on
}

// DeletedVersion is a version that was deleted, or would be.
type DeletedVersion struct {
	Kind   landfall.UnitKind `json:"kind"`
	Name   string            `json:"name"`
	Number int64             `json:"number"`
}

// Unit is a function or package that is in force.
type Unit struct {
	Name      string       `json:"name"`
	Namespace string       `json:"namespace"`
	App       string       `json:"app"`
	Versions  int          `json:"versions"`
	Latest    landfall.UID `json:"latest"`
}
