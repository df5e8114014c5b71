// Package accepttest has an app to which tests push.
package accepttest

import (
	"context"
	"log/slog"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/inspect"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/webhook"
)

// NoGateways are gateways that nobody visits.
type NoGateways struct{}

// RefreshApp implements deploy.Gateways.
func (NoGateways) RefreshApp(context.Context, string) error { return nil }

// Shown implements deploy.Gateways: everything is shown.
func (NoGateways) Shown(context.Context, string) (int64, error) { return math.MaxInt64, nil }

// Shop is an app with its repository in the built-in remote. Nobody works on its runs.
type Shop struct {
	T        *testing.T
	Receiver accept.GitReceiver
	Repos    *remote.Repositories
	Ref      landfall.RefName // the reference that MoveRef moves
}

// AppID is the ID of the shop.
const AppID = "shop-id"

// New returns a shop in a database of its own.
func New(t *testing.T) *Shop {
	t.Helper()
	return NewIn(t, storetest.Open(t, storetest.SQLite(t)))
}

// NewIn is New in the given database.
func NewIn(t *testing.T, db *store.DB) *Shop {
	t.Helper()
	git, err := remote.FindGit()
	if err != nil {
		t.Fatal(err)
	}
	repos, err := remote.OpenRepositories(filepath.Join(t.TempDir(), "git"), git)
	if err != nil {
		t.Fatal(err)
	}
	if err := repos.Create(t.Context(), AppID, "main"); err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		if err := tx.EnsureNamespace(t.Context(), landfall.DefaultNamespace, 0); err != nil {
			return err
		}
		return tx.CreateApp(t.Context(), landfall.App{
			ID: AppID, Namespace: landfall.DefaultNamespace, Name: "shop", Branch: "main", UIDSpace: uuid.New(),
			GitHub: landfall.GitHubRepository{ID: 1, Owner: "harbor", Name: "shop"},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	rollout := &deploy.Rollout{DB: db, Gateways: NoGateways{}, Logger: logger}
	ledger := &runs.Runs{
		DB: db, Rollout: rollout, Contents: &inspect.Contents{DB: db}, Reporting: true, Commenting: true, Now: time.Now,
		Logger: logger, RunURL: func(run string) string {
			return run
		}, ReleaseURL: func(string, landfall.UID) string { return "" },
	}
	mirrors := &builder.Mirrors{Root: t.TempDir()}
	acceptor := &accept.Acceptor{DB: db, Runs: ledger, Rollout: rollout, Mirrors: mirrors, Remote: repos,
		Secrets: Key(t), Now: time.Now, Logger: logger}
	return &Shop{t, accept.GitReceiver{Acceptor: acceptor}, repos, "refs/heads/main"}
}

// Key returns a new key for what is sealed.
func Key(t testing.TB) *secret.Keeper {
	t.Helper()
	key, err := secret.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	keeper, err := secret.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return keeper
}

// AddApp makes another app with its repository in the built-in remote.
func (s *Shop) AddApp(id, name string) {
	s.T.Helper()
	err := s.Receiver.DB.Update(s.T.Context(), func(tx *store.Tx) error {
		return tx.CreateApp(s.T.Context(), landfall.App{ID: id, Namespace: landfall.DefaultNamespace, Name: name,
			UIDSpace: uuid.New()})
	})
	if err != nil {
		s.T.Fatal(err)
	}
	if err := s.Repos.Create(s.T.Context(), id, "main"); err != nil {
		s.T.Fatal(err)
	}
}

// Git runs git in the shop's repository, and returns what it prints.
func (s *Shop) Git(args ...string) string {
	s.T.Helper()
	out, err := exec.CommandContext(s.T.Context(), "git",
		append([]string{"--git-dir", s.Repos.Path(AppID)}, args...)...).CombinedOutput()
	if err != nil {
		s.T.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Commit makes a commit of nothing.
func (s *Shop) Commit(message string) landfall.CommitSHA {
	s.T.Helper()
	return s.CommitTree(s.Git("hash-object", "-t", "tree", "-w", "/dev/null"), message)
}

// CommitTree makes a commit of a tree.
func (s *Shop) CommitTree(tree, message string) landfall.CommitSHA {
	s.T.Helper()
	return landfall.CommitSHA(s.Git("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit-tree", tree,
		"-m", message))
}

// MoveRef moves the reference from one commit to the next, and returns the updates that git reports.
func (s *Shop) MoveRef(to ...landfall.CommitSHA) []remote.Update {
	s.T.Helper()
	var updates []remote.Update
	for _, after := range to {
		named, err := s.Repos.Heads(s.T.Context(), AppID)
		if err != nil {
			s.T.Fatal(err)
		}
		if after == "" {
			s.Git("update-ref", "-d", string(s.Ref))
		} else {
			s.Git("update-ref", string(s.Ref), string(after))
		}
		updates = append(updates, remote.Update{Ref: s.Ref, Before: named[s.Ref], After: after})
	}
	return updates
}

// AcceptAll accepts pushes of one reference each, in the given order.
func (s *Shop) AcceptAll(updates ...remote.Update) {
	s.T.Helper()
	for _, u := range updates {
		if _, err := s.Receiver.Accept(s.T.Context(), remote.Repository{App: AppID, Actor: "ada"},
			[]remote.Update{u}); err != nil {
			s.T.Fatal(err)
		}
	}
}

// Update changes the database in one transaction.
func (s *Shop) Update(f func(tx *store.Tx) error) {
	s.T.Helper()
	if err := s.Receiver.DB.Update(s.T.Context(), f); err != nil {
		s.T.Fatal(err)
	}
}

// WantComments fails the test unless n comments are due, and returns them.
func (s *Shop) WantComments(what string, n int) []landfall.Comment {
	s.T.Helper()
	comments := runs.Comments{Comments: store.Comments{DB: s.Receiver.DB}, Runs: s.Receiver.Runs}
	due, err := comments.Due(s.T.Context(), time.Now(), 10)
	if err != nil {
		s.T.Fatal(err)
	}
	if len(due) != n {
		s.T.Errorf("%s: the comments %+v are due, want %d", what, due, n)
	}
	return due
}

// Gate is gateways that take a new table once they are released.
type Gate struct{ Waiting, Release chan struct{} }

// RefreshApp implements deploy.Gateways.
func (g Gate) RefreshApp(context.Context, string) error {
	g.Waiting <- struct{}{}
	<-g.Release
	return nil
}

// Shown implements deploy.Gateways.
func (g Gate) Shown(context.Context, string) (int64, error) {
	select {
	case <-g.Release:
		return math.MaxInt64, nil
	default:
		return 0, nil
	}
}

// Opens returns a delivery that opens pull request 12 at a commit.
func (s *Shop) Opens(id string, commit landfall.CommitSHA) webhook.Event {
	return webhook.Event{
		Delivery:   landfall.Delivery{ID: id, Event: "pull_request"},
		Repository: webhook.Repository{ID: 1, Owner: "harbor", Name: "shop"},
		PullRequest: &webhook.PullRequest{
			PullRequest: landfall.PullRequest{Number: 12, Base: "main"}, Head: "refs/heads/feature", Commit: commit,
			Actor: "ada"},
	}
}

// Hooked makes an app of a repository elsewhere, and returns what takes its deliveries.
func (s *Shop) Hooked() accept.WebhookReceiver {
	s.T.Helper()
	s.Update(func(tx *store.Tx) error {
		own, err := tx.App(s.T.Context(), AppID)
		if err != nil {
			return err
		}
		app := own
		own.GitHub = landfall.GitHubRepository{}
		app.ID, app.Name, app.Repository, app.GitHubConfirmed = "hooked", "hooked", "https://github.com/harbor/shop.git", true
		if err := tx.UpdateApp(s.T.Context(), own); err != nil {
			return err
		}
		return tx.CreateApp(s.T.Context(), app)
	})
	return accept.WebhookReceiver{Acceptor: s.Receiver.Acceptor}
}
