package landfall

import (
	"encoding/json"
	"time"
)

// Version is an immutable snapshot of one unit. Only its description can change.
type Version struct {
	Unit        UnitID
	Namespace   string
	App         string // the owner's id; empty for a unit that a person made by hand
	Number      int64  // per unit: 1, 2, 3 …; never reused
	UID         UID    // of the apply that made it
	Label       string
	Description string
	Digest      Digest          // of everything that the unit is
	Spec        json.RawMessage // canonical, with defaults filled in
	// what is stored beside the spec, such as archives or a manifest's key; the room of the kind defines it
	Content    json.RawMessage
	Commit     CommitSHA // the commit whose apply made it
	Created    time.Time
	Production bool // an apply of the production line had it, or a person made it
	Retired    bool // it left the spec; it is kept only while something holds it, and no list shows it
}

// ObjectName returns the version's name as an object: "hello-owf2k7qa".
func (v Version) ObjectName() string { return v.Unit.Name + "-" + string(v.UID) }

// ChangeKind says what happened to a unit between two group versions.
type ChangeKind string

// The kinds of change.
const (
	Added     ChangeKind = "added"
	Changed   ChangeKind = "changed"
	Removed   ChangeKind = "removed"
	Unchanged ChangeKind = "unchanged"
)

// ChangedFile is one file that differs between two versions of a static unit or package.
type ChangedFile struct {
	Unit   UnitID     `json:"unit"`
	Path   string     `json:"path"`
	Change ChangeKind `json:"change" enum:"added,changed,removed"`
	Before int64      `json:"before" doc:"bytes; 0 for what was added"`
	After  int64      `json:"after" doc:"bytes; 0 for what was removed"`
}

// UnitChange is one line of a diff. Units are compared by digest.
type UnitChange struct {
	Unit   UnitID      `json:"unit"`
	Change ChangeKind  `json:"change"`
	Before UID         `json:"before,omitempty"`
	After  UID         `json:"after,omitempty"`
	Number int64       `json:"number,omitempty"` // of the version after, or before for what was removed
	Files  *FileChange `json:"files,omitempty"`  // for static units and packages, where it is known

	// a function that may reach the network after the change, and could not before
	Network  bool `json:"network,omitempty"`
	Contract bool `json:"contract,omitempty"` // a function whose contract has another input or output after the change

	// Keys are what differs in the configuration, in a trigger, or in the spec of a function, where a diff was asked for.
	Keys []KeyChange `json:"keys,omitempty"`
}

// KeyChange is one key of a unit's spec that differs between two versions.
type KeyChange struct {
	Key    string          `json:"key"`
	Before json.RawMessage `json:"before,omitempty"` // absent for a key that was added
	After  json.RawMessage `json:"after,omitempty"`  // absent for a key that was removed
}

// Notes returns what a reviewer of the change must not miss.
func (c UnitChange) Notes() []string {
	var notes []string
	if c.Network {
		notes = append(notes, "may reach the network now")
	}
	if c.Contract {
		notes = append(notes, "its contract changed")
	}
	return notes
}

// FileChange counts what changed within a static unit, the archives of a package, or a commit.
type FileChange struct {
	Added   int   `json:"added"`
	Changed int   `json:"changed"`
	Removed int   `json:"removed"`
	Bytes   int64 `json:"bytes"` // of all files after, less before
}
