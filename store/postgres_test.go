package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

// PostgreSQL, on a real server.
func TestPostgres(t *testing.T) {
	t.Parallel()
	suite(t, func(t *testing.T) *store.DB {
		t.Helper()
		db := storetest.Open(t, storetest.Postgres(t))
		o := own(t, db)
		receive(t, "ownership", o.owned)
		t.Cleanup(func() {
			o.stop()
			<-o.ended
		})
		return db
	})
}

// Two processes on one database: what one has checked in a transaction stays true until it commits.
func TestPostgresProcesses(t *testing.T) {
	t.Parallel()
	const each = 50
	address := storetest.Postgres(t)
	a, b := storetest.Open(t, address), storetest.Open(t, address)
	app := newApp(t, a, "shop")
	var group sync.WaitGroup
	for _, db := range []*store.DB{a, b} {
		group.Go(func() {
			for range each {
				update(t, db, func(tx *store.Tx) error {
					app, err := tx.App(t.Context(), app.ID)
					if err != nil {
						return err
					}
					app.Policy.Keep++
					return tx.UpdateApp(t.Context(), app)
				})
			}
		})
	}
	group.Wait()
	testkit.Same(t, "how often it was counted", testkit.Must(a.App(t.Context(), app.ID))(t).Policy.Keep, 2*each)
}

// What one process changes the others hear of at once, also after their connection was lost.
func TestPostgresNotices(t *testing.T) {
	t.Parallel()
	address := storetest.Postgres(t)
	line := storetest.NewProxy(t, address)
	a, b := storetest.Open(t, address), storetest.Open(t, line.URL)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard, lost := make(chan string, 100), make(chan error, 100)
	listen := func() {
		changed := func(c landfall.AppChange) { heard <- fmt.Sprint(c.Number, c.App) }
		lost <- b.Notices(ctx, func() { heard <- "listening" }, changed)
	}
	change := func() { update(t, a, func(tx *store.Tx) error { return second(tx.Changed(t.Context(), "shop-id")) }) }
	go listen()
	testkit.Same(t, "what is heard at the start", receive(t, "the start", heard), "listening")
	change()
	testkit.Same(t, "notice", receive(t, "a notice", heard), "1shop-id")
	line.Cut()
	testkit.Kind(t, "when the connection is lost", receive(t, "the end of Notices", lost), landfall.Unavailable)
	change()
	go func() {
		for ctx.Err() == nil { // a pool may hold more connections that were lost
			listen()
		}
		close(lost)
	}()
	testkit.Same(t, "what stands for what was lost", receive(t, "another start", heard), "listening")
	cancel()
	var last error
	for err := range lost {
		last = err
	}
	testkit.Kind(t, "when the context ends", last, landfall.Canceled)
}

// lostCommit is a way in which what became of a commit stays unsaid.
type lostCommit struct {
	name   string
	before bool // the commit does not arrive
}

func lostCommits() []lostCommit {
	return []lostCommit{{"the commit did not arrive", true}, {"the answer did not arrive", false}}
}

// A connection that is lost at the commit leaves no doubt: the database is asked what became of the transaction.
func TestPostgresLostCommit(t *testing.T) {
	t.Parallel()
	for _, test := range lostCommits() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			line := storetest.NewProxy(t, storetest.Postgres(t))
			db := storetest.Open(t, line.URL)
			app := newApp(t, db, "shop")
			line.CutAtCommit(test.before)
			err := db.Update(t.Context(), func(tx *store.Tx) error {
				return tx.CreateMove(t.Context(), landfall.Move{App: app.ID, Pointer: landfall.LivePointer,
					To: "aaaaaaaa", At: noon})
			})
			want := 1
			if test.before {
				want = 0
				testkit.Kind(t, "the transaction", err, landfall.Unavailable)
			} else if err != nil {
				t.Errorf("the transaction: got %v, want none: it was committed", err)
			}
			if !line.WasCut() {
				t.Error("the connection was not cut at the commit")
			}
			testkit.Same(t, "moves that are there", len(testkit.Must(db.Moves(t.Context(), app.ID, "", 10))(t)), want)
		})
	}
}

// A server that crashes forgets transactions, and gives their numbers to others: what became of one of those is not
// what became of ours.
func TestPostgresCrashBeforeCommit(t *testing.T) {
	t.Parallel()
	server := storetest.NewServer(t)
	db := storetest.Open(t, server.URL)
	app := newApp(t, db, "shop")
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		err := tx.CreateMove(t.Context(), landfall.Move{App: app.ID, Pointer: landfall.LivePointer, To: "aaaaaaaa", At: noon})
		server.Restart(true)
		for range 10 { // that number among them
			newApp(t, storetest.Open(t, server.URL), "another"+rand.Text())
		}
		return err
	})
	testkit.Kind(t, "the transaction that was forgotten", err, landfall.Unavailable)
	testkit.Same(t, "moves that are there", len(testkit.Must(db.Moves(t.Context(), app.ID, "", 10))(t)), 0)
}

