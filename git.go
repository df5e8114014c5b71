package landfall

import (
	"strings"
	"unicode/utf8"
)

// CommitSHA is the full name of a git object: 40 lower-case hexadecimal digits (64 with SHA-256 repositories).
type CommitSHA string

// ParseCommitSHA returns s as a CommitSHA, or an Invalid error. Git gets no other text as a commit.
func ParseCommitSHA(s string) (CommitSHA, error) {
	if (len(s) != 40 && len(s) != 64) || !isHex(s) {
		return "", &Error{Kind: Invalid, Message: "a commit is 40 or 64 hexadecimal digits"}
	}
	return CommitSHA(s), nil
}

// Short returns the first seven digits, for people.
func (c CommitSHA) Short() string { return string(c[:min(len(c), 7)]) }

// IsZero reports whether c is empty or git's all-zero name, which stands for "no object".
func (c CommitSHA) IsZero() bool { return strings.Trim(string(c), "0") == "" }

// RefName is a full git reference: refs/heads/main.
type RefName string

// The prefixes of references.
const (
	BranchPrefix = "refs/heads/"
	TagPrefix    = "refs/tags/"
	ApplyPrefix  = "refs/landfall/apply/" // what `spec version apply` pushes
	KeepPrefix   = "refs/landfall/keep/"  // commits of group versions, kept from git's own collection
)

// Branch returns the branch that r names.
func (r RefName) Branch() (string, bool) { return strings.CutPrefix(string(r), BranchPrefix) }

// Tag returns the git tag that r names.
func (r RefName) Tag() (string, bool) { return strings.CutPrefix(string(r), TagPrefix) }

// ParseRefName checks s by git's own rules (git-check-ref-format(1)) and returns it, or an Invalid error. The name is
// full, so git never takes it for an option. It has at most 1024 characters and is UTF-8, because the store can keep no
// other bytes.
func ParseRefName(s string) (RefName, error) {
	if !utf8.ValidString(s) {
		return "", &Error{Kind: Invalid, Message: "not a name in UTF-8"}
	}
	bad := !strings.HasPrefix(s, "refs/") || len(s) > 1024 || strings.HasSuffix(s, "/") || strings.HasSuffix(s, ".") ||
		strings.Contains(s, "..") || strings.Contains(s, "//") || strings.Contains(s, "@{") ||
		strings.ContainsAny(s, " ~^:?*[\\\x7f")
	for part := range strings.SplitSeq(s, "/") {
		bad = bad || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	for _, c := range []byte(s) {
		bad = bad || c < ' '
	}
	if bad {
		return "", &Error{Kind: Invalid, Message: "not a reference that git allows"}
	}
	return RefName(s), nil
}

// FileMode is the mode of a file in a git tree.
type FileMode uint8

// The modes.
const (
	Regular FileMode = iota
	Executable
	Symlink
	Submodule
)

// File is one entry of a commit's tree, or one file that a build made.
type File struct {
	Path string `json:"path"` // from the repository's root, with slashes
	// once the builder has checked the tree: Regular, Executable, or a Symlink with its Target
	Mode   FileMode `json:"mode,omitempty"`
	Blob   string   `json:"blob,omitempty"`   // git's name for the bytes; empty when a build made the file
	Digest Digest   `json:"sha256,omitempty"` // SHA-256 of the bytes; empty until somebody read them
	Size   int64    `json:"size"`             // bytes
	// of a Symlink that a build made, which has the same text as its bytes; of a Submodule: why it was not fetched; else
	// empty
	Target string `json:"target,omitempty"`
	// of a file of Git LFS: Blob is its pointer, and Digest and Size are those of its bytes
	LFS bool `json:"lfs,omitempty"`
	// in which of the submodules that the builder has open Blob is; empty: the commit's own repository
	Module string `json:"-"`
}

// IsBuiltLink reports whether the file is a symbolic link that a build made. A link of a commit is a file by then, or
// cannot be used.
func (f File) IsBuiltLink() bool { return f.Mode == Symlink && f.Target != "" }

// ContentID names the file's bytes within an app. It is git's blob name when there is one, so an unchanged file is
// never read; otherwise, and for a file of Git LFS, it is the digest.
func (f File) ContentID() string {
	if f.Blob != "" && !f.LFS {
		return "git:" + f.Blob
	}
	return string(f.Digest)
}
