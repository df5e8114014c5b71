package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"landfall.dev/landfall"
)

// maxHot is the size up to which a body is kept in memory. Larger ones lie in the cache folder.
const maxHot = 256 << 10

// variant names the bytes that a client gets.
type variant struct {
	digest   landfall.Digest
	encoding encoding
}

// name is the variant's file in the cache folder.
func (v variant) name() string {
	if v.encoding == identity {
		return v.digest.Hex()
	}
	return v.digest.Hex() + "." + string(v.encoding)
}

// body is an open variant.
type body struct {
	io.ReadSeeker
	*shown

	size   int64
	file   *os.File  // nil while the bytes are in memory
	data   []byte    // those bytes
	source io.Closer // of the object store; nil when there is a copy here
}

// shown are the headers that tell of a body's bytes.
type shown struct{ etag, length []string }

func shownOf(v variant, size int64) *shown {
	return &shown{[]string{entityTag(v.digest, v.encoding)}, []string{strconv.FormatInt(size, 10)}}
}

// hot is a body in memory.
type hot struct {
	*shown

	data []byte
}

// Close lets go of the file.
func (b *body) Close() {
	if b.file != nil {
		b.file.Close()
	}
	if b.source != nil {
		_ = b.source.Close() // it was only read
	}
}

func (h hot) open() *body {
	return &body{ReadSeeker: bytes.NewReader(h.data), shown: h.shown, size: int64(len(h.data)), data: h.data}
}

func bodyOf(v variant, data []byte) *body { return hot{shownOf(v, int64(len(data))), data}.open() }

// objects holds what was loaded from the store and verified, in memory and in a folder. What is loaded, and what is
// compressed, is so once, however many ask for it at the same time.
type objects struct {
	content Content
	hot     *bounded[variant, hot]
	disk    *disk
	flights singleflight.Group
	workers *semaphore.Weighted // of compression

	inMemory, inFolder, missed, loaded atomic.Int64 // see Cache
}

func newObjects(content Content, folder string, diskBytes, memoryBytes int64) (*objects, error) {
	cache, err := openDisk(folder, diskBytes)
	if err != nil {
		return nil, err
	}
	return &objects{
		content: content,
		hot:     newBounded[variant, hot](memoryBytes, nil),
		disk:    cache,
		workers: semaphore.NewWeighted(int64(runtime.GOMAXPROCS(0))),
	}, nil
}

// open returns the bytes of file in the coding e, and the coding that they have: identity when e makes them hardly
// smaller. The bytes have the file's digest, or nothing is returned. NotFound: the store has no such object.
func (o *objects) open(ctx context.Context, file File, e encoding) (*body, encoding, error) {
	if h, ok := o.hot.get(variant{file.SHA256, e}); ok && (e == identity || len(h.data) > 0) {
		o.inMemory.Add(1)
		return h.open(), e, nil // most requests
	}
	if _, err := landfall.ParseDigest(string(file.SHA256)); err != nil {
		return nil, e, landfall.Wrapf("gateway.open", landfall.Internal, err, "the manifest names no digest")
	}
	b, err := o.variant(ctx, file, variant{file.SHA256, e})
	switch {
	case err != nil && isFull(err): // the cache folder cannot take it, so it is served as it is stored
	case err != nil || e == identity || b.size > 0:
		return b, e, err
	default:
		b.Close()
	}
	b, err = o.variant(ctx, file, variant{file.SHA256, identity})
	if err != nil && isFull(err) {
		b, err = o.direct(ctx, file)
	}
	return b, identity, err
}

// isFull reports whether an error says that a disk has no room, or takes no writes.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS)
}

// direct returns a file of the object store without a copy of it, once its bytes were compared with its digest. An
// object never changes.
func (o *objects) direct(ctx context.Context, file File) (*body, error) {
	if err := o.copyVerified(ctx, io.Discard, file); err != nil {
		return nil, err
	}
	v := variant{file.SHA256, identity}
	src, err := o.content.Open(ctx, file.Key)
	if err != nil {
		return nil, err
	}
	return &body{ReadSeeker: src, shown: shownOf(v, file.Size), size: file.Size, source: src}, nil
}

// variant returns v of file, which is loaded or made unless it is at hand.
func (o *objects) variant(ctx context.Context, file File, v variant) (*body, error) {
	const attempts = 3 // a file that was just made may have had to go before it was opened
	for range attempts {
		b, err := o.cached(v)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
		o.missed.Add(1)
		data, err := o.once(ctx, file, v)
		if err != nil {
			return nil, err
		}
		if data != nil {
			return bodyOf(v, data), nil
		}
	}
	return nil, landfall.Errorf("gateway.open", landfall.Unavailable, "the gateway's cache folder is too small")
}

