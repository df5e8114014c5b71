package deploy

import (
	"context"
	"slices"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// Mover says who moves pointers, when and why.
type Mover struct {
	Actor  string
	Reason string
	At     time.Time

	rollback bool // live goes back in its history
}

// ofName is the same for a move of an alias or a function tag.
func (by Mover) ofName() store.AliasMove {
	return store.AliasMove{Actor: by.Actor, Reason: by.Reason, At: by.At}
}

// Create makes a group version reachable, or reachable again. For a release that is accessible already, it can only
// change the line from preview to production. Conflict when a secret that it needs was revoked or deleted, or when it
// asks for more than the plan of the namespace has.
func Create(ctx context.Context, tx *store.Tx, g landfall.Group, line landfall.Line,
	at time.Time) (landfall.Release, error) {
	r, err := tx.Release(ctx, g.App, g.UID)
	switch {
	case err != nil && landfall.KindOf(err) != landfall.NotFound:
		return r, err
	case err != nil:
		r = landfall.Release{ID: g.UID, App: g.App, Line: line, Digest: g.Digest, Commit: g.Commit, Branch: g.Branch,
			Created: at}
	case !r.Expired.IsZero():
		r.Expired, r.Created = time.Time{}, at
	case line == landfall.Preview || r.Line == line:
		return r, nil
	}
	if err := checkSecrets(ctx, tx, g.App, g.UID); err != nil {
		return r, err
	}
	app, err := tx.App(ctx, g.App)
	if err != nil {
		return r, err
	}
	if err := CheckRelease(ctx, tx, app, g.UID); err != nil {
		return r, err
	}
	if line == landfall.Production {
		r.Line = line
	}
	return r, tx.PutRelease(ctx, r)
}

// MoveLive makes an accessible release live. It does nothing when it is live already. Conflict when it is expired, or
// when a secret that it needs was revoked or deleted, or when it asks for more than the plan of the namespace has,
// which may have been lowered since. A canary that runs ends.
func MoveLive(ctx context.Context, tx *store.Tx, app *landfall.App, to landfall.UID, by Mover) error {
	if _, err := EndCanary(ctx, tx, app.ID, landfall.ReleaseCanaryEnded, by); err != nil {
		return err
	}
	if app.Live == to {
		return nil
	}
	r, err := canBeLive(ctx, tx, *app, to)
	if err != nil {
		return err
	}
	if !r.WasLive {
		r.WasLive = true
		if err := tx.PutRelease(ctx, r); err != nil {
			return err
		}
	}
	if err := record(ctx, tx, move(app.ID, landfall.LivePointer, app.Live, to, by)); err != nil {
		return err
	}
	app.Live = to
	if err := tx.UpdateApp(ctx, *app); err != nil {
		return err
	}
	return tx.RenewComments(ctx, *app, app.Branch, by.At, renewEvery)
}

// renewEvery is how long one comment on a pull request waits after the other when all of them compare with another
// release: GitHub takes few comments in an hour, and most of them are for what people do.
const renewEvery = time.Minute

// canBeLive returns a release. Conflict when it cannot be live, as MoveLive says.
func canBeLive(ctx context.Context, tx *store.Tx, app landfall.App, uid landfall.UID) (landfall.Release, error) {
	r, err := tx.Release(ctx, app.ID, uid)
	if err != nil {
		return r, err
	}
	if !r.Expired.IsZero() {
		return r, landfall.Errorf("deploy.MoveLive", landfall.Conflict,
			"release %s is expired; make it accessible again with: landfall release create %s --version %s", uid, app.Name, uid)
	}
	if err := checkNoFork(ctx, tx, app.ID, uid); err != nil {
		return r, err
	}
	if err := checkSecrets(ctx, tx, app.ID, uid); err != nil {
		return r, err
	}
	return r, CheckRelease(ctx, tx, app, uid)
}

// checkNoFork fails with Conflict for a release of a fork's commit, which was built without secrets and a network.
func checkNoFork(ctx context.Context, tx *store.Tx, app string, uid landfall.UID) error {
	g, err := tx.Group(ctx, app, uid)
	if err != nil || g.Fork == 0 {
		return landfall.Ignore(err, landfall.NotFound)
	}
	return landfall.Errorf("deploy.checkNoFork", landfall.Conflict, "%s was made of the fork of pull request %d, without "+
		"secrets and a network: it can only be looked at; merge the pull request, which makes a release of its own", uid,
		g.Fork)
}

// Promote makes a release live by hand and ends a hold.
func Promote(ctx context.Context, tx *store.Tx, app *landfall.App, to landfall.UID, by Mover) error {
	app.Held = false
	if err := MoveLive(ctx, tx, app, to, by); err != nil {
		return err
	}
	return tx.UpdateApp(ctx, *app)
}

// Rollback makes the given release live, or the one that was live before, and holds live there, so that the next push
// does not undo it.
func Rollback(ctx context.Context, tx *store.Tx, app *landfall.App, to landfall.UID, by Mover) error {
	const op landfall.Op = "deploy.Rollback"
	if to == "" {
		var err error
		if to, err = Previous(ctx, tx, *app); err != nil {
			return err
		}
		if to == "" {
			return landfall.Errorf(op, landfall.Conflict,
				"%s has no earlier live release that is still accessible; name one: landfall release rollback %s RELEASE", app.Name,
				app.Name)
		}
	}
	by.rollback = true
	if err := MoveLive(ctx, tx, app, to, by); err != nil {
		return err
	}
	app.Held = true
	return tx.UpdateApp(ctx, *app)
}

// RollbackGroup goes back to a group version: it makes its release live and holds it there, as Rollback does. When the
// group version has no release, or an expired one, it makes it reachable before, and nothing of that is seen unless
// live moves. Conflict, with the units, when a part of it is not stored any more.
func RollbackGroup(ctx context.Context, tx *store.Tx, app *landfall.App, group landfall.UID, by Mover) error {
	g, err := tx.Group(ctx, app.ID, group)
	if err != nil {
		return err
	}
	r, err := tx.Release(ctx, app.ID, group)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return err
	}
	if err == nil && r.Expired.IsZero() {
		return Rollback(ctx, tx, app, group, by)
	}
	reachable, err := MakeReachable(ctx, tx, *app, g, by.At)
	if err != nil {
		return err
	}
	if reachable {
		return Rollback(ctx, tx, app, group, by)
	}
	gone, err := missing(ctx, tx, g)
	if err != nil {
		return err
	}
	return landfall.Errorf("deploy.RollbackGroup", landfall.Conflict,
		"the app version %s cannot become live, because its "+
			"release expired and what it had of %s is not stored any more; a run stores it again: landfall release create %s "+
			"--version %s", group, strings.Join(gone, ", "), app.Name, group)
}

