package accept_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/webhook"
)

// pushed returns a delivery of a push of main, as the door makes it of a payload.
func (s *shop) pushed(id, repository string, commit landfall.CommitSHA) webhook.Event {
	s.T.Helper()
	payload := strings.NewReplacer("COMMIT", string(commit), "NAME", repository).Replace(`{"ref": "refs/heads/main",
		"before": "0000000000000000000000000000000000000000", "after": "COMMIT", "head_commit": {"id": "COMMIT"},
		"repository": {"id": 5, "name": "NAME", "owner": {"login": "harbor"},
			"clone_url": "https://github.com/harbor/NAME.git"}}`)
	d := landfall.Delivery{ID: id, Event: "push", Received: time.Now().Truncate(time.Microsecond).UTC()}
	return testkit.Must(webhook.EventOf(d, []byte(payload)))(s.T)
}

// said is a sentence.
type said string

// String implements fmt.Stringer.
func (s said) String() string { return string(s) }

// explained returns what has to be done for a delivery.
func (s *shop) explained(d landfall.Delivery) string {
	s.T.Helper()
	return testkit.Must(s.Receiver.Explain(s.T.Context(), d))(s.T)
}

// follow makes an app of a repository.
func (s *shop) follow(name, repository string) {
	s.T.Helper()
	s.Update(func(tx *store.Tx) error {
		return tx.CreateApp(s.T.Context(), landfall.App{
			ID: name, Namespace: landfall.DefaultNamespace, Name: name, Branch: "main", UIDSpace: uuid.New(),
			Repository: "https://github.com/harbor/" + repository,
		})
	})
}

// A delivery that came before its app is judged again when somebody wants it, and does nothing twice.
func TestReplay(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	in, ctx := accept.WebhookReceiver{Acceptor: s.Receiver.Acceptor}, t.Context()
	event := s.pushed("one", "vault", s.Commit("one"))
	early, _, err := in.Accept(ctx, event)
	if err != nil || !early.Unmatched {
		t.Fatalf("got %+v and %v, want a delivery that no app has", early, err)
	}
	// L-017: it says what to do
	testkit.Contains(t, said(s.explained(early)), "landfall app create NAME --repo https://github.com/harbor/vault.git",
		"landfall app deliveries replay one")
	again := testkit.Must(in.Replay(ctx, "", "one", "ada"))(t)
	// L-017: without an app, there is nothing more to do
	if len(again.Runs) != 0 || !strings.HasSuffix(again.Decision, "(Replayed by ada.)") {
		t.Errorf("got %+v, want no run, and who wanted it", again)
	}

	s.follow("vault", "vault")
	testkit.Equal(t, "what to do", s.explained(again),
		"The app vault has this repository now: landfall app deliveries replay one makes its run.")
	made := testkit.Must(in.Replay(ctx, "", "one", "ada"))(t)
	// L-017: what came before its app makes its run
	if len(made.Runs) != 1 || made.Unmatched || !made.Received.Equal(early.Received) ||
		made.Decision != "Branch main is now at "+event.Push.After.Short()+". (Replayed by ada.)" {
		t.Errorf("got %+v, want a run", made)
	}
	testkit.Equal(t, "what to do then", s.explained(made), "")
	twice := testkit.Must(in.Replay(ctx, "", "one", "ada"))(t)
	// S7: what has a run is not run again, whoever wants it
	testkit.Equal(t, "the run", strings.Join(twice.Runs, " "), strings.Join(made.Runs, " "))
	_, repeat, err := in.Accept(ctx, event)
	if err != nil || !repeat {
		t.Errorf("a redelivery: got %t and %v, want a repeat", repeat, err)
	}

	s.follow("cellar", "vault")
	more := testkit.Must(in.Replay(ctx, "", "one", "ada"))(t)
	// L-017: an app that came later gets its run, and the first one no other
	if len(more.Runs) != 2 || more.Runs[0] != made.Runs[0] {
		t.Errorf("got the runs %q, want %q and another", more.Runs, made.Runs)
	}
	listed := testkit.Must(s.Receiver.DB.DeliveriesOf(ctx, "cellar", "", landfall.Delivery{}, 9))(t)
	testkit.Equal(t, "deliveries for the new app", len(listed), 1)
	_, err = in.Replay(ctx, "", "two", "ada")
	testkit.Kind(t, "no such delivery", err, landfall.NotFound)
}

// What a delivery said is gone after some days, and then that is said.
func TestReplayTooLate(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	in, ctx := accept.WebhookReceiver{Acceptor: s.Receiver.Acceptor}, t.Context()
	d, _, err := in.Accept(ctx, s.pushed("one", "vault", s.Commit("one")))
	if err != nil {
		t.Fatal(err)
	}
	s.Update(func(tx *store.Tx) error {
		_, err := tx.ForgetPayloads(ctx, time.Now().Add(time.Hour), 9)
		return err
	})
	_, err = in.Replay(ctx, "", "one", "ada")
	testkit.Kind(t, "replayed", err, landfall.NotFound)
	// L-017: what can be done instead is said
	testkit.Contains(t, said(landfall.MessageOf(err)), "is not kept any more", "push")
	testkit.Equal(t, "explained", s.explained(d), landfall.MessageOf(err))
}

