package backup_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets"
	"landfall.dev/landfall/assets/disk"
	"landfall.dev/landfall/backup"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
)

// place is where an installation keeps what it has.
type place struct {
	data, database string
	db             *store.DB
	objects        *disk.Store
	repositories   *remote.Repositories
}

// databases are one of each kind, new ones.
func databases() map[string]func(t *testing.T, data string) string {
	return map[string]func(t *testing.T, data string) string{
		"sqlite":   func(_ *testing.T, data string) string { return filepath.Join(data, "landfall.db") },
		"postgres": func(t *testing.T, _ string) string { return storetest.Postgres(t) },
	}
}

// open opens a place.
func open(t *testing.T, data, database string) *place {
	t.Helper()
	p := &place{data: data, database: database}
	var err error
	if p.db, err = store.Open(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.db.Close() })
	if p.objects, err = disk.Open(filepath.Join(data, "objects")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.objects.Close() })
	git, err := remote.FindGit()
	if err != nil {
		t.Fatal(err)
	}
	if p.repositories, err = remote.OpenRepositories(filepath.Join(data, "git"), git); err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	prefix   = "apps/default/shop/static/root/aaaaaaaa/"
	odd      = "it's \"odd\" \\ – \u2028 <&> \x01"
	page     = "<h1>hello</h1>"
	appID    = "app-1"
	hook     = "a hook's secret"
	oneToken = "0123456789012345678901234567890123456789\n"
)

