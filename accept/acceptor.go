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

// Acceptor makes runs from pushes.
type Acceptor struct {
	DB         *store.DB
	Runs       *runs.Runs
	Rollout    *deploy.Rollout
	Mirrors    *builder.Mirrors
	Remote     Remote
	PeerRemote *PeerRemote    // set when another process has the built-in remote
	Secrets    *secret.Keeper // nil: this process cannot read the credentials of repositories
	GitHub     GitHub         // nil: no app's repository is reached as a GitHub App
	Now        func() time.Time
	ForgeLimit time.Duration // how long a forge has to answer; 0: DefaultForgeLimit
	Logger     *slog.Logger

	// ids of apps whose built-in repository moved when the store could not record it, and when each must be read again
	unrecorded sync.Map

	packer packer

	Hooks   *Hooks   // what looks after webhooks at a forge; nil: nothing does
	AppHook *AppHook // the same for that of the GitHub App
	Pulls   *Pulls   // what finds missed events of pull requests; nil: nothing does
}

// TopicPlace is the topic of the jobs that find out where a reference is. The job has an app's ID and a reference, with
// a space between.
const TopicPlace = "place"

// QueueCatchUp is the queue of the jobs that look for pushes of which no delivery told. It is one of its own: runs do
// not wait for forges that do not answer.
const QueueCatchUp = "look"

// TopicCatchUp is the topic of these jobs. The job has an app's ID.
const TopicCatchUp = QueueCatchUp + "/catch-up"

// TopicLook is the topic of the jobs that do the same for all apps of a repository. The job has the repository's
// address.
const TopicLook = QueueCatchUp + "/repository"

// GitHub is what pushes need of the GitHub App that is connected.
type GitHub interface {
	// WebhookSecret returns the secret with which GitHub signs what it delivers to the App.
	WebhookSecret(app landfall.GitHubApp) (secret.Text, error)
	// Contents returns the password with which the repository of an app is fetched as the App. Forbidden, with a
	// sentence, when the App may not fetch it.
	Contents(ctx context.Context, app landfall.App) (secret.Text, error)
}

// Remote is the part of the built-in git remote that concerns pushes.
type Remote interface {
	References
	// Path returns the bare repository of an app.
	Path(app string) string
	// SetHead sets the branch that clones of the repository check out.
	SetHead(ctx context.Context, app, branch string) error
}

// References reads the references of the built-in remote's repositories.
type References interface {
	// Heads returns the commits that the references of an app's repository name. Tags are peeled.
	Heads(ctx context.Context, app string) (map[landfall.RefName]landfall.CommitSHA, error)
	// Named returns the commits that some references of an app's repository name at this moment. Tags are peeled, and
	// missing references are left out.
	Named(ctx context.Context, app string, refs []landfall.RefName) (map[landfall.RefName]landfall.CommitSHA, error)
	// Lacks returns those of the commits that are missing in an app's repository.
	Lacks(ctx context.Context, app string, commits []landfall.CommitSHA) ([]landfall.CommitSHA, error)
}

// PeerRemote is the built-in remote of another process.
type PeerRemote struct {
	URL      func(app string) string // of the repository of the app with that name
	Password secret.Text
}

// Origin returns the repository from which the commit of an app's pushes comes.
func (acceptor *Acceptor) Origin(ctx context.Context, app landfall.App,
	pushes []landfall.Push) (builder.Remote, error) {
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
	if app.Stopped() {
		return remote, landfall.Errorf("accept.Origin", landfall.Invalid, "%s", Stopped(app))
	}
	var err error
	remote.Credential, err = acceptor.Credential(ctx, app)
	return remote, err
}

// Apply accepts a commit that a person applied, and returns its run.
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
