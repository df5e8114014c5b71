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
	// Open returns the object at key; the caller closes it. There is none: NotFound.
	Open(ctx context.Context, key string) (Object, error)
}

// Creator is what an upload needs of a store.
type Creator interface {
	Opener
	// Create stores the bytes of r, of which there are exactly size, at key and returns their SHA-256. It streams.
	// It is atomic and never overwrites: until all bytes are stored nothing is visible, a failed, cancelled or killed
	// call leaves nothing visible, and of several calls for one key exactly one succeeds. The others, and every later
	// one, return Conflict, and r may have been read or not. An error of r is returned with its Kind; more or fewer
	// bytes than size are Internal. A store may also return Conflict where key is a folder of a stored key, or the
	// other way round.
	Create(ctx context.Context, key string, r io.Reader, size int64) (landfall.Digest, error)
}

// Remover is what collection needs of a store.
type Remover interface {
	// Delete removes the object at key. Where there is none it does nothing.
	Delete(ctx context.Context, key string) error
	// List yields the keys of all objects below the folder prefix, in no particular order; the empty prefix means all.
	// A prefix counts by whole names: "a" and "a/" list "a/x", and neither "a" nor "ab/x". An object that is created
	// or deleted meanwhile may be listed or not. An error is the last that is yielded.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
}

// Store is an object store. Its methods can be called concurrently. They return *landfall.Error: Invalid for a key
// that CheckKey refuses, Unavailable when the store cannot be reached or is full, Canceled when ctx ended.
type Store interface {
	Creator
	Remover
	// Sync returns when everything that was created before the call survives a loss of power.
	Sync(ctx context.Context) error
}