// furnished is a place with an app, its repository and its objects; one object has no row that knows its folder.
func furnished(t *testing.T, database func(*testing.T, string) string) *place {
	t.Helper()
	data := t.TempDir()
	p := open(t, data, database(t, data))
	ctx := t.Context()
	err := p.db.Update(ctx, func(tx *store.Tx) error {
		return errors.Join(
			tx.EnsureNamespace(ctx, "default", 1),
			tx.CreateApp(ctx, landfall.App{ID: appID, Namespace: "default", Name: "shop", Repository: odd,
				Created: time.UnixMicro(1_234_567_890_123_456).UTC()}),
			tx.CreateHook(ctx, landfall.Hook{ID: "hook-1", App: appID, Secret: hook}, 1),
			tx.CreateRun(ctx, landfall.Run{ID: "run-1", App: appID, State: landfall.RunQueued,
				Created: time.UnixMicro(1).UTC()}),
			func() error {
				_, err := tx.Reserve(ctx, "run-1", appID, []string{prefix}, time.UnixMicro(1))
				return err
			}(),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	for key, content := range map[string]string{prefix + "index.html": page, prefix + "deep/größe.txt": "",
		"apps/default/shop/static/root/later/index.html": "newer"} {
		if _, err := p.objects.Create(ctx, key, strings.NewReader(content), int64(len(content))); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.repositories.Create(ctx, appID, "main"); err != nil {
		t.Fatal(err)
	}
	commit := git(t, p.repositories.Path(appID), "commit-tree", "-m", "first",
		git(t, p.repositories.Path(appID), "hash-object", "-t", "tree", "-w", "/dev/null"))
	git(t, p.repositories.Path(appID), "update-ref", "refs/heads/main", commit)
	git(t, p.repositories.Path(appID), "update-ref", "refs/landfall/keep/aaaaaaaa", commit)
	// no reference reaches it
	git(t, p.repositories.Path(appID), "hash-object", "-w", filepath.Join(p.repositories.Path(appID), "HEAD"))
	return p
}

func git(t *testing.T, repository string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", repository}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ada",
		"GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// backedUp returns the archive of a place.
func (p *place) backedUp(t *testing.T) []byte {
	t.Helper()
	var archive bytes.Buffer
	if _, err := p.backup().Write(t.Context(), &archive); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

func (p *place) backup() *backup.Backup {
	return &backup.Backup{DB: p.db, Objects: p.objects, Repositories: p.repositories, Token: []byte(oneToken),
		Scratch: filepath.Join(p.data, "scratch"), Now: time.Now}
}

// restore returns a restore into a data folder that need not exist.
func restore(t *testing.T, data, database string) *backup.Restore {
	t.Helper()
	return &backup.Restore{Data: data, Database: database,
		Open: func(context.Context) (assets.Store, backup.Importer, error) {
			objects, err := disk.Open(filepath.Join(data, "objects"))
			if err != nil {
				return nil, nil, err
			}
			t.Cleanup(func() { objects.Close() })
			program, err := remote.FindGit()
			if err != nil {
				return nil, nil, err
			}
			repositories, err := remote.OpenRepositories(filepath.Join(data, "git"), program)
			return objects, repositories, err
		}}
}

// What was backed up on any kind of database is restored on any kind: rows, objects, repositories and the token.
func TestRestore(t *testing.T) {
	t.Parallel()
	for from, source := range databases() {
		for to, target := range databases() {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				p := furnished(t, source)
				data := filepath.Join(t.TempDir(), "new")
				database := target(t, data)
				_, totals, err := restore(t, data, database).Run(t.Context(), bytes.NewReader(p.backedUp(t)))
				if err != nil {
					t.Fatal(err)
				}
				if totals.Repositories != 1 || totals.Objects != 2 || totals.Rows == 0 {
					t.Errorf("got the totals %+v, want one repository, two objects and some rows", totals)
				}
				wantSame(t, p, open(t, data, database))
			})
		}
	}
}

func wantSame(t *testing.T, p, q *place) {
	t.Helper()
	ctx := t.Context()
	want, _ := p.db.App(ctx, appID)
	got, err := q.db.App(ctx, appID)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got the app %+v, %v, want %+v", got, err, want)
	}
	if h, err := q.db.Hook(ctx, "hook-1"); err != nil || h.Secret != hook {
		t.Errorf("got the hook %+v, %v, want its secret %q", h, err, hook)
	}
	wantListed(t, q.objects, prefix+"deep/größe.txt", prefix+"index.html")
	object, err := q.objects.Open(ctx, prefix+"index.html")
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close()
	if content, err := io.ReadAll(object); err != nil || string(content) != page {
		t.Errorf("got the object %q, %v, want %q", content, err, page)
	}
	for _, args := range [][]string{{"for-each-ref"}, {"symbolic-ref", "HEAD"},
		{"cat-file", "--batch-all-objects", "--batch-check"}} {
		if got, want := git(t, q.repositories.Path(appID), args...),
			git(t, p.repositories.Path(appID), args...); got != want {
			t.Errorf("git %s: got %s, want %s", strings.Join(args, " "), got, want)
		}
	}
	if token, err := os.ReadFile(filepath.Join(q.data, "token")); err != nil || string(token) != oneToken {
		t.Errorf("got the token %q, %v, want %q", token, err, oneToken)
	}
	if err := backup.CheckFinished(q.data); err != nil {
		t.Errorf("the restore ended, and is said not to: %v", err)
	}
}

func wantListed(t *testing.T, objects *disk.Store, want ...string) {
	t.Helper()
	var keys []string
	for key, err := range objects.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if !slices.Equal(keys, want) {
		t.Errorf("got the objects %q, want %q", keys, want)
	}
}

// Where there is something already nothing is restored, and nothing is changed.
func TestRestoreNeedsEmptyPlaces(t *testing.T) {
	t.Parallel()
	for name, database := range databases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := furnished(t, database)
			archive := p.backedUp(t)
			wantConflict := func(what string, data, database string, parts ...string) {
				t.Helper()
				before := tree(t, data)
				_, _, err := restore(t, data, database).Run(t.Context(), bytes.NewReader(archive))
				wantError(t, what, err, landfall.Conflict, parts...)
				if after := tree(t, data); !slices.Equal(before, after) {
					t.Errorf("%s: there was %q, and is %q", what, before, after)
				}
			}
			p.db.Close()
			elsewhere := filepath.Join(t.TempDir(), "elsewhere.db")
			wantConflict("a folder in use", p.data, elsewhere, "is not empty", "LANDFALL_DATA")
			wantConflict("a database in use", filepath.Join(t.TempDir(), "new"), p.database, "database")
		})
	}
}

