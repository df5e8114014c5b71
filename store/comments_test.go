package store_test

import (
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testComments(t *testing.T, open opener) {
	t.Helper()
	shop, zoo := landfall.GitHubRepository{ID: 1, Owner: "o", Name: "shop"},
		landfall.GitHubRepository{ID: 1, Owner: "o", Name: "zoo"}
	want := func(t *testing.T, db *store.DB, r landfall.GitHubRepository, number int, at time.Time) {
		t.Helper()
		update(t, db, func(tx *store.Tx) error { return tx.WantComment(t.Context(), r, number, at) })
	}
	t.Run("the outbox", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		box := store.Comments{DB: db}
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		due := func(at time.Time, limit int) (numbers []int) {
			for _, c := range testkit.Must(box.Due(ctx, at, limit))(t) {
				numbers = append(numbers, c.Number)
			}
			return numbers
		}
		_, err := db.Comment(ctx, shop, 12)
		testkit.Kind(t, "none", err, landfall.NotFound)
		want(t, db, shop, 12, noon)
		want(t, db, shop, 7, after(2))
		want(t, db, shop, 12, after(1))
		first := landfall.Comment{Repository: shop, Number: 12, Owed: landfall.Owed{Wanted: 2, NextAt: after(1)}}
		testkit.Same(t, "as stored", testkit.Must(db.Comment(ctx, shop, 12))(t), first)
		testkit.Same(t, "due before their time", due(noon, 10), nil)
		testkit.Same(t, "due", due(after(2), 10), []int{12, 7})
		testkit.Same(t, "due: not more than asked for", due(after(2), 1), []int{12})

		told := first
		told.ID, told.Body = 5, "sha256:x"
		want(t, db, shop, 12, after(1))
		do(box.MarkWritten(ctx, told))
		testkit.Same(t, "due when more happened while it was told", due(after(2), 10), []int{12, 7})
		// Somebody may have edited it meanwhile.
		testkit.Same(t, "its text at the forge", testkit.Must(db.Comment(ctx, shop, 12))(t).Body, landfall.Digest(""))
		told.Wanted = 3
		do(box.MarkWritten(ctx, told))
		testkit.Same(t, "due when all is told", due(after(2), 10), []int{7})
		told.Covered = 3
		testkit.Same(t, "as told", testkit.Must(db.Comment(ctx, shop, 12))(t), told)

		want(t, db, shop, 12, after(3))
		do(box.Postpone(ctx, told, after(60), "down"))
		want(t, db, shop, 12, after(4))
		testkit.Same(t, "due while it waits: what happens does not hurry it", due(after(59), 10), []int{7})
		got := testkit.Must(box.Due(ctx, after(60), 10))(t)[1]
		if got.Attempts != 1 || got.Problem != "down" || got.ID != 5 || got.Wanted != 5 || got.Covered != 3 {
			t.Errorf("the postponed comment: got %+v, want 1 attempt, its problem, and what it was", got)
		}
		do(box.Drop(ctx, got, "gone"))
		testkit.Same(t, "due when one is dropped", due(after(60), 10), []int{7})
		want(t, db, shop, 12, after(5))
		if got := testkit.Must(db.Comment(ctx, shop, 12))(t); got.Dropped || got.Attempts != 0 {
			t.Errorf("something happened again: got %+v, want a comment that is owed, and no attempt", got)
		}
	})
	t.Run("when the base moves", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app := newApp(t, db, "based")
		app.GitHub = shop
		box := store.Comments{DB: db}
		told := func(number int) {
			t.Helper()
			c := testkit.Must(db.Comment(ctx, shop, number))(t)
			c.ID, c.Attempts, c.NextAt = int64(number), 0, noon
			if err := box.MarkWritten(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
		for number, p := range map[int]store.PullRequest{
			1: {Base: "main", Open: true}, 2: {Base: "main", Open: true}, 3: {Base: "release", Open: true}, 4: {Base: "main"},
			5: {Base: "main", Open: true}, // not told yet
		} {
			p.Number, p.HeadRef = number, "refs/heads/f"
			update(t, db, func(tx *store.Tx) error { return tx.PutPullRequest(ctx, app.ID, p, after(number)) })
			want(t, db, shop, number, noon)
			if number != 5 {
				told(number)
			}
		}
		owed := func(seconds int) (numbers []int) {
			for _, c := range testkit.Must(box.Due(ctx, after(seconds), 10))(t) {
				numbers = append(numbers, c.Number)
			}
			return numbers
		}
		renew := func(seconds int) {
			t.Helper()
			update(t, db, func(tx *store.Tx) error {
				return tx.RenewComments(ctx, app, "main", after(seconds), time.Minute)
			})
		}
		renew(0)
		renew(30) // it changes nothing for what is owed already
		testkit.Same(t, "at first", owed(59), []int{5})
		testkit.Same(t, "after a minute", owed(60), []int{5, 2})
		testkit.Same(t, "after two", owed(120), []int{5, 2, 1})
		want(t, db, shop, 1, after(61))
		testkit.Same(t, "there is news of one", owed(61), []int{5, 2, 1})
		told(2)
		renew(200)
		testkit.Same(t, "renewed again", owed(259), []int{5, 1})
		testkit.Same(t, "renewed again, a minute later", owed(260), []int{5, 1, 2})
	})
	t.Run("two repositories have nothing in common, whatever their ids", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		want(t, db, shop, 12, noon)
		want(t, db, zoo, 12, noon)
		c := testkit.Must(db.Comment(ctx, zoo, 12))(t)
		c.ID = 9
		if err := (store.Comments{DB: db}).MarkWritten(ctx, c); err != nil {
			t.Fatal(err)
		}
		testkit.Same(t, "the other one", testkit.Must(db.Comment(ctx, shop, 12))(t),
			landfall.Comment{Repository: shop, Number: 12, Owed: landfall.Owed{Wanted: 1, NextAt: noon}})
	})
	t.Run("the pull requests whose head a commit is", func(t *testing.T) {
		t.Parallel()
		db, ctx := open(t), t.Context()
		app, other := newApp(t, db, "shop"), newApp(t, db, "zoo")
		put := func(app landfall.App, p store.PullRequest) {
			p.Base = "main"
			update(t, db, func(tx *store.Tx) error { return tx.PutPullRequest(t.Context(), app.ID, p, noon) })
		}
		put(app, store.PullRequest{Number: 1, HeadRef: "refs/heads/f", HeadSHA: sha1, Open: true})
		put(app, store.PullRequest{Number: 2, HeadRef: "refs/heads/g", HeadSHA: sha2, Open: true}) // its branch went on
		put(app, store.PullRequest{Number: 3, HeadRef: "refs/heads/f", HeadSHA: sha1})             // closed
		put(app, store.PullRequest{Number: 4, HeadRef: "refs/heads/f", HeadSHA: sha1, Open: true, Fork: true})
		put(other, store.PullRequest{Number: 5, HeadRef: "refs/heads/f", HeadSHA: sha1, Open: true})
		push := newPush(t, db, landfall.Push{App: app.ID, Ref: "refs/heads/g", After: sha1})
		update(t, db, func(tx *store.Tx) error { return tx.SetHead(t.Context(), push) })
		testkit.Same(t, "at the first", testkit.Must(db.PullRequestsAt(ctx, app.ID, sha1))(t), []int{1, 2})
		testkit.Same(t, "at the second", testkit.Must(db.PullRequestsAt(ctx, app.ID, sha2))(t), []int{2})
		testkit.Same(t, "at another", testkit.Must(db.PullRequestsAt(ctx, app.ID, sha3))(t), nil)
		testkit.Same(t, "one", testkit.Must(db.PullRequest(ctx, app.ID, 2))(t),
			store.PullRequest{Number: 2, Base: "main", HeadRef: "refs/heads/g", HeadSHA: sha2, Open: true})
		_, err := db.PullRequest(ctx, app.ID, 5)
		testkit.Kind(t, "another app's", err, landfall.NotFound)
	})
}
