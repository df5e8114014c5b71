package landfall

import "time"

// Release is a group version that can be reached by an address. Its id is the group's UID.
type Release struct {
	ID      UID
	App     string
	Line    Line
	Digest  Digest // the group's: releases with equal digests share all stored content and count as one
	Commit  CommitSHA
	Branch  string
	Created time.Time
	Expired time.Time // zero while accessible
	WasLive bool      // it was live at some time
}

// TagKind says who moves a tag, and how long it holds its release.
type TagKind string

// The kinds of tags.
const (
	HandTag   TagKind = "hand"   // `release tag`
	GitTag    TagKind = "git"    // a pushed git tag
	BranchTag TagKind = "branch" // branch-…, moved by every push
	PullTag   TagKind = "pull"   // pr-…, while the pull request is open
)

// Tag is a name for a release.
type Tag struct {
	App     string    `json:"app"`
	Name    string    `json:"name"`
	Kind    TagKind   `json:"kind"`
	Release UID       `json:"release"`
	Ref     RefName   `json:"ref,omitempty"` // the reference that moves it, for BranchTag and GitTag
	Moved   time.Time `json:"moved"`
}

// Move is one movement of a pointer: of live ("live"), or of a tag ("tag beta").
type Move struct {
	ID      int64     `json:"id"`
	App     string    `json:"-"` // its id
	Pointer string    `json:"pointer"`
	From    UID       `json:"from,omitempty"` // empty when the pointer is new
	To      UID       `json:"to,omitempty"`   // empty when it was removed
	Actor   string    `json:"actor"`
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
	Back    bool      `json:"back,omitempty"` // it went back in the history: a rollback
}

// LivePointer is the Pointer of moves of the live release.
const LivePointer = "live"
