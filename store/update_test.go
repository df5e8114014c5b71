package store_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testUpdate(t *testing.T, open opener) {
	t.Helper()
	t.Run("a transaction is visible whole, or not at all", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		failed := errors.New("no")
		app := fullApp("shop")
		err := db.Update(ctx, func(tx *store.Tx) error {
			if err := tx.EnsureNamespace(ctx, "default", 0); err != nil {
				return err
			}
			if err := tx.CreateApp(ctx, app); err != nil {
				return err
			}
			if _, err := tx.AppByName(ctx, "shop"); err != nil {
				t.Errorf("within the transaction: %v", err)
			}
			if _, err := db.AppByName(ctx, "shop"); err == nil {
				t.Error("a reader sees the app before the commit")
			}
			if _, err := tx.Changed(ctx, "shop-id"); err != nil {
				return err
			}
			return failed
		})
		if !errors.Is(err, failed) {
			t.Errorf("Update: got the error %v, want the function's", err)
		}
		_, err = db.AppByName(ctx, "shop")
		testkit.Kind(t, "after the rollback", err, landfall.NotFound, "shop")
		testkit.Same(t, "Changes", testkit.Must(db.Changes(ctx))(t), 0)
		newApp(t, db, "shop") // the connection is free, and the name too
	})
	t.Run("a transaction that was cancelled is undone", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		err := db.Update(ctx, func(tx *store.Tx) error {
			if err := tx.EnsureNamespace(ctx, "team", 0); err != nil {
				return err
			}
			cancel()
			return nil
		})
		testkit.Kind(t, "Update", err, landfall.Canceled)
		testkit.Kind(t, "a cancelled read", ignore(db.Apps(ctx)), landfall.Canceled)
		testkit.Kind(t, "an update that begins too late", db.Update(ctx, func(*store.Tx) error {
			return nil
		}), landfall.Canceled)
		app := landfall.App{ID: "a", Namespace: "default", Name: "team"} // would be taken
		update(t, db, func(tx *store.Tx) error { return tx.EnsureNamespace(t.Context(), "default", 0) })
		update(t, db, func(tx *store.Tx) error { return tx.CreateApp(t.Context(), app) })
	})
	t.Run("those who share a transaction fail alone", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		const functions = 200
		failed := errors.New("failed")
		var group errgroup.Group
		for i := range functions {
			group.Go(func() error {
				name := fmt.Sprintf("app%d", i)
				taken := i%10 == 7 // its second statement is one that the database refuses
				err := db.GroupCommit(ctx, func(ctx context.Context, tx *store.Tx) error {
					if err := tx.EnsureNamespace(ctx, "default", 0); err != nil {
						return err
					}
					if err := tx.CreateApp(ctx, landfall.App{ID: name, Namespace: "default", Name: name}); err != nil {
						return err
					}
					if taken {
						return tx.CreateApp(ctx, landfall.App{ID: name, Namespace: "default", Name: name + "-again"})
					}
					if i%10 == 8 {
						return failed
					}
					return second(tx.Changed(ctx, name))
				})
				switch {
				case taken && landfall.KindOf(err) != landfall.Conflict:
					return fmt.Errorf("an app with an id that is taken: %w", err)
				case i%10 == 8 && !errors.Is(err, failed):
					return fmt.Errorf("got %w, want the function's own error", err)
				case i%10 < 7 && err != nil:
					return err
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, app := range testkit.Must(db.Apps(ctx))(t) {
			names = append(names, app.Name)
		}
		var want []string
		for i := range functions {
			if i%10 != 7 && i%10 != 8 {
				want = append(want, fmt.Sprintf("app%d", i))
			}
		}
		slices.Sort(want)
		slices.Sort(names)
		testkit.Same(t, "the apps of those that did not fail", names, want)
		testkit.Same(t, "what they noted", testkit.Must(db.Changes(ctx))(t), int64(len(want)))
		newApp(t, db, "shop") // the connection is free
	})
	t.Run("one who shares a transaction and went away changes nothing", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		gone := func(ctx context.Context, tx *store.Tx) error { return tx.EnsureNamespace(ctx, "team", 0) }
		testkit.Kind(t, "Together", db.GroupCommit(ctx, gone), landfall.Canceled)
		testkit.Kind(t, "a closed database", func() error {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			return db.GroupCommit(t.Context(), gone)
		}(), landfall.Internal)
	})
	t.Run("one who never returns keeps nobody from the next transaction", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		for _, update := range []func(func()) error{
			func(f func()) error { return db.Update(ctx, func(*store.Tx) error { f(); return nil }) },
			func(f func()) error {
				return db.GroupCommit(ctx, func(context.Context, *store.Tx) error { f(); return nil })
			},
		} {
			over := make(chan struct{})
			go func() {
				defer close(over)
				_ = update(runtime.Goexit) // as a panic does, which a server survives
			}()
			<-over
			if err := update(func() {}); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("one who never returns after another one failed is told of as such", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		together := func(f func() error) <-chan error {
			ended, waiting := make(chan error, 1), db.Gathered()
			go func() { ended <- db.GroupCommit(ctx, func(context.Context, *store.Tx) error { return f() }) }()
			for db.Gathered() == waiting {
				runtime.Gosched()
			}
			return ended
		}
		begun, gathered := make(chan bool), make(chan bool)
		go func() {
			_ = db.GroupCommit(ctx, func(context.Context, *store.Tx) error {
				close(begun)
				<-gathered
				return nil
			})
		}()
		<-begun
		together(func() error { return errors.New("failed") }) // it leads, and ends with the next one
		never := together(func() error { runtime.Goexit(); return nil })
		with := together(func() error { return nil })
		close(gathered)
		for _, ended := range []<-chan error{never, with} {
			testkit.Kind(t, "who shares the transaction", <-ended, landfall.Internal, "did not end")
		}
	})
	t.Run("counters ascend in the order of commits, without gaps", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		testkit.Same(t, "at first", testkit.Must(db.Changes(ctx))(t), 0)
		app := newApp(t, db, "shop")
		const workers, times = 4, 10
		var group errgroup.Group
		for range workers {
			group.Go(func() error {
				for range times {
					if err := db.Update(ctx, func(tx *store.Tx) error { return second(tx.Changed(ctx, "shop-id")) }); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "at the end", testkit.Must(db.Changes(ctx))(t), workers*times)
		update(t, db, func(tx *store.Tx) error { return second(tx.Changed(ctx, app.ID)) })
		testkit.Same(t, "what changed last", testkit.Must(db.ChangesSince(ctx, workers*times))(t),
			[]landfall.AppChange{{Number: workers*times + 1, App: app.ID}})
		testkit.Same(t, "what changed since", len(testkit.Must(db.ChangesSince(ctx, workers*times+1))(t)), 0)
	})
	// Writers move two rows of one app together; whoever reads sees both before, or both after, and never waits for
	// them.
	t.Run("readers see before or after", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		move := func(i int) error {
			return db.Update(ctx, func(tx *store.Tx) error {
				uid := landfall.UID(fmt.Sprintf("r%07d", i))
				app.Live = uid
				if err := tx.UpdateApp(ctx, app); err != nil {
					return err
				}
				if err := tx.PutRelease(ctx, landfall.Release{ID: uid, App: app.ID, Created: after(i)}); err != nil {
					return err
				}
				return tx.CreateMove(ctx, landfall.Move{App: app.ID, Pointer: landfall.LivePointer, To: uid})
			})
		}
		const moves = 50
		done := make(chan struct{})
		var group errgroup.Group
		group.Go(func() error {
			defer close(done)
			for i := 1; i <= moves; i++ {
				if err := move(i); err != nil {
					return err
				}
			}
			return nil
		})
		for range 3 {
			group.Go(func() error {
				for seen := 0; ; {
					select {
					case <-done:
						return nil
					default:
					}
					a, err := db.App(ctx, app.ID)
					if err != nil {
						return err
					}
					if a.Live == "" {
						continue
					}
					if _, err := db.Release(ctx, app.ID, a.Live); err != nil {
						return fmt.Errorf("live names a release that is not there: %w", err)
					}
					got, err := db.Moves(ctx, app.ID, landfall.LivePointer, moves)
					if err != nil {
						return err
					}
					if len(got) < seen {
						return fmt.Errorf("saw %d moves after %d", len(got), seen)
					}
					seen = len(got)
				}
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "live at the end", testkit.Must(db.App(ctx, app.ID))(t).Live,
			landfall.UID(fmt.Sprintf("r%07d", moves)))
	})
	t.Run("a reader does not wait for a writer", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		app.Live = "aaaaaaaa"
		update(t, db, func(tx *store.Tx) error {
			if err := tx.UpdateApp(ctx, app); err != nil {
				return err
			}
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			testkit.Same(t, "live while it is moved", testkit.Must(db.App(limited, app.ID))(t).Live, "")
			testkit.Same(t, "live within the transaction", testkit.Must(tx.App(limited, app.ID))(t).Live, "aaaaaaaa")
			return nil
		})
	})
	t.Run("closing twice is safe, and what comes later fails", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		for range 2 {
			if err := db.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		if err := db.Update(ctx, func(*store.Tx) error { return nil }); err == nil {
			t.Error("Update after Close: got no error")
		}
	})
}

// ignore returns the error alone.
func ignore[T any](_ T, err error) error { return err }

func testErrors(t *testing.T, open opener) {
	t.Helper()
	t.Run("what the engine says has a kind", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		newRun(t, db, app, "r1", sha1, noon)
		for _, c := range []struct {
			name string
			do   func(tx *store.Tx) error
			want landfall.Kind
		}{
			{"a primary key again", func(tx *store.Tx) error {
				return tx.CreateRun(ctx, landfall.Run{ID: "r1", App: app.ID})
			}, landfall.Conflict},
			{"a reference to nothing", func(tx *store.Tx) error {
				return tx.CreateRun(ctx, landfall.Run{ID: "r2", App: "none"})
			}, landfall.Conflict},
			{"a unique name again", func(tx *store.Tx) error {
				if _, err := tx.CreateUnit(ctx, app, function("f")); err != nil {
					return err
				}
				_, err := tx.CreateUnit(ctx, app, function("f"))
				return err
			}, landfall.Conflict},
			{"no row", func(tx *store.Tx) error { return ignore(tx.Credentials(ctx, "none")) }, landfall.NotFound},
			{"no row by name", func(tx *store.Tx) error { return ignore(tx.AppByName(ctx, "none")) }, landfall.NotFound},
			{"a function's own error", func(*store.Tx) error {
				return &landfall.Error{Kind: landfall.Forbidden}
			}, landfall.Forbidden},
			{"an error of nobody's", func(*store.Tx) error { return errors.New("no") }, landfall.Internal},
		} {
			err := db.Update(ctx, c.do)
			testkit.Kind(t, c.name, err, c.want)
		}
		testkit.Same(t, "runs at the end", len(testkit.Must(db.Runs(ctx, app.ID, landfall.Run{}, 10))(t)), 1)
	})
	t.Run("an error names what was done", func(t *testing.T) {
		t.Parallel()
		db := open(t)
		err := ignore(db.App(t.Context(), "none"))
		if e, ok := errors.AsType[*landfall.Error](err); !ok || e.Op != "store.App" {
			t.Errorf("got %#v, want an Error of store.App", err)
		}
	})
}
