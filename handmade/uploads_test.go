package handmade_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/handmade"
	"landfall.dev/landfall/test/testkit"
)

const ada, ben landfall.Digest = "ada", "ben"

// A file that is broken off at every tenth of it goes on from where it ended, whoever asks, and arrives as it was sent.
func TestUpload(t *testing.T) {
	t.Parallel()
	uploads := &handmade.Uploads{Folder: filepath.Join(t.TempDir(), "uploads"), MaxBytes: 1 << 20, Now: time.Now}
	file := make([]byte, 100_003)
	for i := range file {
		file[i] = byte(rand.Uint32())
	}
	up := testkit.Must(uploads.Begin("", ada, "", int64(len(file)), landfall.DigestOf(file)))(t)
	const tenths = 10
	for n := 1; n <= tenths; n++ {
		sent := min(len(file), len(file)*n/tenths+n%2)
		// The client was told nothing of the part that came: it asks, and goes on from there.
		now := testkit.Must(uploads.Find(ada, up.ID))(t)
		if n == tenths {
			sent = len(file)
		}
		got := testkit.Must(uploads.Append(ada, up.ID, now.Offset, file[now.Offset:sent]))(t)
		testkit.Equal(t, "offset", got.Offset, int64(sent))
		if n == tenths {
			break
		}
		_, err := uploads.Append(ada, up.ID, 0, file[:1]) // what was sent already, again
		testkit.Equal(t, "a part from elsewhere", landfall.KindOf(err), landfall.Conflict)
	}
	// N-038: an upload that is cut off goes on, and arrives as it was sent
	stored := testkit.Must(os.ReadFile(filepath.Join(uploads.Folder, up.ID)))(t)
	if !bytes.Equal(stored, file) {
		t.Error("what arrived is not what was sent")
	}
	_, err := uploads.Append(ada, up.ID, int64(len(file)), []byte("more"))
	testkit.Equal(t, "more than was said", landfall.KindOf(err), landfall.Invalid)
}

// Whoever begins again after every tenth of a file, at a server that was started again, sends no byte twice. Another
// person begins with nothing.
func TestUploadBegunAgain(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "uploads")
	file := bytes.Repeat([]byte("0123456789"), 1001)
	digest, size := landfall.DigestOf(file), int64(len(file))
	const tenths = 10
	var last string
	for n := range int64(tenths) {
		uploads := &handmade.Uploads{Folder: folder, MaxBytes: 1 << 20, Now: time.Now}
		up := testkit.Must(uploads.Begin("", ada, "", size, digest))(t)
		testkit.Equal(t, "what came before", up.Offset, size*n/tenths)
		other := testkit.Must(uploads.Begin("", ben, "", size, digest))(t)
		testkit.Equal(t, "what another one sent before", other.Offset, int64(0))
		testkit.Must(uploads.Append(ada, up.ID, up.Offset, file[up.Offset:size*(n+1)/tenths]))(t)
		last = up.ID
	}
	stored := testkit.Must(os.ReadFile(filepath.Join(folder, last)))(t)
	if !bytes.Equal(stored, file) {
		t.Error("what arrived is not what was sent")
	}
}

// What is wrong with an upload leaves nothing, and nobody reaches what is another's or no upload.
func TestUploadRefused(t *testing.T) {
	t.Parallel()
	now := time.Now()
	uploads := &handmade.Uploads{Folder: filepath.Join(t.TempDir(), "uploads"), MaxBytes: 10, Now: func() time.Time {
		return now
	}}
	digest := landfall.DigestOf([]byte("hello"))
	for what, begin := range map[string]func() (handmade.Upload, error){
		"too large":   func() (handmade.Upload, error) { return uploads.Begin("", ada, "", 11, digest) },
		"empty":       func() (handmade.Upload, error) { return uploads.Begin("", ada, "", 0, digest) },
		"no digest":   func() (handmade.Upload, error) { return uploads.Begin("", ada, "", 5, "") },
		"half digest": func() (handmade.Upload, error) { return uploads.Begin("", ada, "", 5, "sha256:12") },
	} {
		_, err := begin()
		testkit.Equal(t, what, landfall.KindOf(err), landfall.Invalid)
	}
	up := testkit.Must(uploads.Begin("", ada, "", 5, digest))(t)
	for _, id := range []string{"", "..", "../x", up.ID + ".json", "aaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		_, err := uploads.Find("", id)
		testkit.Equal(t, "upload "+id, landfall.KindOf(err), landfall.NotFound)
	}
	_, err := uploads.Find(ben, up.ID)
	testkit.Equal(t, "another's", landfall.KindOf(err), landfall.NotFound)
	_, err = uploads.Append(ben, up.ID, 0, []byte("hello"))
	testkit.Equal(t, "a part of another's", landfall.KindOf(err), landfall.NotFound)

	_, err = uploads.Append(ada, up.ID, 0, []byte("jelly"))
	testkit.Equal(t, "other bytes", landfall.KindOf(err), landfall.Invalid)
	_, err = uploads.Find(ada, up.ID)
	testkit.Equal(t, "after other bytes", landfall.KindOf(err), landfall.NotFound)

	old := testkit.Must(uploads.Begin("", ada, "", 5, digest))(t)
	now = now.Add(25 * time.Hour)
	testkit.Must(uploads.Begin("", ada, "", 5, digest))(t)
	_, err = uploads.Find(ada, old.ID)
	testkit.Equal(t, "one that nobody went on with", landfall.KindOf(err), landfall.NotFound)
}

