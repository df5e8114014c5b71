package assets

import (
	"context"
	"io"
	"iter"

	"landfall.dev/landfall"
)

// Object is an open object. Its bytes never change. It is used by one goroutine at a time.
type Object interface {
	io.ReadSeekCloser
	// Size returns the object's length in bytes.
	Size() int64
}

// Opener reads objects.
type Opener interface {
	// Open returns the object at key; the caller closes it. NotFound when there is none.
	Open(ctx context.Context, key string) (Object, error)
}

// Creator is the part of a store that an upload needs.
type Creator interface {
	Opener
	// Create stores the bytes of r, exactly size of them, at key and returns their SHA-256. It streams. It is atomic
	// and never overwrites: until all bytes are stored nothing is visible; a failed, cancelled or killed call leaves
	// nothing visible; and of several calls for one key exactly one succeeds. The others, and every later one, return
	// Conflict, and may or may not have read r. An error of r is returned with its Kind; more or fewer bytes than size
	// are Internal. A store may also return Conflict where key is a folder of a stored key, or the other way round.
	Create(ctx context.Context, key string, r io.Reader, size int64) (landfall.Digest, error)
}

// Remover is the part of a store that a collection needs.
type Remover interface {
	// Delete removes the object at key. It does nothing when there is none.
	Delete(ctx context.Context, key string) error
	// List yields the keys of all objects below the folder prefix, in no particular order; the empty prefix stands for
	// all. A prefix matches whole names: "a" and "a/" list "a/x", and neither "a" nor "ab/x". An object that is created
	// or deleted meanwhile may or may not be listed. An error ends the list.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
}

// Store is an object store. Its methods can be called concurrently. They return *landfall.Error: Invalid for a key that
// CheckKey refuses, Unavailable when the store cannot be reached or is full, Canceled when ctx ended.
type Store interface {
	Creator
	Remover
	// Sync returns when everything that was created before the call would survive a loss of power.
	Sync(ctx context.Context) error
}
