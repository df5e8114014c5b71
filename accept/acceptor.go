package accept

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
)

// Acceptor lets pushes become runs.
type Acceptor struct {
	DB         *store.DB
	Runs       *runs.Runs
	Rollout    *deploy.Rollout
	Mirrors    *builder.Mirrors
	Remote     Remote
	PeerRemote *PeerRemote // where the built-in remote is when it is another process's
	Now        func() time.Time
	Logger     *slog.Logger

	unrecorded sync.Map // ids of apps whose built-in repository moved when the store could not take it; since when it is looked at again
}

// TopicPlace is the topic of the jobs that settle where a reference is: of an app's ID and a reference, with a space between.
const TopicPlace = "place"

// Remote is the built-in git remote, as far as pushes come from it.
type Remote interface {
	References
	// Path returns the bare repository of an app.
	Path(app string) string
	// SetHead makes a branch what clones of the repository check out.
	SetHead(ctx context.Context, app, branch string) error
}

// References tells what the references of the built-in remote's repositories name.
type References interface {
	// Heads returns what the references of an app's repository name, peeled to commits.
	Heads(ctx context.Context, app string) (map[landfall.RefName]landfall.CommitSHA, error)
	// Named returns what references of an app's repository name at this moment, peeled to commits; nothing for those that
	// are not there.
	Named(ctx context.Context, app string, refs []landfall.RefName) (map[landfall.RefName]landfall.CommitSHA, error)
	// Lacks returns those of the commits that an app's repository has not got.
	Lacks(ctx context.Context, app string, commits []landfall.CommitSHA) ([]landfall.CommitSHA, error)
}

// PeerRemote is the built-in remote of another process.
type PeerRemote struct {
	URL      func(app string) string // of the repository of the app with that name
	Password secret.Text
}

// Origin says where the commit of an app's pushes comes from.
func (acceptor *Acceptor) Origin(ctx context.Context, app landfall.App, pushes []landfall.Push) (builder.Remote, error) {
	remote := builder.Remote{Namespace: app.Namespace, URL: app.Repository}
	local := app.Repository == ""
	for _, push := range pushes {
		local = local || push.Apply != nil
	}
	if local && acceptor.PeerRemote != nil {
		remote.URL, remote.Password = acceptor.PeerRemote.URL(app.Name), acceptor.PeerRemote.Password
		return remote, nil
	}
	if local {
		remote.Local = acceptor.Remote.Path(app.ID)
		return remote, nil
	}
	credentials, err := acceptor.DB.Credentials(ctx, app.ID)
	remote.Username, remote.Password = credentials.Username, secret.Text(credentials.Password)
	return remote, err
}

// Apply accepts a commit that was brought by hand, and returns the run that it has.
func (acceptor *Acceptor) Apply(ctx context.Context, app landfall.App, push landfall.Push) (run string, err error) {
	err = acceptor.DB.Update(ctx, func(tx *store.Tx) error {
		run, err = acceptor.Accept(ctx, tx, push)
		return err
	})
	if err == nil {
		acceptor.logAccepted(ctx, []acceptedPush{{app, push, run}})
		acceptor.Rollout.Show(ctx, app) // the push may have joined a run that succeeded
	}
	return run, err
}