// A database is one process's: another one is told so, and has it once the first is gone, however that ended.
func TestPostgresOwn(t *testing.T) {
	t.Parallel()
	address := storetest.Postgres(t)
	line := storetest.NewProxy(t, address)
	first, second := storetest.Open(t, line.URL), storetest.Open(t, address)
	own := func(db *store.DB, events chan string, name string) (ended chan error) {
		ended = make(chan error, 1)
		go func() { ended <- db.Lead(t.Context(), func() { events <- name }) }()
		return ended
	}
	events := make(chan string, 10)
	ended := own(first, events, "first")
	testkit.Same(t, "the owner", receive(t, "the first", events), "first")
	testkit.Kind(t, "the second", receive(t, "its end", own(second, events, "second")), landfall.Conflict,
		"another landfall process uses this database")
	line.Cut()
	testkit.Same(t, "the owner after its connection was lost", receive(t, "the first again", events), "first")
	line.Close()
	third := own(second, events, "third")
	testkit.Same(t, "the owner after the first is gone", receive(t, "the third", events), "third")
	select {
	case err := <-ended:
		t.Errorf("the first gave up with %v although it cannot know", err)
	case err := <-third:
		t.Errorf("the third gave up with %v", err)
	default:
	}
}

// A database that is set to another isolation changes nothing.
func TestPostgresIsolation(t *testing.T) {
	t.Parallel()
	const each = 20
	address := storetest.Postgres(t) + "&default_transaction_isolation=repeatable%20read"
	a, b := storetest.Open(t, address), storetest.Open(t, address)
	app := newApp(t, a, "shop")
	var group sync.WaitGroup
	for _, db := range []*store.DB{a, b} {
		group.Go(func() {
			for range each {
				update(t, db, func(tx *store.Tx) error {
					app, err := tx.App(t.Context(), app.ID)
					app.Policy.Keep++
					return errors.Join(err, tx.UpdateApp(t.Context(), app))
				})
			}
		})
	}
	group.Wait()
	testkit.Same(t, "how often it was counted", testkit.Must(a.App(t.Context(), app.ID))(t).Policy.Keep, 2*each)
}

// What a process was killed at is at work again as soon as it is back; what others are at stays theirs.
func TestPostgresUncleanEnd(t *testing.T) {
	t.Parallel()
	address := storetest.Postgres(t)
	quiet := slog.New(slog.DiscardHandler)
	started := make(chan string, 10)
	block := make(chan struct{})
	queue := func(process string, db *store.DB, work func(context.Context, string, string) error) (kill func()) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		ended := make(chan error, 1)
		q := store.Queue{DB: db, Process: process, Queues: map[string]int{"": 1}, Logger: quiet, Work: work}
		go func() { ended <- q.Run(ctx) }()
		return func() {
			cancel()
			_ = receive(t, "the end of a queue", ended)
		}
	}
	hang := func(name string) func(context.Context, string, string) error {
		return func(_ context.Context, _, id string) error {
			started <- name + " " + id
			<-block
			return nil
		}
	}
	line := storetest.NewProxy(t, address)
	dying, other := storetest.Open(t, line.URL), storetest.Open(t, address)
	kill := queue("one", dying, hang("dying"))
	update(t, other, func(tx *store.Tx) error { tx.EnqueueOnce("run", "a", 0); return nil })
	testkit.Same(t, "at work", receive(t, "a job", started), "dying a")
	killOther := queue("two", other, hang("other"))
	update(t, other, func(tx *store.Tx) error { tx.EnqueueOnce("run", "b", 0); return nil })
	testkit.Same(t, "at work", receive(t, "a job", started), "other b")
	line.Close() // the process is dead as far as the database can tell
	back := storetest.Open(t, address)
	killBack := queue("one", back, func(_ context.Context, _, id string) error {
		started <- "back " + id
		return nil
	})
	testkit.Same(t, "at work again", receive(t, "a job", started), "back a")
	update(t, other, func(tx *store.Tx) error { tx.EnqueueOnce("run", "b", 0); return nil })
	update(t, other, func(tx *store.Tx) error { tx.EnqueueOnce("run", "c", 0); return nil })
	testkit.Same(t, "what comes then", receive(t, "a job", started), "back c")
	close(block)
	killBack()
	killOther()
	kill()
}