// tree lists what is in a folder.
func tree(t *testing.T, folder string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(folder, func(name string, _ os.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return names
}

func wantError(t *testing.T, what string, err error, kind landfall.Kind, parts ...string) {
	t.Helper()
	if err == nil || landfall.KindOf(err) != kind {
		t.Errorf("%s: got the error %v, want one of kind %s", what, err, kind)
		return
	}
	for _, part := range parts {
		if !strings.Contains(landfall.MessageOf(err), part) {
			t.Errorf("%s: got %q, which does not say %q", what, landfall.MessageOf(err), part)
		}
	}
}

// An archive that is cut off, or that says something else because of one bit, is refused, and leaves nothing behind. A
// few bits of a compressed stream say nothing: what is restored is then the same.
func TestDamagedArchives(t *testing.T) {
	t.Parallel()
	p := furnished(t, databases()["sqlite"])
	archive := p.backedUp(t)
	for i := range 24 {
		at := i * len(archive) / 24
		flipped := slices.Clone(archive)
		flipped[at] ^= 1 << (i % 8)
		for what, bad := range map[string][]byte{fmt.Sprint("cut off at ", at): archive[:at],
			fmt.Sprint("a bit flipped at ", at): flipped} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				data := filepath.Join(t.TempDir(), "new")
				database := filepath.Join(data, "landfall.db")
				_, _, err := restore(t, data, database).Run(t.Context(), bytes.NewReader(bad))
				if err == nil && len(bad) == len(archive) {
					wantSame(t, p, open(t, data, database))
					return
				}
				wantError(t, what, err, landfall.Invalid, "the backup cannot be used")
				if left := tree(t, data); len(left) > 1 {
					t.Errorf("got %q left behind, want an empty folder", left)
				}
			})
		}
	}
}

