package landfall

import (
	"encoding/json"
	"fmt"
)

// Archive is a stored zip of files.
type Archive struct {
	Key    string `json:"key"` // of the object
	Digest Digest `json:"digest"`
	Size   int64  `json:"size"` // bytes
}

// StaticSpec is the spec of a version of a static unit.
type StaticSpec struct {
	Exclude  []string `json:"exclude,omitempty"` // sorted patterns
	Fallback string   `json:"fallback,omitempty"`
	Path     string   `json:"path"`
}

// ReadStaticSpec reads the spec of a version of a static unit. An error is Invalid.
func ReadStaticSpec(stored json.RawMessage) (s StaticSpec, err error) {
	if err := json.Unmarshal(stored, &s); err != nil {
		return s, contentError(err)
	}
	return s, nil
}

// StaticContent is what a version of a static unit keeps beside its spec: where its manifest is.
type StaticContent struct {
	Manifest string `json:"manifest"` // object key
	Digest   Digest `json:"digest"`   // of the manifest
	Files    int    `json:"files"`
	Bytes    int64  `json:"bytes"`
}

// PackageContent is what a version of a package keeps beside its spec: its archives.
type PackageContent struct {
	Source     *Archive `json:"source,omitempty"`
	Deployment *Archive `json:"deployment,omitempty"` // the files that run; nil: it was never stored
}

// Archives returns the archives that there are, the source first.
func (c PackageContent) Archives() []Archive {
	var all []Archive
	for _, archive := range []*Archive{c.Source, c.Deployment} {
		if archive != nil {
			all = append(all, *archive)
		}
	}
	return all
}

// FunctionContent is what a version of a function keeps beside its spec: the version of its package.
type FunctionContent struct {
	Package PackageRef `json:"packageref"`
}

// PackageRef names one version of a package, as Fission's packageref does.
type PackageRef struct {
	Name            string `json:"name"` // with the version's suffix: "hello-pkg-owf2k7qa"
	Namespace       string `json:"namespace"`
	ResourceVersion string `json:"resourceversion"` // the number of the package's version
}

// ReadContent reads what a version keeps beside its spec. It is zero when the version keeps nothing, and an error is
// Invalid.
func ReadContent[Content StaticContent | PackageContent | FunctionContent](stored json.RawMessage) (c Content,
	err error) {
	if len(stored) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(stored, &c); err != nil {
		return c, contentError(err)
	}
	return c, nil
}

func contentError(err error) error {
	return &Error{Op: "landfall.ReadContent", Kind: Invalid,
		Message: fmt.Sprintf("what is stored of it cannot be read: %v", err), Err: err}
}
