// Package s3 keeps objects in a bucket of any store with the S3 API: one object per key.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/semaphore"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
)

// Config says where the objects are.
type Config struct {
	Endpoint  string // HOST or HOST:PORT
	Bucket    string // made when it does not exist
	Region    string // empty: the store is asked
	AccessKey string
	SecretKey string
	Insecure  bool // http instead of https
	Style     Style
	Transport http.RoundTripper // nil: one with timeouts
}

// Style is how requests address a bucket.
type Style string

// Auto addresses by host at endpoints that are known to need it, and by path at others.
const (
	AutoStyle Style = "auto"
	PathStyle Style = "path" // https://HOST/BUCKET/KEY
	HostStyle Style = "host" // https://BUCKET.HOST/KEY
)

// Store is a bucket. It implements assets.Store. It repeats failed requests, with growing pauses, so nobody notices
// when the store is away for some seconds.
type Store struct {
	core   minio.Core
	bucket string
	memory *semaphore.Weighted // for the parts that are in memory
}

var _ assets.Store = (*Store)(nil)

const (
	partSize    = 8 << 20 // a larger object is sent in parts; S3 takes 10,000 of them
	memoryLimit = 64 << 20
	maxRetries  = 5

	headerTimeout = 30 * time.Second
	idleConns     = 64
)

// Open returns the store in a bucket. It makes the bucket if it does not exist, and then tests the promise on which all
// others rest: an object is created once. It refuses a store that would overwrite an object.
func Open(ctx context.Context, c Config) (*Store, error) {
	const op = "s3.open"
	if err := c.check(); err != nil {
		return nil, err
	}
	style := map[Style]minio.BucketLookupType{PathStyle: minio.BucketLookupPath, HostStyle: minio.BucketLookupDNS}[c.Style]
	if c.Transport == nil {
		c.Transport = transport()
	}
	client, err := minio.New(c.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(c.AccessKey, c.SecretKey, ""), Secure: !c.Insecure, Region: c.Region,
		BucketLookup: style, Transport: c.Transport, MaxRetries: maxRetries,
	})
	if err != nil {
		return nil, landfall.Errorf(op, landfall.Invalid,
			"LANDFALL_S3_ENDPOINT is %q; right would be HOST, HOST:PORT or https://HOST: %s", c.Endpoint, err)
	}
	s := &Store{core: minio.Core{Client: client}, bucket: c.Bucket, memory: semaphore.NewWeighted(memoryLimit)}
	if err := s.ensureBucket(ctx, c.Region); err != nil {
		return nil, s.openError(ctx, c, err)
	}
	if err := s.probe(ctx, c.Endpoint); err != nil {
		return nil, s.openError(ctx, c, err)
	}
	return s, nil
}

func transport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.ResponseHeaderTimeout = headerTimeout
	t.MaxIdleConnsPerHost = idleConns
	t.DisableCompression = true // objects are sent and received as they are
	return t
}

func (s *Store) ensureBucket(ctx context.Context, region string) error {
	const op = "s3.bucket"
	there, err := s.core.BucketExists(ctx, s.bucket)
	if err != nil {
		return failure(op, "", err)
	}
	if there {
		return nil
	}
	err = s.core.MakeBucket(ctx, s.bucket, minio.MakeBucketOptions{Region: region})
	if code := minio.ToErrorResponse(err).Code; code == "BucketAlreadyOwnedByYou" {
		return nil // another process was faster
	}
	return failure(op, "", err)
}

// probe creates an object twice. The object has a new name each time, because several processes may start at once. In a
// bucket with a mark it writes nothing, because a full store would refuse; it tries to create the mark again.
func (s *Store) probe(ctx context.Context, endpoint string) error {
	if mark, err := s.Mark(ctx); err == nil && mark != "" {
		return probeResult(endpoint, nil, s.put(ctx, markName, []byte(mark+"\n"), landfall.DigestOf([]byte(mark+"\n"))), nil)
	}
	key := ".probe/" + string(landfall.NewUID()) + time.Now().UTC().Format("20060102150405.000000000")
	first := s.put(ctx, key, []byte("first"), landfall.DigestOf([]byte("first")))
	second := s.put(ctx, key, []byte("second"), landfall.DigestOf([]byte("second")))
	return probeResult(endpoint, first, second, s.core.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{}))
}

// probeResult interprets the results of a probe: of creating its object first, of creating it again, and of deleting
// it.
func probeResult(endpoint string, first, second, removed error) error {
	const op = "s3.probe"
	switch {
	case first != nil:
		return failure(op, "", first)
	case second == nil:
		return landfall.Errorf(op, landfall.Invalid,
			"the object store at %s overwrites objects although it is told not to (If-None-Match: *): it cannot be used safely",
			endpoint)
	case landfall.KindOf(failure(op, "", second)) != landfall.Conflict:
		return failure(op, "", second)
	}
	return failure(op, "", removed)
}

