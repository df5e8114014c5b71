package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"golang.org/x/sys/unix"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

// One process owns a database: the second is told so in one sentence, and the first does not notice.
func TestOpenTwice(t *testing.T) {
	t.Parallel()
	path := storetest.SQLite(t)
	db := storetest.Open(t, path)
	_, err := store.Open(t.Context(), path)
	testkit.Kind(t, "the second Open", err, landfall.Conflict,
		fmt.Sprintf("another landfall process (pid %d) uses the data folder", os.Getpid()), filepath.Dir(path), "stop it",
		"LANDFALL_DATA")
	// What the log says ends there, too: a word of the kernel's would read as if it went away by itself.
	if !strings.HasSuffix(err.Error(), "LANDFALL_DATA") {
		t.Errorf("the error: got %q, want it to end with what to do", err)
	}
	if strings.Contains(landfall.MessageOf(err), "\n") {
		t.Errorf("the message: got %q, want one sentence", landfall.MessageOf(err))
	}
	newApp(t, db, "shop")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again := storetest.Open(t, path)
	if _, err := again.AppByName(t.Context(), "shop"); err != nil {
		t.Errorf("after the first is closed: %v", err)
	}
}

// A database that was closed can be opened again at once, also while a process is being started, which has a copy of
// all that is open until its program runs.
func TestOpenAfterAFork(t *testing.T) {
	t.Parallel()
	path := storetest.SQLite(t)
	db := storetest.Open(t, path)
	for _, entry := range testkit.Must(os.ReadDir("/proc/self/fd"))(t) {
		if to, err := os.Readlink(filepath.Join("/proc/self/fd", entry.Name())); err != nil || to != path+".lock" {
			continue
		}
		child := testkit.Must(unix.Dup(testkit.Must(strconv.Atoi(entry.Name()))(t)))(t)
		t.Cleanup(func() { _ = unix.Close(child) })
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	storetest.Open(t, path)
}

// A database lies where it was asked for, whatever the path is made of, and only its owner can read it.
func TestOpenPaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain", "with space", "a?b=c&d", "a#b", "100%25", "ünï", "a'b\"c", "a:b",
		"new/folders/below"} {
		path := filepath.Join(t.TempDir(), name, "landfall.db")
		db, err := store.Open(t.Context(), path)
		if err != nil {
			t.Errorf("Open below %q: %v", name, err)
			continue
		}
		newApp(t, db, "shop")
		info, err := os.Stat(path)
		if err != nil || info.Size() == 0 {
			t.Errorf("the file below %q: got %v, want it there", name, err)
		}
		if dir, err := os.Stat(filepath.Dir(path)); err != nil || dir.Mode().Perm() != 0o700 {
			t.Errorf("the folder %q: got the mode %v (%v), want 0700", name, dir.Mode(), err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// What cannot be opened is an error with a reason, and leaves nothing locked.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, prepare := range map[string]func(path string) error{
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"no database": func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600)
		},
		"below a file": func(path string) error { return os.WriteFile(filepath.Dir(path), nil, 0o600) },
		"a cut database": func(path string) error {
			return os.WriteFile(path, testkit.Must(os.ReadFile(storetest.SQLite(t)))(t)[:8192], 0o600)
		},
	} {
		path := filepath.Join(dir, name, "landfall.db")
		if name != "below a file" {
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := prepare(path); err != nil {
			t.Fatal(err)
		}
		db, err := store.Open(t.Context(), path)
		if err == nil {
			t.Errorf("%s: got no error", name)
			_ = db.Close()
			continue
		}
		if db != nil {
			t.Errorf("%s: got a database beside the error %v", name, err)
		}
		if e, ok := errors.AsType[*landfall.Error](err); !ok || e.Op == "" {
			t.Errorf("%s: got %#v, want an Error that says what was done", name, err)
		}
		if _, again := store.Open(t.Context(), path); landfall.Is(again, landfall.Conflict) {
			t.Errorf("%s: the second try: got %v, want what the first said", name, again)
		}
	}
}