// Hold keeps live where it is, whatever is pushed, until Resume or Promote. Resume moves nothing: the next push does.
func Hold(ctx context.Context, tx *store.Tx, app *landfall.App, held bool) error {
	app.Held = held
	return tx.UpdateApp(ctx, *app)
}

// manyMoves bounds how far the history of live is read.
const manyMoves = 1000

// moveReader is what is needed to look at releases; the database and its transactions have it.
type moveReader interface {
	Moves(ctx context.Context, app, pointer string, limit int) ([]landfall.Move, error)
	AccessibleReleases(ctx context.Context, app string) ([]landfall.Release, error)
}

// Previous returns the accessible release that was live before the current one; empty when there is none. Two rollbacks
// go back two releases: the release that a rollback left is not a part of the history until it becomes live again.
func Previous(ctx context.Context, r moveReader, app landfall.App) (landfall.UID, error) {
	accessible, err := r.AccessibleReleases(ctx, app.ID)
	if err != nil {
		return "", err
	}
	moves, err := r.Moves(ctx, app.ID, landfall.LivePointer, manyMoves)
	if err != nil {
		return "", err
	}
	for _, was := range slices.Backward(history(moves)) {
		if was != app.Live && slices.ContainsFunc(accessible, func(r landfall.Release) bool { return r.ID == was }) {
			return was, nil
		}
	}
	return "", nil
}

// history returns the releases that were live, oldest first, from moves that are newest first. A rollback removes the
// releases after the one to which it went.
func history(moves []landfall.Move) []landfall.UID {
	var was []landfall.UID
	for _, m := range slices.Backward(moves) {
		if len(was) == 0 && m.From != "" { // an older move was not read
			was = append(was, m.From)
		}
		if i := lastIndex(was, m.To); m.Back && i >= 0 {
			was = was[:i]
		}
		was = append(was, m.To)
	}
	return was
}

// lastIndex returns where a release stands last, or -1.
func lastIndex(all []landfall.UID, uid landfall.UID) int {
	for i, u := range slices.Backward(all) {
		if u == uid {
			return i
		}
	}
	return -1
}

func move(app, pointer string, from, to landfall.UID, by Mover) landfall.Move {
	return landfall.Move{App: app, Pointer: pointer, From: from, To: to, Actor: by.Actor, Reason: by.Reason, At: by.At,
		Back: by.rollback}
}
