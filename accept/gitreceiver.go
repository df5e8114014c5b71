package accept

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/crashpoint"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/trace"
)

// GitReceiver lets the built-in remote use an Acceptor.
type GitReceiver struct{ *Acceptor }

var _ remote.Receiver = GitReceiver{}

// Open implements remote.Receiver. The token's scope decides, and the app's name is looked up only when the token is
// known.
func (r GitReceiver) Open(ctx context.Context, name, token string, write bool) (remote.Repository, error) {
	const op landfall.Op = "accept.Open"
	t, err := r.DB.Token(ctx, token, r.Now())
	if landfall.Is(err, landfall.NotFound) {
		err = landfall.Errorf(op, landfall.Unauthorized, "the token is not known")
	}
	if err != nil {
		return remote.Repository{}, err
	}
	app, err := r.DB.AppByName(ctx, name)
	if landfall.Is(err, landfall.NotFound) {
		meant, unknown := r.suggestName(ctx, t, name)
		err = cmp.Or(unknown, noApp(op, name, meant))
	}
	if err != nil {
		return remote.Repository{}, err
	}
	scope := landfall.ScopeRead
	if write {
		scope = landfall.ScopeDeploy
	}
	if !t.Allows(scope, app.ID) {
		return remote.Repository{}, landfall.Errorf(op, landfall.Forbidden, "the token lacks the scope %s for %q", scope,
			name)
	}
	if !app.Deleted.IsZero() {
		return remote.Repository{}, landfall.Errorf(op, landfall.Conflict, "the app %q was deleted", name)
	}
	if write && app.OfNamespace() {
		return remote.Repository{}, landfall.Errorf(op, landfall.Conflict, "%q is a namespace, and no app: push to an app",
			name)
	}
	pushed := false
	if app.Repository == "" {
		if pushed, err = r.DB.HasHeads(ctx, app.ID); err != nil {
			return remote.Repository{}, err
		}
	}
	return remote.Repository{App: app.ID, Name: app.Name, Actor: t.Name, Pushed: pushed}, nil
}

// suggestName returns the name of an app that a token may read and that is near to a wrong name; "" when none is.
func (r GitReceiver) suggestName(ctx context.Context, t landfall.Token, name string) (string, error) {
	apps, err := r.DB.Apps(ctx)
	readable := map[string]bool{}
	for _, app := range apps {
		if app.Deleted.IsZero() && t.Allows(landfall.ScopeRead, app.ID) {
			readable[app.Name] = true
		}
	}
	return spec.Nearest(name, readable), err
}

// noApp is the error for a push to an app that does not exist, with what to do about it. meant may be the name of
// another app.
func noApp(op landfall.Op, name, meant string) error {
	remedy := "make it with: landfall app create " + name
	if err := landfall.CheckAppName(name); err != nil {
		remedy = landfall.MessageOf(err)
	}
	if meant != "" {
		remedy = fmt.Sprintf("did you mean %q? Otherwise %s", meant, remedy)
	}
	return landfall.Errorf(op, landfall.NotFound, "there is no app %q; %s", name, remedy)
}

// Check implements remote.Receiver: an app with an external repository only takes applies here. A process that is
// not the leader any more takes nothing, because another process may have the repositories.
func (r GitReceiver) Check(ctx context.Context, repository remote.Repository, updates []remote.Update) error {
	if err := r.DB.CheckLeader(ctx); err != nil {
		return err
	}
	app, err := r.DB.App(ctx, repository.App)
	if err != nil {
		return err
	}
	if !app.Deleted.IsZero() {
		return landfall.Errorf("accept.Check", landfall.Conflict, "the app %q was deleted", app.Name)
	}
	for _, u := range updates {
		_, isBranch := u.Ref.Branch()
		_, isTag := u.Ref.Tag()
		if (isBranch || isTag) && app.Repository != "" {
			return landfall.Errorf("accept.Check", landfall.Invalid, "the repository of %s is %s: push there", app.Name,
				app.Repository)
		}
	}
	crashpoint.Here("remote.checked")
	return nil
}

// Accept implements remote.Receiver: it accepts all references of one push in one transaction. None of them moves
// meanwhile, so what they name shows which of the pushes is the newest.
func (r GitReceiver) Accept(ctx context.Context, repository remote.Repository,
	updates []remote.Update) ([]string, error) {
	crashpoint.Here("remote.moved")
	refs := make([]landfall.RefName, 0, len(updates))
	for _, u := range updates {
		refs = append(refs, u.Ref)
	}
	named, err := r.Remote.Named(ctx, repository.App, refs)
	if err != nil {
		r.unrecorded.Store(repository.App, r.Now())
		return nil, err
	}
	var runs []string
	var pushes []acceptedPush
	app := landfall.App{ID: repository.App, Name: repository.Name}
	err = r.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error {
		runs, pushes = nil, nil
		for _, u := range inOrder(updates) {
			push := landfall.Push{
				App: repository.App, Source: landfall.FromRemote, Ref: u.Ref, Before: u.Before, After: u.After, Forced: u.Forced,
				Actor: repository.Actor, Message: u.Message, Trace: trace.Parent(ctx),
			}
			run, err := r.accept(ctx, tx, push, named)
			if err != nil {
				return err
			}
			pushes = append(pushes, acceptedPush{app, push, run})
			if run != "" && !slices.Contains(runs, run) {
				runs = append(runs, run)
			}
		}
		return nil
	})
	if err != nil {
		r.unrecorded.Store(repository.App, r.Now())
		return nil, err
	}
	crashpoint.Here("accept.committed")
	r.logAccepted(ctx, pushes)
	r.Rollout.Refresh(ctx, app)
	r.followHead(ctx, repository.App, updates)
	return runs, nil
}

