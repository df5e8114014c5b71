// Package pack reads the objects of a bare git repository, checks and indexes packs that arrive from outside, and joins
// packs into one.
//
// Packs from outside are not trusted until they are indexed: counts, sizes and delta chains are checked before memory
// is allocated for them, every object's name is computed, and only a pack that passed gets its final name. Nothing here
// executes files, makes links or writes outside the folder objects/pack of the repository. All reading uses offsets, so
// any number of goroutines can use one Objects.
package pack

import (
	"errors"
	"fmt"
)

// ErrNotFound says that the repository has no such object, or that a pack was removed after it was opened.
var ErrNotFound = errors.New("object not found")

// ErrCorrupt says that a pack, an index or an object breaks the format.
var ErrCorrupt = errors.New("corrupt pack")

// ErrUnsupported says that a pack uses a feature that a server never uses after our request: deltas by name, or a base
// that is not in the pack.
var ErrUnsupported = errors.New("unsupported pack")

// errEndless says that a chain of deltas is longer than any that git makes.
var errEndless = fmt.Errorf("%w: endless chain of deltas", ErrCorrupt)

// TooLargeError says that an object, the number of objects, or the work for deltas is over a limit.
type TooLargeError struct {
	Objects bool  // the figure counts objects, not bytes
	Deltas  bool  // the figure counts the bytes of deltas and of their results
	Figure  int64 // what it is
	Limit   int64 // what it may be
}

// Error returns the figure and the limit.
func (e *TooLargeError) Error() string {
	what := "object of %d bytes, limit %d"
	switch {
	case e.Objects:
		what = "pack of %d objects, limit %d"
	case e.Deltas:
		what = "deltas that take %d bytes to apply, limit %d"
	}
	return fmt.Sprintf(what, e.Figure, e.Limit)
}
