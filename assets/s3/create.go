package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
)

// digestHeader is the user metadata that holds an object's SHA-256, so that a reader can detect damage.
const digestHeader = "Landfall-Sha256"

// createOnly makes a request fail when the object exists:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
func createOnly() minio.PutObjectOptions {
	opts := minio.PutObjectOptions{ContentType: "application/octet-stream"}
	opts.SetMatchETagExcept("*")
	return opts
}

// Create implements assets.Creator. Each part is in memory once, so that a request can be repeated.
func (s *Store) Create(ctx context.Context, key string, r io.Reader, size int64) (landfall.Digest, error) {
	const op = "s3.create"
	if err := assets.CheckKey(key); err != nil {
		return "", err
	}
	if size < 0 {
		return "", failure(op, key, landfall.Errorf(op, landfall.Internal, "a size below zero"))
	}
	held := min(size, partSize)
	if err := s.memory.Acquire(ctx, held); err != nil {
		return "", failure(op, key, err)
	}
	defer s.memory.Release(held)
	if size > partSize {
		digest, err := s.createLarge(ctx, key, r, size)
		return digest, failure(op, key, err)
	}
	data := make([]byte, size)
	if err := readExactly(ctx, r, data, true); err != nil {
		return "", failure(op, key, err)
	}
	digest := landfall.DigestOf(data)
	if err := s.put(ctx, name(key), data, digest); err != nil {
		return "", failure(op, key, err)
	}
	return digest, nil
}

// put creates an object with one request. The store checks the bytes against the digest.
func (s *Store) put(ctx context.Context, name string, data []byte, digest landfall.Digest) error {
	opts := createOnly()
	opts.UserMetadata = map[string]string{digestHeader: digest.Hex()}
	return retryConflict(ctx, func() error {
		_, err := s.core.PutObject(ctx, s.bucket, name, bytes.NewReader(data), int64(len(data)), "", digest.Hex(), opts)
		return err
	})
}

// retryConflict repeats a conditional request while the store answers that another one for the same object is running
// (409). Whether the object exists is another answer (412).
func retryConflict(ctx context.Context, request func() error) error {
	const attempts, pause = 5, 50 * time.Millisecond
	for attempt := 0; ; attempt++ {
		err := request()
		if minio.ToErrorResponse(err).StatusCode != http.StatusConflict || attempt == attempts {
			return err
		}
		wait := time.NewTimer(pause << attempt)
		select {
		case <-ctx.Done():
			wait.Stop()
			return err
		case <-wait.C:
		}
	}
}

// createLarge creates an object in parts. It becomes visible when they are joined.
func (s *Store) createLarge(ctx context.Context, key string, r io.Reader, size int64) (landfall.Digest, error) {
	upload, err := s.core.NewMultipartUpload(ctx, s.bucket, name(key),
		minio.PutObjectOptions{ContentType: createOnly().ContentType})
	if err != nil {
		return "", err
	}
	digest, parts, err := s.putParts(ctx, name(key), upload, r, size)
	if err == nil {
		err = retryConflict(ctx, func() error {
			_, err := s.core.CompleteMultipartUpload(ctx, s.bucket, name(key), upload, parts, createOnly())
			return err
		})
	}
	if err != nil {
		const patience = 10 * time.Second
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		// what stays is invisible, and a rule of the store removes it
		_ = s.core.AbortMultipartUpload(ctx, s.bucket, name(key), upload)
		return "", err
	}
	return digest, nil
}

func (s *Store) putParts(ctx context.Context, name, upload string, r io.Reader, size int64) (landfall.Digest,
	[]minio.CompletePart, error) {
	whole := sha256.New()
	buffer := make([]byte, partSize)
	var parts []minio.CompletePart
	for done := int64(0); done < size; {
		data := buffer[:min(partSize, size-done)]
		done += int64(len(data))
		if err := readExactly(ctx, r, data, done == size); err != nil {
			return "", nil, err
		}
		whole.Write(data)
		part, err := s.core.PutObjectPart(ctx, s.bucket, name, upload, len(parts)+1, bytes.NewReader(data), int64(len(data)),
			minio.PutObjectPartOptions{Sha256Hex: landfall.DigestOf(data).Hex()})
		if err != nil {
			return "", nil, err
		}
		parts = append(parts, minio.CompletePart{PartNumber: part.PartNumber, ETag: part.ETag})
	}
	return landfall.DigestFromSum(whole.Sum(nil)), parts, nil
}
