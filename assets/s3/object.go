package s3

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"time"

	"github.com/minio/minio-go/v7"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
)

// Open implements assets.Opener. ctx applies until the object is closed. When an object is read from its beginning to
// its end, its bytes are compared with the digest that was stored with it: other bytes are an Internal error in place
// of the end.
func (s *Store) Open(ctx context.Context, key string) (assets.Object, error) {
	if err := assets.CheckKey(key); err != nil {
		return nil, err
	}
	o := &object{key: key, done: ctx.Done(), get: func(from int64, etag string) (io.ReadCloser, minio.ObjectInfo, error) {
		return s.get(ctx, key, from, etag)
	}}
	if err := o.ask(); err != nil {
		return nil, err
	}
	return o, nil
}

// get requests the bytes of an object from a position on. After the first request they must belong to the same object.
func (s *Store) get(ctx context.Context, key string, from int64, etag string) (io.ReadCloser, minio.ObjectInfo, error) {
	const op = "s3.get"
	var opts minio.GetObjectOptions
	if from > 0 {
		if err := errors.Join(opts.SetRange(from, 0), opts.SetMatchETag(etag)); err != nil {
			return nil, minio.ObjectInfo{}, failure(op, key, err)
		}
	}
	body, info, _, err := s.core.GetObject(ctx, s.bucket, name(key), opts)
	return body, info, failure(op, key, err)
}

// object is an open object. One request returns its bytes from the position where reading begins.
type object struct {
	key  string
	done <-chan struct{}
	get  func(from int64, etag string) (io.ReadCloser, minio.ObjectInfo, error)

	size   int64
	etag   string
	digest string // in hexadecimal digits; empty when none was stored

	at      int64         // the position of Read
	body    io.ReadCloser // nil: to be requested
	next    int64         // the position of body's next byte
	hash    hash.Hash     // of all bytes up to hashed, from the beginning
	hashed  int64
	repeats int
}

// Size implements assets.Object.
func (o *object) Size() int64 { return o.size }

// ask requests the bytes from at on.
func (o *object) ask() error {
	body, info, err := o.get(o.at, o.etag)
	if err != nil {
		return err
	}
	o.body, o.next = body, o.at
	if o.at == 0 {
		o.size, o.etag, o.digest = info.Size, info.ETag, info.UserMetadata[digestHeader]
		o.hash, o.hashed = sha256.New(), 0
	}
	return nil
}

const (
	maxRepeats  = 4
	firstRepeat = 200 * time.Millisecond
)

// Read implements io.Reader. When the connection breaks, it makes another one.
func (o *object) Read(p []byte) (int, error) {
	for {
		if o.at >= o.size {
			return 0, o.verify()
		}
		if o.next != o.at {
			o.drop()
		}
		if o.body == nil {
			if err := o.ask(); err != nil {
				return 0, err
			}
		}
		n, err := o.body.Read(p)
		if o.hashed == o.at {
			o.hash.Write(p[:n])
			o.hashed += int64(n)
		}
		o.at += int64(n)
		o.next = o.at
		if n > 0 {
			return n, nil
		}
		if err != nil {
			if err := o.retry(err); err != nil {
				return 0, err
			}
		}
	}
}

// retry waits a little after an error, unless there were too many.
func (o *object) retry(cause error) error {
	o.drop()
	o.repeats++
	if o.repeats > maxRepeats {
		return failure("s3.read", o.key, cause)
	}
	pause := time.NewTimer(firstRepeat << o.repeats)
	defer pause.Stop()
	select {
	case <-o.done:
		return failure("s3.read", o.key, context.Canceled)
	case <-pause.C:
		return nil
	}
}

// verify returns io.EOF when the bytes that were read are those that were stored.
func (o *object) verify() error {
	if o.hashed != o.size || o.digest == "" {
		return io.EOF
	}
	if read := landfall.DigestFromSum(o.hash.Sum(nil)); read.Hex() != o.digest {
		return landfall.Errorf("s3.verify", landfall.Internal,
			"the object %q is damaged: its digest is %s, and %s was stored", o.key, read.Hex(), o.digest)
	}
	return io.EOF
}

// Seek implements io.Seeker.
func (o *object) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.at
	case io.SeekEnd:
		offset += o.size
	default:
	}
	if offset < 0 {
		return o.at, landfall.Errorf("s3.seek", landfall.Invalid, "a position before the beginning")
	}
	o.at = offset
	return o.at, nil
}

func (o *object) drop() {
	if o.body != nil {
		_ = o.body.Close()
		o.body = nil
	}
}

// Close implements io.Closer.
func (o *object) Close() error {
	o.drop()
	return nil
}