// Who has a share of the room cannot take the room of others.
func TestUploadShares(t *testing.T) {
	t.Parallel()
	uploads := &handmade.Uploads{Folder: filepath.Join(t.TempDir(), "uploads"), MaxBytes: 10, Now: time.Now}
	digest := landfall.DigestOf(nil)
	begin := func(owner landfall.Digest, share string) error {
		_, err := uploads.Begin("", owner, share, 10, digest)
		return err
	}
	full := func(what string, owner landfall.Digest, share string) {
		t.Helper()
		testkit.Equal(t, what, landfall.KindOf(begin(owner, share)), landfall.Unavailable)
	}
	for range 5 {
		testkit.Equal(t, "in its share", begin(ada, "team"), nil)
	}
	full("a sixth of the share", ada, "team")
	full("of another token of the share", ben, "team")
	for range 5 {
		testkit.Equal(t, "in another share", begin(ben, "shop"), nil)
	}
	full("in a share that another one fills", ben, "shop")
	for range 10 {
		testkit.Equal(t, "without a share", begin(ada, ""), nil)
	}
	full("beyond the room of all", ada, "")
	full("in a share when nothing is left", ada, "blog")
}

// However small uploads are, there are not without end of them; also what a crash left of one goes after a day.
func TestManySmallUploads(t *testing.T) {
	t.Parallel()
	now := time.Now()
	uploads := &handmade.Uploads{Folder: filepath.Join(t.TempDir(), "uploads"), MaxBytes: 1 << 20,
		Now: func() time.Time { return now }}
	var begun []handmade.Upload
	for n := 0; ; n++ {
		up, err := uploads.Begin("", ada, "team", 1, landfall.DigestOf(nil))
		if err != nil {
			testkit.Equal(t, "one more than may be of a share", landfall.KindOf(err), landfall.Unavailable)
			testkit.Equal(t, "how many there are", n, 100)
			break
		}
		begun = append(begun, up)
	}
	testkit.Must(uploads.Begin("", ben, "shop", 1, landfall.DigestOf(nil)))(t)
	if err := os.Remove(filepath.Join(uploads.Folder, begun[0].ID)); err != nil {
		t.Fatal(err)
	}
	now = now.Add(25 * time.Hour)
	if err := uploads.Sweep(); err != nil {
		t.Fatal(err)
	}
	testkit.Equal(t, "files that are left", len(testkit.Must(os.ReadDir(uploads.Folder))(t)), 0)
}

// An upload that nobody goes on with goes a day after its last part, also when no other one ever begins.
func TestSweep(t *testing.T) {
	t.Parallel()
	now := time.Now()
	uploads := &handmade.Uploads{Folder: filepath.Join(t.TempDir(), "uploads"), MaxBytes: 10,
		Now: func() time.Time { return now }}
	sweep := func() {
		t.Helper()
		if err := uploads.Sweep(); err != nil {
			t.Fatal(err)
		}
	}
	sweep() // nobody has sent anything yet
	up := testkit.Must(uploads.Begin("", ada, "", 5, landfall.DigestOf([]byte("hello"))))(t)
	now = now.Add(23 * time.Hour)
	sweep()
	testkit.Must(uploads.Find(ada, up.ID))(t)
	now = now.Add(2 * time.Hour)
	sweep()
	testkit.Equal(t, "files that are left", len(testkit.Must(os.ReadDir(uploads.Folder))(t)), 0)
}