// What a process leaves that died: the files as they are, in the middle of everything.
func TestUncleanEnd(t *testing.T) {
	t.Parallel()
	t.Run("what was committed is there, what was not is not, and jobs at work run again", func(t *testing.T) {
		t.Parallel()
		path := storetest.SQLite(t)
		db, ctx := storetest.Open(t, path), t.Context()
		app := newApp(t, db, "shop")
		newRun(t, db, app, "r1", sha1, noon)
		quiet := slog.New(slog.DiscardHandler)
		started, release := make(chan string, 10), make(chan struct{})
		work(t, db, 2, quiet, func(_ context.Context, topic, id string) error {
			started <- topic + " " + id
			<-release
			return nil
		})
		update(t, db, func(tx *store.Tx) error { tx.EnqueueOnce("collect", "a", 0); return nil })
		enqueue(t, db, "run", "r1")
		receive(t, "a job", started)
		receive(t, "the other job", started)
		var copied string
		update(t, db, func(tx *store.Tx) error { // in the middle of a transaction
			if err := tx.EnsureNamespace(ctx, "half", 0); err != nil {
				return err
			}
			copied = copyFiles(t, path)
			return nil
		})
		close(release)

		after := storetest.Open(t, copied)
		testkit.Same(t, "the app", testkit.Must(after.App(ctx, app.ID))(t), app)
		half := landfall.App{ID: "h", Namespace: "default", Name: "half"} // taken if the namespace were there
		update(t, after, func(tx *store.Tx) error { return tx.CreateApp(ctx, half) })
		again := make(chan string, 10)
		work(t, after, 1, quiet, into(again))
		got := map[string]bool{receive(t, "a job that was at work", again): true,
			receive(t, "the other that was at work", again): true}
		testkit.Same(t, "what runs again", got, map[string]bool{"run r1": true, "collect a": true})
		update(t, after, func(tx *store.Tx) error { tx.EnqueueOnce("run", "after", 0); return nil })
		testkit.Same(t, "what comes then", receive(t, "a job", again), "run after")
	})
	t.Run("whenever it died, every transaction is whole", func(t *testing.T) {
		t.Parallel()
		path := storetest.SQLite(t)
		db, ctx := storetest.Open(t, path), t.Context()
		app := newApp(t, db, "shop")
		for i := range 20 {
			update(t, db, func(tx *store.Tx) error {
				app.Live = landfall.UID(fmt.Sprintf("r%07d", i))
				if err := tx.UpdateApp(ctx, app); err != nil {
					return err
				}
				return tx.CreateMove(ctx, landfall.Move{App: app.ID, Pointer: landfall.LivePointer, To: app.Live})
			})
		}
		wal := testkit.Must(os.ReadFile(path + "-wal"))(t)
		whole := testkit.Must(os.ReadFile(path))(t)
		// The log is cut where a crash may cut it: anywhere.
		for _, part := range []int{0, 1, 33, len(wal) / 3, len(wal) / 2, len(wal) - 4000, len(wal) - 1, len(wal)} {
			cut := filepath.Join(t.TempDir(), "landfall.db")
			if err := errors.Join(os.WriteFile(cut, whole, 0o600), os.WriteFile(cut+"-wal", wal[:part], 0o600)); err != nil {
				t.Fatal(err)
			}
			after := storetest.Open(t, cut)
			app, err := after.App(ctx, app.ID)
			if err != nil {
				if landfall.KindOf(err) != landfall.NotFound { // of the time before the app
					t.Errorf("the log cut at %d: %v", part, err)
				}
				continue
			}
			moves := testkit.Must(after.Moves(ctx, app.ID, landfall.LivePointer, 1))(t)
			if (len(moves) == 0 && app.Live != "") || (len(moves) > 0 && moves[0].To != app.Live) {
				t.Errorf("the log cut at %d: live is %q, and the last move %+v", part, app.Live, moves)
			}
		}
		last := testkit.Must(db.App(ctx, app.ID))(t)
		testkit.Same(t, "live in the end", last.Live, landfall.UID("r0000019"))
	})
}

// copyFiles copies a database that is open to another folder, as a crash would leave it, and returns its path.
func copyFiles(t testing.TB, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "landfall.db")
	for _, suffix := range []string{"", "-wal"} {
		data := testkit.Must(os.ReadFile(path + suffix))(t)
		if err := os.WriteFile(to+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// The migrations go down to nothing and up again to the same.
func TestMigrations(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "landfall.db")+"?_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	provider := testkit.Must(goose.NewProvider(database.DialectSQLite3, pool, os.DirFS("migrations")))(t)
	schema := func() (all []string) {
		rows := testkit.Must(pool.QueryContext(ctx, `SELECT type || ' ' || name || ' ' || COALESCE(sql, '') FROM sqlite_schema
			WHERE name NOT LIKE 'sqlite_%' AND name NOT LIKE 'goose_%' ORDER BY 1`))(t)
		defer rows.Close()
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return all
	}
	testkit.Must(provider.Up(ctx))(t)
	first := schema()
	if len(first) == 0 {
		t.Error("up: got no tables")
	}
	testkit.Must(provider.DownTo(ctx, 0))(t)
	testkit.Same(t, "down", schema(), nil)
	testkit.Must(provider.Up(ctx))(t)
	testkit.Same(t, "up again", schema(), first)
	for _, table := range first {
		name := strings.Fields(table)[1]
		if strings.HasPrefix(table, "table") && !strings.Contains(table, "PRIMARY KEY") {
			t.Errorf("the table %s has no primary key", name)
		}
	}
}

// A database that was made before is opened as it is.
func TestOpenKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "landfall.db")
	var app landfall.App
	for i := range 3 {
		db, err := store.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			app = newApp(t, db, "shop")
			enqueue(t, db, "run", "r1")
		}
		testkit.Same(t, "the app", testkit.Must(db.App(t.Context(), app.ID))(t), app)
		if i == 2 {
			done := make(chan string, 10)
			stop := work(t, db, 1, slog.New(slog.DiscardHandler), into(done))
			testkit.Same(t, "the job", receive(t, "a job", done), "run r1")
			stop()
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