// inOrder returns the updates, with those first that become the production branch when all are new.
func inOrder(updates []remote.Update) []remote.Update {
	return slices.SortedStableFunc(slices.Values(updates), func(a, b remote.Update) int {
		return cmp.Compare(rank(a.Ref), rank(b.Ref))
	})
}

// rank orders the branches of one push to an app without a production branch.
func rank(ref landfall.RefName) int {
	usual := []landfall.RefName{landfall.BranchPrefix + "main", landfall.BranchPrefix + "master"}
	if i := slices.Index(usual, ref); i >= 0 {
		return i
	}
	return len(usual)
}

// followHead makes clones check out the production branch once it was pushed.
func (r GitReceiver) followHead(ctx context.Context, appID string, updates []remote.Update) {
	app, err := r.DB.App(ctx, appID)
	for _, u := range updates {
		if branch, ok := u.Ref.Branch(); err == nil && ok && u.Before.IsZero() && branch == app.Branch {
			err = r.Remote.SetHead(ctx, appID, branch)
		}
	}
	if err != nil {
		r.Logger.WarnContext(ctx, "clones will check out another branch than production", "app", app.Name, "app_id", appID,
			"error", err)
	}
}

const (
	followEvery = 25 * time.Millisecond
	// A push waits this long before it asks whether there is a worker at all.
	noWorkerAfter = 3 * time.Second
)

// Follow implements remote.Receiver: it writes a run's log as it grows, and then the result.
func (r GitReceiver) Follow(ctx context.Context, id string, since time.Time, w io.Writer) error {
	since = since.Truncate(time.Microsecond) // the precision of the store
	var seen int64
	var from time.Time
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	ask, told := r.Now().Add(noWorkerAfter), false
	for first := true; ; first = false {
		// The run is read before its log, so that all lines are seen that were there when it ended.
		run, err := r.DB.Run(ctx, id)
		if err != nil {
			return err
		}
		if first && run.State == landfall.RunSucceeded && run.Finished.Before(since) {
			from = since // the run of an earlier push: its log would read as if all of it happened now
		}
		if seen, err = r.copyLog(ctx, id, seen, from, w); err != nil {
			return err
		}
		if r.Runs.View(ctx, run).State.Final() {
			return r.writeOutcome(ctx, run, from, w)
		}
		if !r.Now().Before(ask) {
			ask = r.Now().Add(noWorkerAfter)
			if told, err = r.reportNoWorker(ctx, told, w); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// reportNoWorker says that a run waits for a worker, unless it has said so already, and returns whether it has.
func (r GitReceiver) reportNoWorker(ctx context.Context, told bool, w io.Writer) (bool, error) {
	deserted, err := r.Runs.NoWorker(ctx)
	if deserted && !told {
		_, err = io.WriteString(w, "waiting for a worker: none is alive\n")
	}
	return deserted, err
}

// copyLog writes the lines after number seen that are not older than from, and returns the number of the last line.
func (r GitReceiver) copyLog(ctx context.Context, id string, seen int64, from time.Time, w io.Writer) (int64, error) {
	const page = 500
	for {
		lines, err := r.DB.Log(ctx, id, seen, page)
		if err != nil {
			return seen, err
		}
		for _, line := range lines {
			seen = line.Seq
			if line.Time.Before(from) {
				continue
			}
			if _, err := fmt.Fprintf(w, "%-7s %s\n", line.Step, landfall.TerminalText(line.Text)); err != nil {
				return seen, err
			}
		}
		if len(lines) < page {
			return seen, nil
		}
	}
}

// writeOutcome writes the result of a run, with the release's address on a line of its own. It says that the release is
// live only when live has moved since from.
func (r GitReceiver) writeOutcome(ctx context.Context, run landfall.Run, from time.Time, w io.Writer) error {
	app, err := r.DB.App(ctx, run.App)
	if err != nil {
		return err
	}
	moves, err := r.DB.Moves(ctx, run.App, landfall.LivePointer, 1)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("The push was kept, but made no release. The run: %s (landfall run show %s)\n",
		r.Runs.RunURL(run.ID), run.ID)
	if run.Release != "" {
		text = r.Runs.ReleaseURL(app.Name, run.Release) + "\n"
		if app.Live == run.Release && len(moves) > 0 && !moves[0].At.Before(from) {
			text += "It is live: " + r.Runs.ReleaseURL(app.Name, "") + "\n"
		}
	}
	_, err = io.WriteString(w, text)
	return err
}
