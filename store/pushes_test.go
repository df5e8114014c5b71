package store_test

import (
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testPushes(t *testing.T, open opener) {
	t.Helper()
	t.Run("a push is what was stored", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		full := landfall.Push{
			App: app.ID, Source: landfall.FromApply, Ref: "refs/landfall/apply/1", Before: sha1, After: sha2, Forced: true,
			Actor: "ada", Message: "It's done; DROP TABLE pushes", Accepted: noon,
			Apply:       &landfall.ApplyRequest{Branch: "b", Clean: true, NoRelease: true, Commit: sha3},
			PullRequest: &landfall.PullRequest{Number: 12, Base: "main", Closed: true, Fork: true}, Delivery: "d",
			ConcurrentHead: 4,
		}
		full = newPush(t, db, full)
		bare := newPush(t, db, landfall.Push{App: app.ID})
		testkit.Same(t, "a full one", testkit.Must(db.Push(ctx, full.ID))(t), full)
		testkit.Same(t, "a bare one", testkit.Must(db.Push(ctx, bare.ID))(t), bare)
		if full.ID <= 0 || bare.ID <= full.ID {
			t.Errorf("ids: got %d, then %d, want them to ascend", full.ID, bare.ID)
		}
		update(t, db, func(tx *store.Tx) error { return tx.SetConcurrentHead(ctx, bare.ID, full.ID) })
		bare.ConcurrentHead = full.ID
		testkit.Same(t, "beside another", testkit.Must(db.Push(ctx, bare.ID))(t), bare)
		testkit.Same(t, "the other", testkit.Must(db.Push(ctx, full.ID))(t), full)
		_, err := db.Push(ctx, 99)
		testkit.Kind(t, "no push", err, landfall.NotFound)
	})
	t.Run("what came after a push", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		newPush(t, db, landfall.Push{App: app.ID, Ref: mainRef, Before: sha1, After: sha2})
		newest := newPush(t, db, landfall.Push{App: app.ID, Ref: mainRef, Before: sha1, After: sha3})
		newPush(t, db, landfall.Push{App: app.ID, Ref: "refs/heads/other", Before: sha1, After: sha2})
		testkit.Same(t, "the newest", testkit.Must(db.NextPush(ctx, app.ID, mainRef, sha1))(t), newest)
		_, err := db.NextPush(ctx, app.ID, mainRef, sha3)
		testkit.Kind(t, "none", err, landfall.NotFound)
		_, err = db.NextPush(ctx, "other", mainRef, sha1)
		testkit.Kind(t, "none of the app", err, landfall.NotFound)
	})
	t.Run("how a reference came to be at a commit", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		first := newPush(t, db, landfall.Push{App: app.ID, Ref: mainRef, Before: sha1, After: sha2})
		second := newPush(t, db, landfall.Push{App: app.ID, Ref: mainRef, Before: sha3, After: sha2})
		newPush(t, db, landfall.Push{App: app.ID, Ref: "refs/heads/other", After: sha2})
		testkit.Same(t, "the newest", testkit.Must(db.PushTo(ctx, app.ID, mainRef, sha2, 99))(t), second)
		testkit.Same(t, "before that", testkit.Must(db.PushTo(ctx, app.ID, mainRef, sha2, second.ID))(t), first)
		_, err := db.PushTo(ctx, app.ID, mainRef, sha2, first.ID)
		testkit.Kind(t, "before the first", err, landfall.NotFound)
		_, err = db.PushTo(ctx, app.ID, mainRef, sha1, 99)
		testkit.Kind(t, "at another commit", err, landfall.NotFound)
	})
	t.Run("where a reference ends, as far as was heard", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app, other := newApp(t, db, "shop"), newApp(t, db, "zoo")
		wantEnd := func(what string, want ...landfall.CommitSHA) {
			t.Helper()
			var ends []landfall.CommitSHA
			for _, sha := range []landfall.CommitSHA{"", sha1, sha2, sha3} {
				if testkit.Must(db.EndsAt(ctx, app.ID, mainRef, sha))(t) {
					ends = append(ends, sha)
				}
			}
			testkit.Same(t, what, ends, want)
		}
		wantEnd("nothing was told")
		newPush(t, db, landfall.Push{App: app.ID, Ref: mainRef, After: sha1})
		newPush(t, db, landfall.Push{App: app.ID, Ref: mainRef, Before: sha2, After: sha1})
		newPush(t, db, landfall.Push{App: app.ID, Ref: mainRef, After: sha3, PullRequest: &landfall.PullRequest{Number: 12}})
		newPush(t, db, landfall.Push{App: app.ID, Ref: "refs/heads/other", Before: sha2, After: sha3})
		newPush(t, db, landfall.Push{App: other.ID, Ref: mainRef, Before: sha2, After: sha3})
		wantEnd("made, and pushed back from an unknown place")
		newPush(t, db, landfall.Push{App: app.ID, Ref: mainRef, Before: sha1, After: sha2})
		wantEnd("there and back", sha1)
		newPush(t, db, landfall.Push{App: app.ID, Ref: mainRef, Before: sha1, After: sha2})
		wantEnd("there again, or told twice")
		newPush(t, db, landfall.Push{App: app.ID, Ref: mainRef, Before: sha2, After: sha3})
		wantEnd("and on", sha3)
	})
	t.Run("heads", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app, other := newApp(t, db, "shop"), newApp(t, db, "zoo")
		set := func(app landfall.App, ref landfall.RefName, after landfall.CommitSHA) store.Head {
			p := newPush(t, db, landfall.Push{App: app.ID, Ref: ref, After: after})
			update(t, db, func(tx *store.Tx) error { return tx.SetHead(t.Context(), p) })
			return store.Head{Ref: ref, Push: p.ID, SHA: after}
		}
		_, err := db.Head(ctx, app.ID, mainRef)
		testkit.Kind(t, "no head", err, landfall.NotFound)
		set(app, mainRef, sha1)
		set(other, mainRef, sha3)
		second, first := set(app, mainRef, sha2), set(app, "refs/heads/a", "")
		testkit.Same(t, "one", testkit.Must(db.Head(ctx, app.ID, mainRef))(t), second)
		testkit.Same(t, "all", testkit.Must(db.Heads(ctx, app.ID))(t), []store.Head{first, second})
	})
	t.Run("pull requests", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "shop")
		put := func(p store.PullRequest) {
			update(t, db, func(tx *store.Tx) error { return tx.PutPullRequest(t.Context(), app.ID, p, noon) })
		}
		open := store.PullRequest{Number: 12, Base: "main", HeadRef: "refs/heads/f", HeadSHA: sha1, Open: true}
		put(open)
		// closed
		put(store.PullRequest{Number: 13, Base: "main", HeadRef: "refs/heads/f", HeadSHA: sha1})
		// another repository's
		put(store.PullRequest{Number: 14, Base: "main", HeadRef: "refs/heads/f", HeadSHA: sha1, Open: true, Fork: true})
		// another branch's
		put(store.PullRequest{Number: 15, Base: "main", HeadRef: "refs/heads/g", HeadSHA: sha1, Open: true})
		testkit.Same(t, "of a branch", testkit.Must(db.OpenPullRequests(ctx, app.ID, "refs/heads/f"))(t),
			[]store.PullRequest{open})
		open.Base, open.HeadSHA = "dev", sha2
		put(open)
		first := store.PullRequest{Number: 2, Base: "main", HeadRef: "refs/heads/f", HeadSHA: sha2, Open: true}
		put(first)
		testkit.Same(t, "changed", testkit.Must(db.OpenPullRequests(ctx, app.ID, "refs/heads/f"))(t),
			[]store.PullRequest{first, open})
		open.Open = false
		put(open)
		testkit.Same(t, "closed", testkit.Must(db.OpenPullRequests(ctx, app.ID, "refs/heads/f"))(t),
			[]store.PullRequest{first})
	})
}
