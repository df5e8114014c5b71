package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
)

// nowhere is where nobody visits.
type nowhere struct{}

func (nowhere) RefreshApp(context.Context, string) error { return nil }

func (nowhere) Shown(context.Context, string) (int64, error) { return math.MaxInt64, nil }

// shop is an app with its repository in the built-in remote. Nobody works its runs.
type shop struct {
	t     *testing.T
	doors pipeline.Doors
	repos *remote.Repositories
	ref   landfall.RefName
}

const appID = "shop-id"

func newShop(t *testing.T) *shop {
	t.Helper()
	return newShopIn(t, storetest.Open(t, storetest.SQLite(t)))
}

// newShopIn is newShop in a database.
func newShopIn(t *testing.T, db *store.DB) *shop {
	t.Helper()
	git, err := remote.FindGit()
	if err != nil {
		t.Fatal(err)
	}
	repos, err := remote.OpenRepositories(filepath.Join(t.TempDir(), "git"), git)
	if err != nil {
		t.Fatal(err)
	}
	if err := repos.Create(t.Context(), appID, "main"); err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		if err := tx.EnsureNamespace(t.Context(), landfall.DefaultNamespace, 0); err != nil {
			return err
		}
		return tx.CreateApp(t.Context(), landfall.App{
			ID: appID, Namespace: landfall.DefaultNamespace, Name: "shop", Branch: "main", UIDSpace: uuid.New(),
			GitHub: landfall.GitHubRepository{ID: 1, Owner: "harbor", Name: "shop"},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &pipeline.Pipeline{
		DB: db, Remote: repos, Mirrors: &builder.Mirrors{Root: t.TempDir()}, Builds: &pipeline.Builds{Folder: t.TempDir()},
		Gateways: nowhere{}, Reporting: true, Commenting: true, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		RunURL: func(run string) string { return run }, ReleaseURL: func(string, landfall.UID) string { return "" },
	}
	return &shop{t, pipeline.Doors{Pipeline: p}, repos, "refs/heads/main"}
}

// alsoApp makes another app with its repository in the built-in remote.
func (s *shop) alsoApp(id, name string) {
	s.t.Helper()
	err := s.doors.DB.Update(s.t.Context(), func(tx *store.Tx) error {
		return tx.CreateApp(s.t.Context(), landfall.App{ID: id, Namespace: landfall.DefaultNamespace, Name: name, UIDSpace: uuid.New()})
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.repos.Create(s.t.Context(), id, "main"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) git(args ...string) string {
	s.t.Helper()
	out, err := exec.Command("git", append([]string{"--git-dir", s.repos.Path(appID)}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit makes a commit of nothing.
func (s *shop) commit(message string) landfall.CommitSHA {
	s.t.Helper()
	return s.commitTree(s.git("hash-object", "-t", "tree", "-w", "/dev/null"), message)
}

func (s *shop) commitTree(tree, message string) landfall.CommitSHA {
	s.t.Helper()
	return landfall.CommitSHA(s.git("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit-tree", tree, "-m", message))
}

// moves moves the reference from one commit to the next, and returns what git then tells the door.
func (s *shop) moves(to ...landfall.CommitSHA) []remote.Update {
	s.t.Helper()
	var updates []remote.Update
	for _, after := range to {
		named, err := s.repos.Heads(s.t.Context(), appID)
		if err != nil {
			s.t.Fatal(err)
		}
		if after == "" {
			s.git("update-ref", "-d", string(s.ref))
		} else {
			s.git("update-ref", string(s.ref), string(after))
		}
		updates = append(updates, remote.Update{Ref: s.ref, Before: named[s.ref], After: after})
	}
	return updates
}

// accepts takes pushes of one reference each, in the given order.
func (s *shop) accepts(updates ...remote.Update) {
	s.t.Helper()
	for _, u := range updates {
		if _, err := s.doors.Accept(s.t.Context(), remote.Repository{App: appID, Actor: "ada"}, []remote.Update{u}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// wantHead fails the test unless the branch is at a commit, and only the run of that commit is not over.
func (s *shop) wantHead(what string, want landfall.CommitSHA) {
	s.t.Helper()
	head, err := s.doors.DB.Head(s.t.Context(), appID, s.ref)
	if err != nil || head.SHA != want {
		s.t.Errorf("%s: got the head %q and the error %v, want %q", what, head.SHA, err, want)
	}
	runs, err := s.doors.DB.UnfinishedOfApp(s.t.Context(), appID)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, run := range runs {
		if run.Commit != want {
			s.t.Errorf("%s: got a run of %s that is %s, want only one of %q", what, run.Commit, run.State, want)
		}
	}
	if want != "" && len(runs) != 1 {
		s.t.Errorf("%s: got %d runs that are not over, want one", what, len(runs))
	}
}

// Whatever the order in which pushes to the built-in remote are accepted, the branch is where its reference is.
func TestAcceptFollowsTheReference(t *testing.T) {
	t.Parallel()
	t.Run("there, back, and there again", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		a, b := s.commit("a"), s.commit("b")
		s.accepts(s.moves(a, b)...)
		s.wantHead("before", b)
		late := s.moves(a, b)
		s.accepts(late[1], late[0])
		// L-002: the branch's head is where the reference is
		s.wantHead("after a force push and its undoing", b)
	})
	t.Run("a push that was never accepted", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		a, b, c := s.commit("a"), s.commit("b"), s.commit("c")
		s.accepts(s.moves(a, b)...)
		s.moves(c) // the store was down
		s.accepts(s.moves(a)...)
		// L-002: the next one counts, though it goes where the branch came from
		s.wantHead("after a push back to the first commit", a)
	})
	t.Run("a branch that is made, deleted and made again", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		a, b := s.commit("a"), s.commit("b")
		made := s.moves(a, "", b)
		s.accepts(made[1], made[2], made[0])
		s.wantHead("after it was made again", b)
		gone := s.moves("", a, "")
		s.accepts(gone[2], gone[1], gone[0])
		s.wantHead("after it was deleted", "")
	})
	t.Run("a tag that was moved there and back", func(t *testing.T) {
		t.Parallel()
		s := newShop(t)
		s.ref = "refs/tags/v1"
		a, b := s.commit("a"), s.commit("b")
		s.accepts(s.moves(a)...)
		late := s.moves(b, a, b)
		s.accepts(late[2], late[0], late[1])
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

// stopped is the built-in remote of a server that is told to stop while it reads.
type stopped struct {
	*remote.Repositories

	stop func()
}

func (s stopped) Heads(ctx context.Context, app string) (map[landfall.RefName]landfall.CommitSHA, error) {
	s.stop()
	return s.Repositories.Heads(ctx, app)
}

// A stop in the moment of the start is as good as any other.
func TestStopWhileReconciling(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.doors.Remote = stopped{s.repos, cancel}
	if err := s.doors.Run(ctx, pipeline.Duties{Keep: true}); err != nil {
		t.Errorf("the pipeline ended with %v, want nothing", err)
	}
}

// What an earlier life left is accepted at the start, and never undoes a push that comes in at the same time.
func TestReconcileFollowsTheReference(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	a, b := s.commit("a"), s.commit("b")
	s.accepts(s.moves(a, b)...)
	s.moves(a) // and the server was killed
	s.doors.Remote = interrupted{s.repos, func() {}}
	if err := s.doors.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantHead("after the start", a)

	s.moves(b)
	s.doors.Remote = interrupted{s.repos, func() { s.accepts(s.moves(a)...) }}
	if err := s.doors.Reconcile(t.Context()); err != nil {
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
	s.alsoApp(broken, "broken")
	if err := os.WriteFile(filepath.Join(s.repos.Path(broken), "packed-refs"), []byte("garbage\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s.doors.Logger = slog.New(slog.NewTextHandler(&log, nil))
	a := s.commit("a")
	s.moves(a) // and the server was killed
	if err := s.doors.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantHead("after the start", a)
	if text := log.String(); !strings.Contains(text, "app=broken") || !strings.Contains(text, s.repos.Path(broken)) {
		t.Errorf("got the log %q, want the app and its repository in it", text)
	}
}

// A repository that is put back as it once was is older than what was accepted: nothing of it is taken for a new push.
func TestReconcileLeavesOutAnOlderCopy(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	a := s.commit("a")
	s.accepts(s.moves(a)...)
	copied := filepath.Join(t.TempDir(), "older.git")
	if err := os.CopyFS(copied, os.DirFS(s.repos.Path(appID))); err != nil {
		t.Fatal(err)
	}
	b := s.commit("b")
	s.accepts(s.moves(b)...)
	if err := errors.Join(os.RemoveAll(s.repos.Path(appID)), os.Rename(copied, s.repos.Path(appID))); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s.doors.Logger = slog.New(slog.NewTextHandler(&log, nil))
	if err := s.doors.Reconcile(t.Context()); err != nil {
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
	db := s.doors.DB
	err := db.Update(t.Context(), func(tx *store.Tx) error {
		for name, app := range map[string]string{"all": "", "shop's": appID, "another's": "another-id"} {
			if err := tx.PutToken(t.Context(), landfall.Token{Hash: landfall.DigestOf([]byte("secret of " + name)), Name: name, Scope: store.ScopeRead, App: app}); err != nil {
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
		_, err := s.doors.Open(t.Context(), test.app, "secret of "+test.token, false)
		if got := landfall.MessageOf(err); got != test.want || !landfall.Is(err, landfall.NotFound) {
			t.Errorf("%s with the token %s: got %q, want %q", test.app, test.token, got, test.want)
		}
	}
}
