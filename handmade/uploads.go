package handmade

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"landfall.dev/landfall"
)

// Uploads are the files that people send, in parts: one that was broken off goes on where it ended.
type Uploads struct {
	Folder   string // made when the first comes
	MaxBytes int64  // of one
	Now      func() time.Time

	writing sync.Mutex // uploads begin, and parts come, one after the other
}

// Upload is a file on its way.
type Upload struct {
	ID     string          `json:"id"`
	Owner  landfall.Digest `json:"owner"`           // of whose token it is; nobody else's sees it
	Share  string          `json:"share,omitempty"` // of the room that it is in; empty: whatever is left
	Digest landfall.Digest `json:"digest"`          // of all of it
	Size   int64           `json:"size"`            // of all of it
	Offset int64           `json:"-"`               // how many bytes are here
}

// keep is how long an upload stays after its last part came.
const keep = 24 * time.Hour

// Begin makes room for a file. It has the given id, of the form of uploadID; for an empty one, a new one. When there is
// one of that id, that is returned. What its owner sent of the same file before, and broke off, need not come again.
// Invalid when it is larger than one may be; Unavailable when all room is taken, or that of a share: all tokens for one
// app or namespace have one together, and the others have none for themselves ("").
func (u *Uploads) Begin(id string, owner landfall.Digest, share string, size int64,
	digest landfall.Digest) (Upload, error) {
	const op landfall.Op = "handmade.Begin"
	if _, err := landfall.ParseDigest(string(digest)); err != nil {
		return Upload{}, err
	}
	if size < 1 || size > u.MaxBytes {
		return Upload{}, landfall.Errorf(op, landfall.Invalid, "an upload has from 1 to %d bytes, and this one %d "+
			"(LANDFALL_MAX_FILE_BYTES)", u.MaxBytes, size)
	}
	if earlier, err := u.Find(owner, id); id != "" && err == nil {
		return earlier, nil
	}
	u.writing.Lock()
	defer u.writing.Unlock()
	if err := os.MkdirAll(u.Folder, 0o700); err != nil {
		return Upload{}, &landfall.Error{Op: op, Err: err}
	}
	if err := u.Sweep(); err != nil {
		return Upload{}, err
	}
	all, err := u.underWay()
	if err != nil {
		return Upload{}, &landfall.Error{Op: op, Err: err}
	}
	up := Upload{ID: cmp.Or(id, strings.ToLower(rand.Text())), Owner: owner, Share: share, Digest: digest, Size: size}
	if err := u.checkRoom(all, up); err != nil {
		return Upload{}, err
	}
	about, err := json.Marshal(up)
	if err != nil {
		return up, err
	}
	if up.Offset, err = u.takeOver(all, up); err == nil {
		err = writeWhole(u.path(up.ID)+aboutSuffix, about)
	}
	if err != nil {
		return up, &landfall.Error{Op: op, Err: err}
	}
	return up, nil
}

// writeWhole writes a file, of which nobody ever finds a part.
func writeWhole(path string, data []byte) error {
	const suffix = ".new"
	if err := os.WriteFile(path+suffix, data, 0o600); err != nil {
		return errors.Join(err, os.Remove(path+suffix))
	}
	return os.Rename(path+suffix, path)
}

// takeOver gives a new upload what came of the same file, and returns how much that is. Whoever sends the file
// elsewhere goes on with their own.
func (u *Uploads) takeOver(all []Upload, up Upload) (int64, error) {
	var most Upload
	for _, other := range all {
		if other.same(up) && other.Offset > most.Offset {
			most = other
		}
	}
	came := io.NopCloser(strings.NewReader(""))
	if most.Offset > 0 {
		from, err := os.Open(u.path(most.ID))
		switch {
		case err == nil:
			came = from
		case !errors.Is(err, fs.ErrNotExist): // else it is a version by now
			return 0, err
		}
	}
	defer came.Close()
	to, err := os.OpenFile(u.path(up.ID), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(to, io.LimitReader(came, most.Offset))
	return n, errors.Join(err, to.Close())
}

// same reports whether two uploads are of the same file and owner.
func (u Upload) same(other Upload) bool {
	return u.Owner == other.Owner && u.Digest == other.Digest && u.Size == other.Size
}

const aboutSuffix = ".json"

var uploadID = regexp.MustCompile(`^[a-z2-7]{26}$`)

func (u *Uploads) path(id string) string { return filepath.Join(u.Folder, id) }

// Find returns an upload of an owner, of anybody for an empty one, with how much of it is here. NotFound when there is
// none, or no longer.
func (u *Uploads) Find(owner landfall.Digest, id string) (up Upload, err error) {
	none := landfall.Errorf("handmade.Find", landfall.NotFound, "there is no upload %q, or no longer: send the file again",
		id)
	if !uploadID.MatchString(id) {
		return up, none
	}
	about, err := os.ReadFile(u.path(id) + aboutSuffix)
	if err == nil {
		err = json.Unmarshal(about, &up)
	}
	info, statErr := os.Stat(u.path(id))
	if err = errors.Join(err, statErr); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = none
		}
		return up, err
	}
	if owner != "" && up.Owner != owner {
		return Upload{}, none
	}
	up.Offset = info.Size()
	return up, nil
}