// crafted returns an archive of exactly these entries.
func crafted(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var buffer bytes.Buffer
	packed, err := zstd.NewWriter(&buffer)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(packed)
	for _, h := range entries {
		content := h.Uname // what is in it
		h.Uname = ""
		h.Mode = 0o600
		if h.Size == 0 {
			h.Size = int64(len(content))
		}
		if h.Typeflag != 0 && h.Typeflag != tar.TypeReg {
			h.Size = 0
		}
		if err := archive.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size == int64(len(content)) {
			if _, err := io.WriteString(archive, content); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = archive.Flush()
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// What somebody made to do harm is refused before it does: names that lead elsewhere, links, devices, sizes, another
// order.
func TestHostileArchives(t *testing.T) {
	t.Parallel()
	header := tar.Header{Name: "backup.json", Uname: `{"format":1,"schema":1,"objects":true}`}
	rows := tar.Header{Name: "database.jsonl", Uname: "{}\n"}
	for name, entries := range map[string][]tar.Header{
		"a name outside":       {header, rows, {Name: "objects/../../outside", Uname: "x"}},
		"an absolute name":     {header, rows, {Name: "/etc/outside", Uname: "x"}},
		"a name of ours":       {header, rows, {Name: "objects/.lock", Uname: "x"}},
		"a repository outside": {header, rows, {Name: "git/../x.refs", Uname: "refs/heads/main\n"}},
		"a symbolic link": {header, rows,
			{Name: "objects/apps/x", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}},
		"a hard link":            {header, rows, {Name: "objects/apps/x", Typeflag: tar.TypeLink, Linkname: "../token"}},
		"a device":               {header, rows, {Name: "objects/apps/x", Typeflag: tar.TypeBlock}},
		"a folder":               {header, rows, {Name: "objects/apps/", Typeflag: tar.TypeDir}},
		"a size beyond reason":   {header, rows, {Name: "objects/apps/x", Size: 1 << 50}},
		"a size beyond the disk": {header, rows, {Name: "objects/apps/x", Size: 1<<40 - 1}},
		"a token that is huge":   {header, rows, {Name: "token", Size: 1 << 30}},
		"no header":              {rows},
		"two headers":            {header, header},
		"objects before rows":    {header, {Name: "objects/apps/x", Uname: "x"}, rows},
		"a pack alone":           {header, rows, {Name: "git/x.pack", Uname: "PACK"}},
		"a pack of another": {header, rows, {Name: "git/x.refs", Uname: "refs/heads/main\n"},
			{Name: "git/y.pack", Uname: "PACK"}},
		"a pack that is none": {header, rows, {Name: "git/x.refs", Uname: "refs/heads/main\n"},
			{Name: "git/x.pack", Uname: "PACK"}},
		"references of git's": {header, rows, {Name: "git/x.refs", Uname: "refs/heads/main\n--stdin refs/heads/x\n"},
			{Name: "git/x.pack", Uname: "PACK"}},
		"a newer form":        {{Name: "backup.json", Uname: `{"format":2}`}},
		"a newer schema":      {{Name: "backup.json", Uname: `{"format":1,"schema":99}`}},
		"something else":      {header, rows, {Name: "README", Uname: "x"}},
		"no rows, and an end": {header, {Name: "end.json", Uname: `{}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			data := filepath.Join(folder, "data")
			_, _, err := restore(t, data, filepath.Join(data, "landfall.db")).Run(t.Context(),
				bytes.NewReader(crafted(t, entries...)))
			if kind := landfall.KindOf(err); err == nil ||
				(kind != landfall.Invalid && kind != landfall.Conflict && kind != landfall.Unavailable) {
				t.Errorf("got %v, want a refusal", err)
			}
			if err != nil && landfall.MessageOf(err) == landfall.MessageOf(errors.New("x")) {
				t.Errorf("the refusal says nothing: %v", err)
			}
			for _, left := range tree(t, folder) {
				if left != folder && left != data {
					t.Errorf("got %s left behind", left)
				}
			}
		})
	}
}

// A backup that cannot be made whole says so to whoever reads it, instead of looking like one.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	p := furnished(t, databases()["sqlite"])
	if err := os.WriteFile(filepath.Join(p.repositories.Path(appID), "refs", "heads", "main"), []byte("garbage\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	_, err := p.backup().Write(t.Context(), &archive)
	wantError(t, "writing", err, landfall.Internal, "refs/heads/main")
	_, _, err = backup.Reader{}.Read(t.Context(), &archive)
	wantError(t, "reading", err, landfall.Unavailable, "broken off", "refs/heads/main")
}

// So does one that may not be taken for whole although all of it was written.
func TestBrokenOffAtTheEnd(t *testing.T) {
	t.Parallel()
	b := furnished(t, databases()["sqlite"]).backup()
	b.Check = func(context.Context) error {
		return &landfall.Error{Kind: landfall.Conflict, Message: "somebody collected meanwhile"}
	}
	var archive bytes.Buffer
	_, err := b.Write(t.Context(), &archive)
	wantError(t, "writing", err, landfall.Conflict, "somebody collected")
	_, _, err = backup.Reader{}.Read(t.Context(), &archive)
	wantError(t, "reading", err, landfall.Unavailable, "broken off", "somebody collected")
}

// A data folder that a restore was killed in is told from one that can be used.
func TestHalfDone(t *testing.T) {
	t.Parallel()
	p := furnished(t, databases()["sqlite"])
	large := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large) // it cannot be compressed, so the archive has many blocks
	if _, err := p.objects.Create(t.Context(), prefix+"large", bytes.NewReader(large), int64(len(large))); err != nil {
		t.Fatal(err)
	}
	archive := p.backedUp(t)
	data := filepath.Join(t.TempDir(), "new")
	dead := errors.New("killed")
	r := restore(t, data, filepath.Join(data, "landfall.db"))
	seen := 0
	r.Progress = func(backup.Totals) {
		seen++
		// What the disk has at this moment is what a kill would leave.
		if err := backup.CheckFinished(data); landfall.KindOf(err) != landfall.Conflict {
			t.Errorf("got %v in the middle of a restore, want a Conflict", err)
		}
		if _, err := os.Stat(filepath.Join(data, "landfall.db")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v for the database in the middle of a restore, want none", err)
		}
	}
	if _, _, err := r.Run(t.Context(), io.MultiReader(bytes.NewReader(archive[:len(archive)-1]),
		failing{dead})); !errors.Is(err, dead) {
		t.Errorf("got %v, want what reading came to", err)
	}
	if seen == 0 {
		t.Error("nothing was restored before the end of the archive")
	}
	if left := tree(t, data); len(left) != 1 {
		t.Errorf("got %q left behind, want an empty folder", left)
	}
	if err := os.WriteFile(filepath.Join(data, "restoring"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := restore(t, data, filepath.Join(data, "landfall.db")).Run(t.Context(), bytes.NewReader(archive))
	wantError(t, "restoring into a half restored folder", err, landfall.Conflict, "did not end", "remove the folder")
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
