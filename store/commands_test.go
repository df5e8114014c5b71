package store_test

import (
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/testkit"
)

func testCommands(t *testing.T, open opener) {
	t.Helper()
	shop := landfall.GitHubRepository{ID: 1, Owner: "o", Name: "shop"}
	asked := func(number int, comment int64) landfall.Command {
		return landfall.Command{
			Kind: landfall.CommentCommand, Repository: shop, Apps: []landfall.CommandApp{{ID: "a", Head: sha1}, {ID: "b"}}, Number: number, Comment: comment,
			Sender: landfall.GitHubUser{ID: 7, Login: "ada"}, Data: `["retry"]`, Delivery: "d", Received: noon,
		}
	}
	db, ctx := open(t), t.Context()
	box := store.Commands{DB: db}
	due := func(seconds int) (ids []int64) {
		for _, c := range testkit.Must(box.Due(ctx, after(seconds), 10))(t) {
			ids = append(ids, c.ID)
		}
		return ids
	}
	answer := func(c landfall.Command) {
		t.Helper()
		update(t, db, func(tx *store.Tx) error { return tx.AnswerCommand(ctx, c) })
	}
	for comment := range 6 {
		update(t, db, func(tx *store.Tx) error { return tx.CreateCommand(ctx, asked(12, int64(comment+1))) })
	}
	update(t, db, func(tx *store.Tx) error { return tx.CreateCommand(ctx, asked(13, 9)) })
	first := asked(12, 1)
	first.ID, first.NextAt = 1, noon
	testkit.Same(t, "as stored", testkit.Must(db.Command(ctx, 1))(t), first)
	testkit.Same(t, "due before they came", due(-1), nil)
	testkit.Same(t, "due", due(0), []int64{1, 2, 3, 4, 5, 6, 7})
	if err := box.Postpone(ctx, first, after(60), "down"); err != nil {
		t.Fatal(err)
	}
	testkit.Same(t, "due while one waits", due(59), []int64{2, 3, 4, 5, 6, 7})

	// One app of two has obeyed.
	first.Apps, first.Answer, first.Reaction = first.Apps[1:], "a: done", landfall.ReactionDone
	answer(first)
	first.NextAt = after(60)
	testkit.Same(t, "half obeyed", testkit.Must(db.Command(ctx, 1))(t), first)
	first.Apps, first.Obeyed = []landfall.CommandApp{}, true
	answer(first)
	testkit.Same(t, "due for its reaction", due(60)[0], int64(1))
	if err := box.Reacted(ctx, first, "gone"); err != nil {
		t.Fatal(err)
	}
	testkit.Same(t, "due when all is done", due(60), []int64{2, 3, 4, 5, 6, 7})

	// The last answers are kept, and what is not done.
	for _, id := range []int64{2, 3, 4, 5} {
		c := testkit.Must(db.Command(ctx, id))(t)
		c.Obeyed, c.Answer = true, "done"
		if id == 4 {
			c.Answer = ""
		}
		answer(c)
	}
	var kept []int64
	for _, c := range testkit.Must(db.CommandsOf(ctx, shop, 12))(t) {
		kept = append(kept, c.ID)
	}
	testkit.Same(t, "kept", kept, []int64{2, 3, 5, 6})
	testkit.Same(t, "of another pull request", len(testkit.Must(db.CommandsOf(ctx, shop, 13))(t)), 1)
	_, err := db.Command(ctx, 4)
	testkit.Kind(t, "without an answer", err, landfall.NotFound)

	// The command of a comment is for each app once.
	var taken []bool
	for _, of := range []struct {
		comment int64
		app     string
	}{{1, "a"}, {1, "b"}, {1, "a"}, {2, "a"}} {
		update(t, db, func(tx *store.Tx) error {
			app := landfall.App{Name: of.app, GitHub: shop}
			taken = append(taken, testkit.Must(tx.TakeComment(ctx, app, of.comment))(t))
			return nil
		})
	}
	testkit.Same(t, "taken", taken, []bool{true, true, false, true})
}