// A command is not obeyed long after it was given, in an app that came since.
func TestReplayOfAnOldCommand(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	in, ctx := accept.WebhookReceiver{Acceptor: s.Receiver.Acceptor}, t.Context()
	for id, age := range map[string]time.Duration{"old": landfall.CommandLife + time.Minute, "young": time.Minute} {
		d := landfall.Delivery{ID: id, Event: "issue_comment", Received: time.Now().Add(-age)}
		event := testkit.Must(webhook.EventOf(d, []byte(`{"action": "created", "issue": {"number": 12, "pull_request": {}},
			"comment": {"id": 3, "body": "/landfall promote", "user": {"id": 7}}, "sender": {"id": 7, "login": "ada"},
			"repository": {"id": 5, "name": "vault", "owner": {"login": "harbor"},
				"clone_url": "https://github.com/harbor/vault.git"}}`)))(t)
		if event.Command == nil {
			t.Fatalf("got %+v, want a command", event)
		}
		if _, _, err := in.Accept(ctx, event); err != nil {
			t.Fatal(err)
		}
	}
	s.follow("vault", "vault")
	_, err := in.Replay(ctx, "", "old", "bob")
	// S6: whoever may replay a delivery does not decide when the command of another person counts
	testkit.Kind(t, "an old command", err, landfall.Conflict, "command of ada", "again at the forge")
	young := testkit.Must(in.Replay(ctx, "", "young", "bob"))(t)
	testkit.Contains(t, said(young.Decision), "(Replayed by bob.)")
}

// A hook that stands in another repository than its app's is explained.
func TestReplayOfAnotherRepository(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	in, ctx := accept.WebhookReceiver{Acceptor: s.Receiver.Acceptor}, t.Context()
	s.follow("cellar", "cellar")
	s.follow("attic", "attic")
	s.Update(func(tx *store.Tx) error {
		return tx.CreateHook(ctx, landfall.Hook{ID: "hook", App: "cellar", Secret: "secret"}, 1)
	})
	for repository, want := range map[string]string{
		"vault": "remove it there", "attic": "landfall app hook attic --rotate",
	} {
		event := s.pushed(repository, repository, s.Commit(repository))
		event.Delivery.Hook, event.Secret = "hook", "secret"
		d, _, err := in.Accept(ctx, event)
		if err != nil {
			t.Fatal(err)
		}
		// S6: the hook of one repository makes no runs of another one
		if again := testkit.Must(in.Replay(ctx, "hook", d.ID, "ada"))(t); len(again.Runs) != 0 || !again.Unmatched {
			t.Errorf("got %+v, want no run", again)
		}
		testkit.Contains(t, said(s.explained(d)), want)
	}
}

// A delivery that could not be accepted is recorded with the reason, and judged again.
func TestReplayOfAFailure(t *testing.T) {
	t.Parallel()
	path := storetest.SQLite(t)
	s := &shop{accepttest.NewIn(t, storetest.Open(t, path))}
	in, ctx := accept.WebhookReceiver{Acceptor: s.Receiver.Acceptor}, t.Context()
	s.follow("vault", "vault")
	storetest.Rename(t, path, "runs", "away")
	event := s.pushed("one", "vault", s.Commit("one"))
	if d, _, err := in.Accept(ctx, event); !landfall.Is(err, landfall.Internal) {
		t.Fatalf("got %+v and %v, want that it is not accepted", d, err)
	}
	d := testkit.Must(s.Receiver.DB.Delivery(ctx, "", "one"))(t)
	// L-017: that it was not accepted is in its record, and what to do
	testkit.Contains(t, said(d.Decision), "It could not be accepted: ", "landfall app deliveries replay one")
	testkit.Equal(t, "deliveries of the app",
		len(testkit.Must(s.Receiver.DB.DeliveriesOf(ctx, "vault", "", landfall.Delivery{}, 9))(t)), 1)
	storetest.Rename(t, path, "away", "runs")
	made, repeat, err := in.Accept(ctx, event)
	// L-017: a redelivery is no repeat of what failed
	if err != nil || repeat || len(made.Runs) != 1 {
		t.Errorf("got %+v, %t and %v, want a run", made, repeat, err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := in.Accept(canceled, s.pushed("two", "vault", s.Commit("two"))); err == nil {
		t.Error("got no error for a sender who left")
	}
	_, err = s.Receiver.DB.Delivery(ctx, "", "two")
	testkit.Kind(t, "what nobody waited for", err, landfall.NotFound)
}
