package assets

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
)

// opUpload is the operation of this file's errors.
const opUpload landfall.Op = "assets.upload"

// Uploader stores the files of a plan.
type Uploader struct {
	Store   Creator
	Read    func(context.Context, landfall.File) (io.ReadCloser, error) // opens a file of the unit
	Workers int                                                         // files that are uploaded at once; 0: 16

	// Stored has keys that an earlier attempt stored: their objects are compared and not sent again.
	Stored map[string]bool
}

// UploadResult is the result of an upload.
type UploadResult struct {
	Manifest Ref
	Files    int   // objects that this call stored, without the manifest; fewer than planned when an upload was resumed
	Bytes    int64 // their size
}

// Upload stores the files of the plan and then their manifest, and returns it. It streams the files. It can be repeated
// after a failure or a kill at any point, with the same result; nothing refers to the manifest until the caller does.
// Errors of Read and of the store keep their Kind. A Git LFS pointer is Invalid, and a file whose bytes do not have its
// Size and Digest is Internal.
func (u Uploader) Upload(ctx context.Context, plan UploadPlan) (*Manifest, UploadResult, error) {
	files := slices.Clone(plan.files)
	written := make([]int64, len(plan.jobs)) // bytes, or -1
	group, groupCtx := errgroup.WithContext(ctx)
	var next atomic.Int64 // job
	for range min(workers(u.Workers), len(plan.jobs)) {
		group.Go(func() error {
			buffer := bufio.NewReaderSize(nil, sniffLength)
			for i := next.Add(1) - 1; i < int64(len(plan.jobs)); i = next.Add(1) - 1 {
				stored, err := u.run(groupCtx, plan.jobs[i], buffer)
				if err != nil {
					return failure(opUpload, err)
				}
				written[i] = stored.written
				for _, user := range plan.jobs[i].users {
					stored.complete(&files[user], plan.prefix)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, UploadResult{}, err
	}
	var result UploadResult
	for _, n := range written {
		if n >= 0 {
			result.Files++
			result.Bytes += n
		}
	}
	manifest := newManifest(plan.prefix, files)
	var err error
	if result.Manifest, err = u.storeManifest(ctx, manifest); err != nil {
		return nil, UploadResult{}, failure(opUpload, err)
	}
	return manifest, result, nil
}

// jobResult is the result of a job.
type jobResult struct {
	key     string
	digest  landfall.Digest
	sniffed string // the type, by the first bytes
	written int64  // bytes that were stored; -1: none
}

// complete fills in the fields of a file that were not known before the upload.
func (s jobResult) complete(file *ManifestFile, prefix string) {
	if s.key != "" {
		file.Prefix, file.Key, file.Digest = prefix, s.key, s.digest
	}
	file.Type = cmp.Or(file.Type, s.sniffed)
}

// run does one job. If its key has an object already, it uses an equal one, and leaves another one alone.
func (u Uploader) run(ctx context.Context, job job, buffer *bufio.Reader) (jobResult, error) {
	create := u.create
	if u.Stored[job.key] {
		create = u.find
	}
	done, err := create(ctx, job, job.key, buffer)
	if err == nil || landfall.KindOf(err) != landfall.Conflict {
		return done, err
	}
	ours, err := u.digest(ctx, job.file)
	if err != nil {
		return jobResult{}, err
	}
	done.digest = ours
	if same, err := u.holds(ctx, job.key, job.file.Size, ours); same || err != nil {
		return done, err
	}
	beside := alternateKey(job.key, ours)
	done, err = u.create(ctx, job, beside, buffer)
	if err == nil || landfall.KindOf(err) != landfall.Conflict {
		return done, err
	}
	done.digest = ours
	same, holdsErr := u.holds(ctx, beside, job.file.Size, ours)
	if same || holdsErr != nil {
		return done, holdsErr
	}
	return jobResult{}, err
}

// find is create for a key that exists.
func (u Uploader) find(ctx context.Context, job job, key string, buffer *bufio.Reader) (jobResult, error) {
	done, err := u.create(ctx, job, "", buffer)
	if err != nil {
		return done, err
	}
	done.key = key
	return done, landfall.Errorf(opUpload, landfall.Conflict, "there is an object %q already", key)
}

// create stores the job's file at key, or only reads its first bytes if there is no key.
func (u Uploader) create(ctx context.Context, job job, key string, buffer *bufio.Reader) (jobResult, error) {
	file, err := u.Read(ctx, job.file)
	if err != nil {
		return jobResult{}, err
	}
	defer file.Close()
	buffer.Reset(file)
	defer buffer.Reset(nil)
	head, err := buffer.Peek(sniffLength)
	if err != nil && !errors.Is(err, io.EOF) {
		return jobResult{}, err
	}
	if isPointer(head) {
		return jobResult{}, landfall.Errorf(opUpload, landfall.Invalid,
			"%q is a pointer of Git LFS and not the file; commit the file itself, or exclude it", job.file.Path)
	}
	done := jobResult{key: key, sniffed: typeBySniffing(head), written: -1}
	if key == "" {
		return done, nil
	}
	if done.digest, err = u.Store.Create(ctx, key, buffer, job.file.Size); err != nil {
		return done, err
	}
	done.written = job.file.Size
	return done, checkDigest(job.file, done.digest)
}

// checkDigest returns an error unless the stored bytes have the file's digest.
func checkDigest(file landfall.File, stored landfall.Digest) error {
	if file.Digest == "" || file.Digest == stored {
		return nil
	}
	return landfall.Errorf(opUpload, landfall.Internal,
		"%q changed between build and upload, or was damaged on its way", file.Path)
}

// digest returns the digest of the file's bytes.
func (u Uploader) digest(ctx context.Context, file landfall.File) (landfall.Digest, error) {
	if file.Digest != "" {
		return file.Digest, nil
	}
	source, err := u.Read(ctx, file)
	if err != nil {
		return "", err
	}
	return digestAll(source)
}

// holds reports whether the object at key has this size and digest.
func (u Uploader) holds(ctx context.Context, key string, size int64, digest landfall.Digest) (bool, error) {
	object, err := u.Store.Open(ctx, key)
	switch {
	case landfall.Is(err, landfall.NotFound): // a folder is at the key
		return false, nil
	case err != nil:
		return false, err
	case object.Size() != size:
		return false, object.Close()
	}
	there, err := digestAll(object)
	if landfall.Is(err, landfall.Internal) { // damaged, as some stores notice by themselves
		return false, nil
	}
	return err == nil && there == digest, err
}

// digestAll returns the digest of the bytes of r, and closes it.
func digestAll(r io.ReadCloser) (landfall.Digest, error) {
	hash := sha256.New()
	_, err := io.Copy(hash, r)
	return landfall.DigestFromSum(hash.Sum(nil)), errors.Join(err, r.Close())
}

// storeManifest stores the manifest.
func (u Uploader) storeManifest(ctx context.Context, manifest *Manifest) (Ref, error) {
	data, err := manifest.Encode()
	if err != nil {
		return Ref{}, err
	}
	u.Read = func(context.Context, landfall.File) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	file := landfall.File{Path: manifestName, Size: int64(len(data)), Digest: landfall.DigestOf(data)}
	done, err := u.run(ctx, job{file: file, key: manifest.prefix + manifestName}, bufio.NewReader(nil))
	return Ref{done.key, file.Digest}, err
}

// isPointer reports whether a file with this beginning is a Git LFS pointer.
func isPointer(head []byte) bool {
	return bytes.HasPrefix(head, []byte("version https://git-lfs.github.com/spec/"))
}