// cached returns v if it is at hand, or an error that is fs.ErrNotExist. An empty coded variant says that the coding is
// not worth it.
func (o *objects) cached(v variant) (*body, error) {
	if h, ok := o.hot.get(v); ok {
		o.inMemory.Add(1)
		return h.open(), nil
	}
	f, err := o.disk.open(v.name())
	if err != nil {
		return nil, err
	}
	o.inFolder.Add(1)
	return o.bodyOfFile(v, f)
}

// bodyOfFile returns the bytes of f, which it closes unless the body needs it. Small ones move into memory.
func (o *objects) bodyOfFile(v variant, f *os.File) (*body, error) {
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, diskError(err)
	}
	if info.Size() > maxHot {
		return &body{ReadSeeker: f, shown: shownOf(v, info.Size()), size: info.Size(), file: f}, nil
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, diskError(err)
	}
	o.keep(v, data)
	return bodyOf(v, data), nil
}

func (o *objects) keep(v variant, data []byte) {
	const overhead = 768
	o.hot.add(v, hot{shownOf(v, int64(len(data))), data}, int64(len(data))+overhead)
}

// once makes v for all who want it now. It goes on when the one who came first goes away. It returns the bytes, or nil
// when they lie in the cache folder.
func (o *objects) once(ctx context.Context, file File, v variant) ([]byte, error) {
	const patience, slowest = 30 * time.Second, 256 << 10 // bytes a second
	flight := o.flights.DoChan(v.name(), func() (any, error) {
		limit := patience + time.Duration(file.Size/slowest)*time.Second
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		if v.encoding != identity {
			return o.encode(ctx, file, v)
		}
		return o.load(ctx, file, v)
	})
	select {
	case <-ctx.Done():
		return nil, &landfall.Error{Op: "gateway.open", Kind: landfall.Canceled, Err: ctx.Err()}
	case result := <-flight:
		data, _ := result.Val.([]byte)
		return data, result.Err
	}
}

// load brings file from the store into memory or, if it is large, into the cache folder.
func (o *objects) load(ctx context.Context, file File, v variant) ([]byte, error) {
	if file.Size <= maxHot {
		var data bytes.Buffer
		if err := o.copyVerified(ctx, &data, file); err != nil {
			return nil, err
		}
		o.keep(v, data.Bytes())
		return data.Bytes(), nil
	}
	f, err := o.disk.create(v.name(), func(f *os.File) error { return o.copyVerified(ctx, f, file) })
	if err != nil {
		return nil, err
	}
	f.Close()
	return nil, nil
}

// encode makes the coded variant v of file.
func (o *objects) encode(ctx context.Context, file File, v variant) ([]byte, error) {
	plain, err := o.variant(ctx, file, variant{v.digest, identity})
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	if err := o.workers.Acquire(ctx, 1); err != nil {
		return nil, &landfall.Error{Op: "gateway.encode", Kind: landfall.Unavailable, Err: err}
	}
	defer o.workers.Release(1)
	f, err := o.disk.create(v.name(), func(f *os.File) error { return compressOrEmpty(f, plain, v.encoding) })
	if err != nil {
		return nil, err
	}
	coded, err := o.bodyOfFile(v, f)
	if err != nil {
		return nil, err
	}
	defer coded.Close()
	if coded.file != nil {
		return nil, nil
	}
	return io.ReadAll(coded)
}

// compressOrEmpty writes plain to f in the coding e, and nothing when that saves less than a twentieth.
func compressOrEmpty(f *os.File, plain *body, e encoding) error {
	if err := compress(f, plain, e); err != nil {
		return diskError(err)
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return diskError(err)
	}
	if size <= plain.size-plain.size/20 {
		return nil
	}
	if err := f.Truncate(0); err != nil {
		return diskError(err)
	}
	return nil
}

// copyVerified copies the object of file to dst. It fails unless these are the bytes that the manifest names.
func (o *objects) copyVerified(ctx context.Context, dst io.Writer, file File) error {
	src, err := o.content.Open(ctx, file.Key)
	if err != nil {
		return err
	}
	defer src.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(dst, sum), io.LimitReader(src, file.Size+1))
	o.loaded.Add(n)
	if err != nil {
		return err
	}
	if n != file.Size || landfall.DigestFromSum(sum.Sum(nil)) != file.SHA256 {
		return landfall.Wrapf("gateway.load", landfall.Internal,
			fmt.Errorf("object %q has other bytes than its manifest says", file.Key), "a stored file is not what was uploaded")
	}
	return nil
}
