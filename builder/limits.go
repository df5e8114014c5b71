package builder

import (
	"cmp"
	"fmt"

	"landfall.dev/landfall"
)

// Limits bound what is taken from a repository. A zero field has its default. Each field's comment begins with the name
// of its setting, which every error about it names.
type Limits struct {
	Files         int   // LANDFALL_MAX_FILES: files of a commit, below the listed folder; 50,000
	CommitBytes   int64 // LANDFALL_MAX_COMMIT_BYTES: all these files together; 2 GiB
	FileBytes     int64 // LANDFALL_MAX_FILE_BYTES: one file, and any object that must be in memory as a whole; 100 MiB
	ReceivedBytes int64 // LANDFALL_MAX_RECEIVED_BYTES: bytes that one fetch may receive; 4 GiB
	Objects       int64 // LANDFALL_MAX_OBJECTS: git objects that one fetch may receive; 10,000,000
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// WithDefaults returns l with its zero fields filled in.
func (l Limits) WithDefaults() Limits {
	l.Files = cmp.Or(l.Files, 50_000)
	l.CommitBytes = cmp.Or(l.CommitBytes, 2*gib)
	l.FileBytes = cmp.Or(l.FileBytes, 100*mib)
	l.ReceivedBytes = cmp.Or(l.ReceivedBytes, 4*gib)
	l.Objects = cmp.Or(l.Objects, 10_000_000)
	return l
}

// maxObject returns the size of an object that may be in memory as a whole. Folders and commits need some memory even
// when files must be small.
func (l Limits) maxObject() int64 { return max(l.FileBytes, 16*mib) }

// overLimit is the error for a figure over a limit. what is the beginning of the sentence: "the commit has 50001
// files".
func overLimit(op landfall.Op, what, limit, setting string) error {
	return landfall.Errorf(op, landfall.Invalid, "%s; the limit is %s (%s)", what, limit, setting)
}

// bytes returns n for people: 100 MiB when that is exact, else all digits.
func bytes(n int64) string {
	switch {
	case n >= gib && n%gib == 0:
		return fmt.Sprintf("%d GiB", n/gib)
	case n >= mib && n%mib == 0:
		return fmt.Sprintf("%d MiB", n/mib)
	case n >= kib && n%kib == 0:
		return fmt.Sprintf("%d KiB", n/kib)
	}
	return fmt.Sprintf("%d bytes", n)
}
