// Package spec is the YAML language of a folder of spec files: it parses, fills in defaults and validates, with file
// and line in every error.
package spec

import (
	"encoding/json"
	"fmt"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
)

// DefaultFolder is the folder of spec files where an app does not name another.
const DefaultFolder = "specs"

// HandFile is the spec file of a version by hand, which no person wrote.
const HandFile = "handmade.yaml"

// Source is one spec file.
type Source struct {
	Name string // its path from the repository's root
	Data []byte
}

// Position is a place in a spec file. The zero Position belongs to an object that is in no file.
type Position struct {
	File string
	Line int // from 1
}

// String returns the position as people read it: "specs/app.yaml:12".
func (p Position) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Problem is a sentence about a position.
type Problem struct {
	Pos     Position
	Message string
}

// String returns the problem on one line: "specs/app.yaml:12: unknown field …".
func (p Problem) String() string { return p.Pos.String() + ": " + p.Message }

// Spec is everything that the documents declare. Every slice is sorted by name (Static by path, Warnings by position),
// so the order of files and documents has no effect except on positions.
type Spec struct {
	App          *App // nil when no document is an App
	Functions    []Function
	Packages     []Package
	Environments []Environment
	Triggers     []Trigger     // by kind, then by name
	Aliases      []Alias       `json:",omitempty"` // by function, then by name
	FunctionTags []FunctionTag `json:",omitempty"`
	Archives     []Archive
	Canaries     []Canary
	Warnings     []Problem // at most 1,000; a warning does not make the spec wrong
}

// Object is what all documents with metadata have.
type Object struct {
	Pos       Position
	Name      string
	Namespace string // as written; empty and "default" both stand for the app's
	// Spec is the document's spec as canonical JSON: keys sorted, no white space, defaults filled in, fields that are
	// null left out. Names, labels, annotations and status are not in it.
	Spec json.RawMessage
}

// Function is a Function document. Its package is in the same Spec.
type Function struct {
	Object
	Environment          string
	EnvironmentNamespace string // as written
	Package              string
	PackageNamespace     string // as written
	FunctionName         string // the entry point within the package; may be empty
	Secrets              []Named
	ConfigMaps           []Named `json:",omitempty"` // mappings in the configuration of the app

	// Contract is the function's contract; nil: it has none. It is also a part of Spec. Both have the content of files
	// only after Spec.ReadContracts.
	Contract  *contract.Contract `json:"-"`
	positions *contractPositions
}

// Named is a reference to a secret or a config map of the app.
type Named struct {
	Pos       Position
	Name      string
	Namespace string // as written
}

// Package is a Package document. It has a source, a deployment, or both.
type Package struct {
	Object
	Environment          string // may be empty when nothing is built
	EnvironmentNamespace string // as written
	BuildCommand         string
	Source               ArchiveRef
	Deployment           ArchiveRef
}

// ArchiveRef says where a package's files come from. At most one of Name, URL and Literal is set; without any there is
// no such archive.
type ArchiveRef struct {
	Pos      Position `json:"-"`
	Name     string   // of an Archive of the same Spec
	URL      string   // http or https
	Literal  []byte
	Checksum landfall.Digest // that the bytes at the URL, or of the literal, must have; may be empty
}

// IsZero reports whether the reference names nothing.
func (a ArchiveRef) IsZero() bool { return a.Name == "" && a.URL == "" && a.Literal == nil }

// Archive is an ArchiveUploadSpec document: a set of files of the repository.
type Archive struct {
	Pos     Position
	Name    string
	RootDir string // clean and relative; empty: the folder that holds the specs folder
	Include []string
	Lines   []int `json:"-"` // of each glob of Include, in the file of Pos
	Exclude []string
}

// Environment is an Environment document.
type Environment struct{ Object }

// Trigger is an HTTPTrigger, a TimeTrigger or a MessageQueueTrigger document. The functions that it names are in the
// same Spec.
type Trigger struct {
	Object
	landfall.Trigger

	Function landfall.Reference // zero when Weights or Tag decide
	Weights  []Weight           // sorted by function; they sum to 100
	// of a time trigger: a function tag, all of whose functions are called; else empty
	Tag string `json:",omitempty"`
}

// Canary is a CanaryConfig document: it moves the weights of an HTTP trigger.
type Canary struct {
	Object
	Declared landfall.DeclaredCanary
}

// References returns the functions that the trigger names by themselves.
func (t Trigger) References() []landfall.Reference {
	var refs []landfall.Reference
	if t.Function.Name != "" {
		refs = append(refs, t.Function)
	}
	for _, w := range t.Weights {
		refs = append(refs, w.Function)
	}
	return refs
}

// Weight is a function's share of a trigger's events.
type Weight struct {
	Function landfall.Reference
	Percent  int
}

// App is an App document.
type App struct {
	Object
	Config  json.RawMessage // canonical JSON of an object; nil when absent
	Build   *Build          // nil when absent
	Static  []Static
	Release landfall.ReleasePolicy // zero when the document says nothing about releasing
}

// Build says how the app's own files are made before static units and archives are read.
type Build struct {
	Command     string // for /bin/sh -c
	Environment string // may be empty
	Inputs      []string
	Outputs     []string
	Env         map[string]string
}

// Static is one entry of "static:", one moving unit.
type Static struct {
	Pos      Position
	Src      string // clean and relative: a file, a folder or a glob; ".": everything
	Path     string // where it is served: absolute and clean; a file goes under its own name when it ends in "/"
	Fallback string // served for what is not found; relative to Path
	Exclude  []string

	// Implicit marks the unit of a folder without specs. It leaves out names that begin with "." (except .well-known)
	// at any depth, and specs/ and node_modules/ at the top.
	Implicit bool
}

// OnlySettings reports whether s has an App that neither builds nor serves anything, and nothing else that could answer
// a request.
func (s *Spec) OnlySettings() bool {
	return s.App != nil && s.App.Build == nil &&
		len(s.App.Static)+len(s.Functions)+len(s.Packages)+len(s.Triggers)+len(s.Archives) == 0
}

// Implicit returns the Spec of a folder without spec files but with an index.html: one static unit of the whole folder
// at "/". Its App has no name.
func Implicit() *Spec {
	return &Spec{App: &App{
		Object: Object{Spec: json.RawMessage("{}")},
		Static: []Static{{Src: ".", Path: "/", Implicit: true}},
	}}
}
