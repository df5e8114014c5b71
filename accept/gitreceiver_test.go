package accept_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept/accepttest"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/store"
)

// shop is an app with its repository in the built-in remote. Nobody works its runs.
type shop struct{ *accepttest.Shop }

func newShop(t *testing.T) *shop {
	t.Helper()
	return &shop{accepttest.New(t)}
}

// wantHead fails the test unless the branch is at a commit, and only the run of that commit is not over.
func (s *shop) wantHead(what string, want landfall.CommitSHA) {
	s.T.Helper()
	head, err := s.Receiver.DB.Head(s.T.Context(), accepttest.AppID, s.Ref)
	if err != nil || head.SHA != want {
		s.T.Errorf("%s: got the head %q and the error %v, want %q", what, head.SHA, err, want)
	}
	unfinished, err := s.Receiver.DB.UnfinishedOfApp(s.T.Context(), accepttest.AppID)
	if err != nil {
		s.T.Fatal(err)
	}
	for _, run := range unfinished {
		if run.Commit != want {
			s.T.Errorf("%s: got a run of %s that is %s, want only one of %q", what, run.Commit, run.State, want)
		}
	}
	if want != "" && len(unfinished) != 1 {
		s.T.Errorf("%s: got %d runs that are not over, want one", what, len(unfinished))
	}
}

// Whatever the order in which pushes to the built-in remote are accepted, the branch is where its reference is.
func TestAcceptFollowsTheReference(t *testing.T) {
	t.Parallel()
	t.Run("there, back, and there again", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		a, b := s.Commit("a"), s.Commit("b")
		s.AcceptAll(s.MoveRef(a, b)...)
		s.wantHead("before", b)
		late := s.MoveRef(a, b)
		s.AcceptAll(late[1], late[0])
		// L-002: the branch's head is where the reference is
		s.wantHead("after a force push and its undoing", b)
	})
	t.Run("a push that was never accepted", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		a, b, c := s.Commit("a"), s.Commit("b"), s.Commit("c")
		s.AcceptAll(s.MoveRef(a, b)...)
		s.MoveRef(c) // the store was down
		s.AcceptAll(s.MoveRef(a)...)
		// L-002: the next one counts, though it goes where the branch came from
		s.wantHead("after a push back to the first commit", a)
	})
	t.Run("a branch that is made, deleted and made again", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		a, b := s.Commit("a"), s.Commit("b")
		made := s.MoveRef(a, "", b)
		s.AcceptAll(made[1], made[2], made[0])
		s.wantHead("after it was made again", b)
		gone := s.MoveRef("", a, "")
		s.AcceptAll(gone[2], gone[1], gone[0])
		s.wantHead("after it was deleted", "")
	})
	t.Run("a tag that was moved there and back", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.Ref = "refs/tags/v1"
		a, b := s.Commit("a"), s.Commit("b")
		s.AcceptAll(s.MoveRef(a)...)
		late := s.MoveRef(b, a, b)
		s.AcceptAll(late[2], late[0], late[1])
		s.wantHead("after the tag was moved", b)
	})
}

// interrupted is the built-in remote of a server whose other doors are open while it starts.
type interrupted struct {
	*remote.Repositories

	meanwhile func()
}

func (i interrupted) Heads(ctx context.Context, app string) (map[landfall.RefName]landfall.CommitSHA, error) {
	heads, err := i.Repositories.Heads(ctx, app)
	i.meanwhile()
	return heads, err
}

// What an earlier life left is accepted at the start, and never undoes a push that comes in at the same time.
func TestReconcileFollowsTheReference(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	a, b := s.Commit("a"), s.Commit("b")
	s.AcceptAll(s.MoveRef(a, b)...)
	s.MoveRef(a) // and the server was killed
	s.Receiver.Remote = interrupted{s.Repos, func() {}}
	if err := s.Receiver.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantHead("after the start", a)

	s.MoveRef(b)
	s.Receiver.Remote = interrupted{s.Repos, func() { s.AcceptAll(s.MoveRef(a)...) }}
	if err := s.Receiver.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	// L-002: the push that came meanwhile is the newest
	s.wantHead("after a start during which somebody pushed", a)
}

// A repository that git cannot read keeps no other app from being served.
func TestReconcileLeavesOutABrokenRepository(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const broken = "broken-id"
	s.AddApp(broken, "broken")
	if err := os.WriteFile(filepath.Join(s.Repos.Path(broken), "packed-refs"), []byte("garbage\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s.Receiver.Logger = slog.New(slog.NewTextHandler(&log, nil))
	a := s.Commit("a")
	s.MoveRef(a) // and the server was killed
	if err := s.Receiver.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantHead("after the start", a)
	if text := log.String(); !strings.Contains(text, "app=broken") || !strings.Contains(text, s.Repos.Path(broken)) {
		t.Errorf("got the log %q, want the app and its repository in it", text)
	}
}

// A repository that is put back as it once was is older than what was accepted: nothing of it is taken for a new push.
func TestReconcileLeavesOutAnOlderCopy(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	a := s.Commit("a")
	s.AcceptAll(s.MoveRef(a)...)
	copied := filepath.Join(t.TempDir(), "older.git")
	if err := os.CopyFS(copied, os.DirFS(s.Repos.Path(accepttest.AppID))); err != nil {
		t.Fatal(err)
	}
	b := s.Commit("b")
	s.AcceptAll(s.MoveRef(b)...)
	if err := errors.Join(os.RemoveAll(s.Repos.Path(accepttest.AppID)),
		os.Rename(copied, s.Repos.Path(accepttest.AppID))); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s.Receiver.Logger = slog.New(slog.NewTextHandler(&log, nil))
	if err := s.Receiver.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantHead("after the start with an older copy", b)
	if text := log.String(); !strings.Contains(text, "app=shop") || !strings.Contains(text, "lacks "+b.Short()) {
		t.Errorf("got the log %q, want the app and what its repository lacks", text)
	}
}

// Who mistypes an app's name is told which one is meant, of those that the token may read.
func TestNoAppOfThatName(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	err := s.Receiver.DB.Update(t.Context(), func(tx *store.Tx) error {
		for name, app := range map[string]string{"all": "", "shop's": accepttest.AppID, "another's": "another-id"} {
			if err := tx.PutToken(t.Context(), landfall.Token{Hash: landfall.DigestOf([]byte("secret of " + name)), Name: name,
				Scope: landfall.ScopeRead, App: app}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ app, token, want string }{
		{"shpo", "all", `there is no app "shpo"; did you mean "shop"? Otherwise make it with: landfall app create shpo`},
		{"shpo", "shop's", `there is no app "shpo"; did you mean "shop"? Otherwise make it with: landfall app create shpo`},
		{"shpo", "another's", `there is no app "shpo"; make it with: landfall app create shpo`},
		{"museum", "all", `there is no app "museum"; make it with: landfall app create museum`},
	} {
		_, err := s.Receiver.Open(t.Context(), test.app, "secret of "+test.token, false)
		if got := landfall.MessageOf(err); got != test.want || !landfall.Is(err, landfall.NotFound) {
			t.Errorf("%s with the token %s: got %q, want %q", test.app, test.token, got, test.want)
		}
	}
}