// A process that stops in the middle of a transaction does not hold up the others for long, and changes nothing.
func TestPostgresPausedTransaction(t *testing.T) {
	t.Parallel()
	address := storetest.Postgres(t)
	paused, other := storetest.Open(t, address+"&idle_in_transaction_session_timeout=200"), storetest.Open(t, address)
	app := newApp(t, other, "shop")
	inside, resume := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- paused.Update(t.Context(), func(tx *store.Tx) error {
			app := app
			app.Live = "paused00"
			if err := tx.UpdateApp(t.Context(), app); err != nil {
				return err
			}
			close(inside)
			<-resume
			return nil
		})
	}()
	<-inside
	update(t, other, func(tx *store.Tx) error {
		app, err := tx.App(t.Context(), app.ID)
		if err != nil {
			return err
		}
		app.Live = "other000"
		return tx.UpdateApp(t.Context(), app)
	})
	close(resume)
	testkit.Kind(t, "the transaction that was paused", receive(t, "its end", ended), landfall.Unavailable)
	testkit.Same(t, "live", testkit.Must(other.App(t.Context(), app.ID))(t).Live, landfall.UID("other000"))
}

// A database that cannot be used is told in one sentence: the setting to change, and the cause, without the password.
func TestPostgresOpenFails(t *testing.T) {
	t.Parallel()
	good := testkit.Must(url.Parse(storetest.Postgres(t)))(t)
	const setting = "LANDFALL_DATABASE"
	for name, test := range map[string]struct {
		change func(u *url.URL)
		kind   landfall.Kind
		words  []string
	}{
		"another database": {func(u *url.URL) { u.Path = "/absent" }, landfall.Invalid,
			[]string{setting, `"absent" does not exist`,
				"create it: createdb --host 127.0.0.1 --port " + good.Port() + " --username landfall absent"}},
		"another password": {func(u *url.URL) {
			u.User = url.UserPassword(storetest.LockedUser, "open-sesame")
		}, landfall.Invalid,
			[]string{setting, "password authentication failed", "PGPASSFILE"}},
		"another user": {func(u *url.URL) {
			u.User = url.UserPassword("absent", "open-sesame")
		}, landfall.Invalid, []string{setting, `"absent" does not exist`}},
		"another host": {func(u *url.URL) {
			u.Host = strings.Repeat("x", 64) + ".example.com"
		}, landfall.Invalid, []string{setting, "no such host"}},
		"nobody there": {func(u *url.URL) {
			u.Host = "127.0.0.1:1"
		}, landfall.Unavailable, []string{setting, "connection refused"}},
		"nobody at any host": {func(u *url.URL) { u.Host = "127.0.0.1:1,127.0.0.1:2" }, landfall.Unavailable,
			[]string{setting, "127.0.0.1:1 and 127.0.0.1:2", "connection refused"}},
		"another password at the second host": {func(u *url.URL) {
			u.User, u.Host = url.UserPassword(storetest.LockedUser, "open-sesame"), "127.0.0.1:1,"+u.Host
		}, landfall.Invalid, []string{setting, "password authentication failed"}},
		"no port": {func(u *url.URL) {
			u.RawQuery = "port=x"
		}, landfall.Invalid, []string{setting, "right would be postgres://"}},
	} {
		u := *good
		u.User = url.UserPassword("landfall", "open-sesame")
		test.change(&u)
		db, err := store.Open(t.Context(), u.String())
		if err == nil {
			t.Errorf("%s: got no error", name)
			_ = db.Close()
			continue
		}
		testkit.Kind(t, name, err, test.kind)
		for _, word := range test.words {
			if text := landfall.MessageOf(err); strings.Count(text, word) != 1 || strings.Contains(text, "\n") {
				t.Errorf("%s: got %q, want one sentence with %q once", name, text, word)
			}
		}
		if strings.Contains(fmt.Sprint(err), "sesame") {
			t.Errorf("%s: the password stands in %q", name, err)
		}
	}
}

// What answers as a database may be anything: a refusal without a code is a refusal.
func TestPostgresRefusalWithoutCode(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1000))
			_, _ = io.WriteString(conn, "E\x00\x00\x00\x0eMgo away\x00\x00")
			_ = conn.Close()
		}
	}()
	_, err = store.Open(t.Context(), "postgres://u@"+listener.Addr().String()+"/x?sslmode=disable")
	if err == nil || !strings.Contains(landfall.MessageOf(err), "go away") {
		t.Errorf("got %v, want what the server said", err)
	}
}