// Append adds a part that begins at an offset. Conflict, with the right one, when that is not where the file ends;
// Invalid when the file becomes longer than was said, or, with its last part, has another digest: then it is gone.
func (u *Uploads) Append(owner landfall.Digest, id string, offset int64, part []byte) (Upload, error) {
	up, err := u.write(owner, id, offset, part)
	if err != nil || up.Offset < up.Size {
		return up, err
	}
	return up, u.check(up) // while others write
}

// write is Append but for the check of what is whole.
func (u *Uploads) write(owner landfall.Digest, id string, offset int64, part []byte) (Upload, error) {
	const op landfall.Op = "handmade.write"
	u.writing.Lock()
	defer u.writing.Unlock()
	up, err := u.Find(owner, id)
	if err != nil {
		return up, err
	}
	if offset != up.Offset {
		return up, landfall.Errorf(op, landfall.Conflict, "the upload goes on at byte %d, not at %d", up.Offset, offset)
	}
	if offset+int64(len(part)) > up.Size {
		return up, landfall.Errorf(op, landfall.Invalid, "the upload was to have %d bytes, and more came", up.Size)
	}
	f, err := os.OpenFile(u.path(id), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return up, &landfall.Error{Op: op, Err: err}
	}
	n, err := f.Write(part)
	if err = errors.Join(err, f.Close()); err != nil {
		return up, &landfall.Error{Op: op, Err: err}
	}
	up.Offset += int64(n)
	return up, nil
}

// check fails with Invalid when what came of an upload is not what was to come. Then it is gone, also what else came of
// it.
func (u *Uploads) check(up Upload) error {
	digest, err := digestOf(u.path(up.ID))
	if err != nil || digest == up.Digest {
		return err
	}
	all, err := u.underWay()
	for _, other := range all {
		if other.same(up) {
			err = errors.Join(err, u.Remove(other.ID))
		}
	}
	return errors.Join(landfall.Errorf("handmade.check", landfall.Invalid,
		"what came has the digest %s, not %s: send it again", digest, up.Digest), err)
}

// digestOf returns the digest of a file.
func digestOf(path string) (landfall.Digest, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return "", err
	}
	defer f.Close()
	return landfall.DigestOfReader(f)
}

// whole returns the path of an upload of which all is here. Conflict when a part is missing, Invalid
// when it has another digest.
func (u *Uploads) whole(owner landfall.Digest, id string) (string, error) {
	const op landfall.Op = "handmade.whole"
	up, err := u.Find(owner, id)
	if err != nil {
		return "", err
	}
	if up.Offset != up.Size {
		return "", landfall.Errorf(op, landfall.Conflict, "of the upload %s %d of %d bytes are here", id, up.Offset, up.Size)
	}
	return u.path(id), u.check(up)
}

// Remove takes an upload away. It can be repeated.
func (u *Uploads) Remove(id string) error {
	for _, path := range []string{u.path(id), u.path(id) + aboutSuffix} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// work makes a folder for content that no upload has.
func (u *Uploads) work() (string, error) {
	if err := os.MkdirAll(u.Folder, 0o700); err != nil {
		return "", err
	}
	return os.MkdirTemp(u.Folder, "work-*")
}

// How many of the largest uploads may be under way at once, and how many of them in one share; and how many of any
// size.
const (
	maxUnderWay, maxOfShare = 20, 5
	maxCount, maxShareCount = 1000, 100
)

// underWay returns all uploads that there are.
func (u *Uploads) underWay() (all []Upload, err error) {
	entries, err := os.ReadDir(u.Folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		id, isAbout := strings.CutSuffix(entry.Name(), aboutSuffix)
		if !isAbout {
			continue
		}
		up, err := u.Find("", id)
		if landfall.Is(err, landfall.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, up)
	}
	return all, nil
}

// checkRoom fails with Unavailable when the uploads that are under way leave no room for another one.
func (u *Uploads) checkRoom(all []Upload, up Upload) error {
	sum, shared, count := up.Size, up.Size, 1
	for _, other := range all {
		sum += other.Size
		if other.Share == up.Share {
			shared += other.Size
			count++
		}
	}
	if sum > maxUnderWay*u.MaxBytes || len(all) >= maxCount ||
		up.Share != "" && (shared > maxOfShare*u.MaxBytes || count > maxShareCount) {
		return landfall.Errorf("handmade.Begin", landfall.Unavailable, "too much is being sent already: try again later")
	}
	return nil
}

// Sweep removes the uploads that nobody went on with for a day, and what a process left that was killed.
func (u *Uploads) Sweep() error {
	const op landfall.Op = "handmade.Sweep"
	entries, err := os.ReadDir(u.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &landfall.Error{Op: op, Err: err}
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || u.Now().Sub(info.ModTime()) < keep {
			continue
		}
		if id, isAbout := strings.CutSuffix(entry.Name(), aboutSuffix); isAbout {
			if _, err := os.Stat(u.path(id)); err == nil {
				continue // its file says how old it is
			}
		}
		if err := errors.Join(os.RemoveAll(u.path(entry.Name())), u.Remove(entry.Name())); err != nil {
			return &landfall.Error{Op: op, Err: err}
		}
	}
	return nil
}