// name returns the name of a key's object. Control characters, which an XML listing cannot contain, become "!" and two
// hexadecimal digits. Keys of uploads have none.
func name(key string) string {
	if !strings.ContainsFunc(key, isEscaped) {
		return key
	}
	var b strings.Builder
	for _, c := range key {
		if isEscaped(c) {
			fmt.Fprintf(&b, "!%02X", c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

func isEscaped(c rune) bool { return c < ' ' || c == '\x7f' || c == '!' || c == '\\' }

// key is the inverse of name. It reports false for an object without a key, which is not ours.
func key(object string) (string, bool) {
	first, escaped, _ := strings.Cut(object, "!")
	var b strings.Builder
	b.WriteString(first)
	for escaped != "" {
		const digits = 2
		c, err := strconv.ParseUint(escaped[:min(digits, len(escaped))], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteRune(rune(c))
		first, escaped, _ = strings.Cut(escaped[min(digits, len(escaped)):], "!")
		b.WriteString(first)
	}
	key := b.String()
	return key, name(key) == object && assets.CheckKey(key) == nil
}

// Delete implements assets.Remover.
func (s *Store) Delete(ctx context.Context, key string) error {
	const op = "s3.delete"
	if err := assets.CheckKey(key); err != nil {
		return err
	}
	err := s.core.RemoveObject(ctx, s.bucket, name(key), minio.RemoveObjectOptions{})
	if err = failure(op, key, err); landfall.Is(err, landfall.NotFound) {
		return nil
	}
	return err
}

// List implements assets.Remover.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	const op = "s3.list"
	return func(yield func(string, error) bool) {
		top := strings.TrimSuffix(prefix, "/")
		if top != "" {
			if err := assets.CheckKey(top); err != nil {
				yield("", err)
				return
			}
			top = name(top) + "/"
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // the library lists ahead
		for object := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: top, Recursive: true}) {
			if object.Err != nil {
				yield("", failure(op, prefix, object.Err))
				return
			}
			if strings.HasPrefix(object.Key, ".") || strings.HasSuffix(object.Key, "/") {
				continue // the store's own objects, and the folders of some stores
			}
			if key, ours := key(object.Key); ours && !yield(key, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield("", failure(op, prefix, err))
		}
	}
}

// markName is an object of the store itself.
const markName = ".installation"

// Mark returns the mark that SetMark wrote; empty when there is none. NotFound when the bucket is gone.
func (s *Store) Mark(ctx context.Context) (string, error) {
	const op, most = "s3.mark", 1000
	object, _, _, err := s.core.GetObject(ctx, s.bucket, markName, minio.GetObjectOptions{})
	if minio.ToErrorResponse(err).Code == "NoSuchKey" {
		return "", nil
	}
	if err != nil {
		return "", failure(op, markName, err)
	}
	data, err := io.ReadAll(io.LimitReader(object, most))
	return strings.TrimSpace(string(data)), failure(op, markName, errors.Join(err, object.Close()))
}

// SetMark writes a mark into the bucket, in place of an earlier one. The mark is an object that is not listed.
func (s *Store) SetMark(ctx context.Context, mark string) error {
	_, err := s.core.PutObject(ctx, s.bucket, markName, strings.NewReader(mark+"\n"), int64(len(mark)+1), "", "",
		minio.PutObjectOptions{})
	return failure("s3.mark", markName, err)
}

// Sync implements assets.Store. An object is durable when the request that creates it is answered.
func (s *Store) Sync(ctx context.Context) error { return failure("s3.sync", "", ctx.Err()) }

// Close closes idle connections.
func (*Store) Close() error { return nil }

// conflictCode is the code of the answer to a conditional request while another one for the same object is running.
const conflictCode = "ConditionalRequestConflict"

// failure returns err with its Kind; nil stays nil. An error that has a Kind already (a reader's) keeps it.
func failure(op landfall.Op, key string, err error) error {
	if err == nil {
		return nil
	}
	e := &landfall.Error{Op: op, Kind: landfall.Unavailable, Err: err}
	response, answered := errors.AsType[minio.ErrorResponse](err)
	inner, ours := errors.AsType[*landfall.Error](err)
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		e.Kind = landfall.Canceled
	case ours:
		e.Kind = inner.Kind
	case !answered:
		e.Message = "the object store does not answer"
	case response.Code == minio.NoSuchBucket:
		e.Message = "the bucket is gone"
	case response.Code == minio.NoSuchUpload: // ended by a user, a rule of the bucket or a restart of the store
		e.Message = "the object store has dropped an upload in parts"
	case response.StatusCode == http.StatusNotFound || response.Code == minio.NoSuchKey:
		e.Kind, e.Message = landfall.NotFound, fmt.Sprintf("there is no object %q", key)
	case response.Code == conflictCode: // after repeated requests, too; it does not say that the object exists
		e.Message = "the object store is at work on the same object"
	case response.StatusCode == http.StatusPreconditionFailed || response.StatusCode == http.StatusConflict ||
		response.StatusCode == http.StatusNotModified: // the answer of some stores in place of 412
		e.Kind, e.Message = landfall.Conflict, fmt.Sprintf("there is an object %q already", key)
	default:
		e.Message = "the object store refuses: " + reason(err)
	}
	return e
}

// reason returns in a few words what the store answered.
func reason(err error) string {
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return strings.TrimSuffix(response.Error(), ".")
	}
	return landfall.MessageOf(err)
}

// readChunk is how much is read between two checks of the context.
const readChunk = 256 << 10

// readExactly fills p from r, which must have at least as many bytes, and none after them if last. An error of r keeps
// its Kind.
func readExactly(ctx context.Context, r io.Reader, p []byte, last bool) error {
	const op landfall.Op = "s3.read"
	for len(p) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(r, p[:min(len(p), readChunk)])
		if err != nil {
			return &landfall.Error{Op: op, Kind: landfall.KindOf(err), Err: err}
		}
		p = p[n:]
	}
	if !last {
		return nil
	}
	var one [1]byte
	_, err := io.ReadFull(r, one[:])
	if errors.Is(err, io.EOF) {
		return nil
	}
	return &landfall.Error{Op: op, Kind: landfall.KindOf(err),
		Err: fmt.Errorf("more bytes than were announced, or no end: %w", err)}
}
