package accept

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

// QueueHooks is the queue of the jobs that look after webhooks at the forge.
const QueueHooks = "hook"

// TopicHook is the topic of these jobs. The job has an app's ID.
const TopicHook = QueueHooks + "/look"

// ForgeHooks are the webhooks at a forge. The kinds of their errors are NotFound, Forbidden, Invalid and Unavailable.
type ForgeHooks interface {
	// Hook returns a webhook; changed is false when its tag is still this one.
	Hook(ctx context.Context, of landfall.GitHubRepository, id int64, tag string) (hook landfall.ForgeHook, changed bool,
		err error)
	// FindHook returns the webhook that leads to an address, without an ID when there is none.
	FindHook(ctx context.Context, of landfall.GitHubRepository, address string) (landfall.ForgeHook, error)
	// PutHook makes a webhook, or changes the one with its ID.
	PutHook(ctx context.Context, of landfall.GitHubRepository, hook landfall.ForgeHook, secret string) (landfall.ForgeHook,
		error)
	// DeleteHook deletes a webhook. One that is not there is deleted.
	DeleteHook(ctx context.Context, of landfall.GitHubRepository, id int64) error
}

// ForgeDeliveries are what webhooks at a forge delivered, or could not: those of a repository or, without one, of the
// App.
type ForgeDeliveries interface {
	// Deliveries returns the attempts since a time, newest first.
	Deliveries(ctx context.Context, of landfall.GitHubRepository, id int64, since time.Time) ([]landfall.ForgeDelivery,
		error)
	// Redeliver lets the forge deliver again what it delivered in an attempt.
	Redeliver(ctx context.Context, of landfall.GitHubRepository, id, attempt int64) error
}

// Hooks makes the webhooks of apps at their forge, and looks after them: one that we made is made again when somebody
// deletes it, and mended when somebody changes it; of one that a person made it is said what is wrong. A nil Hooks does
// nothing.
type Hooks struct {
	*Acceptor

	Forge      ForgeHooks
	Deliveries ForgeDeliveries
	Host       string                   // where the forge's repositories are
	Address    func(hook string) string // of a hook, for the forge

	listed sync.Map // app ids, and when deliveries of their webhooks were listed last
}

// Enqueue has the webhook of an app looked after soon.
func (h *Hooks) Enqueue(tx *store.Tx, app string) {
	if h != nil {
		tx.Enqueue(TopicHook, app, time.Time{})
	}
}

// Wake makes a job for each app whose webhook is to be looked after, as WakeCatchUp does.
func (h *Hooks) Wake(ctx context.Context, round int64, within time.Duration) error {
	if h == nil {
		return nil
	}
	return h.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error {
		apps, err := tx.Apps(ctx)
		if err != nil {
			return err
		}
		known, err := tx.HookStates(ctx)
		if err != nil {
			return err
		}
		apps = slices.DeleteFunc(apps, func(app landfall.App) bool {
			_, ours := h.repository(app)
			return !ours && !slices.ContainsFunc(known, func(s landfall.HookState) bool { return s.App == app.ID })
		})
		for i, app := range apps {
			var at time.Time
			if within > 0 {
				at = h.Now().Add(within * time.Duration(i) / time.Duration(len(apps)))
			}
			tx.EnqueueOnceAt(TopicHook, app.ID, round, at)
		}
		return nil
	})
}

// repository returns the repository of an app, if it is at the forge and the app is not deleted.
func (h *Hooks) repository(app landfall.App) (landfall.GitHubRepository, bool) {
	owner, name, ok := webhook.NamesAt(app.Repository, h.Host)
	if !ok || !app.Deleted.IsZero() || app.Stopped() {
		return landfall.GitHubRepository{}, false
	}
	if app.GitHub.ID != 0 {
		owner, name = app.GitHub.Owner, app.GitHub.Name
	}
	return landfall.GitHubRepository{Owner: owner, Name: name}, true
}

// Look looks after the webhook of an app. Unavailable when the forge does not answer, or not now.
func (h *Hooks) Look(ctx context.Context, appID string) error {
	app, err := h.DB.App(ctx, appID)
	if err != nil {
		return landfall.Ignore(err, landfall.NotFound)
	}
	state, err := h.DB.HookState(ctx, appID)
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return err
	}
	known := err == nil
	state.App = app.ID
	of, ours := h.repository(app)
	if !ours {
		return h.remove(ctx, state)
	}
	credentials, err := h.DB.Credentials(ctx, appID)
	switch {
	case err != nil:
		return err
	case credentials.App && known:
		return h.remove(ctx, state)
	case state.ID == 0 && !state.Made && (app.GitHubConfirmed || credentials.App):
		return nil // the installation's own webhook tells of it, or that of its GitHub App
	}
	own, err := h.DB.HookOf(ctx, appID)
	if err != nil {
		return landfall.Ignore(err, landfall.NotFound)
	}
	if state.Repository != of {
		state.Repository, state.ID, state.Tag = of, 0, ""
	}
	look := hookLook{Hooks: h, app: app, own: own, state: state}
	err = look.tend(ctx)
	if err == nil {
		err = look.recover(ctx)
	}
	if err != nil {
		look.state.Tag = "" // so that the next look sees it whole
	}
	if landfall.Is(err, landfall.Forbidden, landfall.NotFound, landfall.Invalid) {
		look.state.Problem, err = h.problem(of, app, err), nil
	}
	return errors.Join(err, h.DB.Update(ctx, func(tx *store.Tx) error { return tx.PutHookState(ctx, look.state) }))
}

// problem says why a webhook cannot be looked after, and what to do.
func (h *Hooks) problem(of landfall.GitHubRepository, app landfall.App, err error) string {
	name := of.Owner + "/" + of.Name
	if landfall.Is(err, landfall.Invalid) {
		return fmt.Sprintf("The webhook of %s was not made: %s.", name, landfall.MessageOf(err))
	}
	return fmt.Sprintf("The token of this installation may not administer webhooks of %s. Give it that (admin:repo_hook, "+
		"or Webhooks: read and write), or make the webhook by hand: the address above, the content type application/json, "+
		"the secret that landfall app hook %s --rotate shows, and the events %s.", name, app.Name,
		strings.Join(webhook.Events(), ", "))
}

// remove deletes the webhook of an app that is not there any more, has no repository at the forge, or is reached as the
// GitHub App.
func (h *Hooks) remove(ctx context.Context, state landfall.HookState) error {
	if state.ID != 0 && state.Made {
		err := h.Forge.DeleteHook(ctx, state.Repository, state.ID)
		if landfall.Ignore(err, landfall.Forbidden) != nil {
			return err
		}
	}
	return h.DB.Update(ctx, func(tx *store.Tx) error { return tx.DeleteHookState(ctx, state.App) })
}

// hookLook is one look at a webhook.
type hookLook struct {
	*Hooks

	app     landfall.App
	own     landfall.Hook
	state   landfall.HookState
	changed bool // it is not as it was at the last look
}

// digest is of the secret that the webhook is to have.
func (l *hookLook) digest() landfall.Digest { return landfall.DigestOf([]byte(l.own.Secret)) }

// wanted is what the webhook has to be.
func (l *hookLook) wanted() landfall.ForgeHook {
	return landfall.ForgeHook{ID: l.state.ID, URL: l.Address(l.own.ID), Events: webhook.Events(), JSON: true,
		Verified: true, Signed: true, Active: true}
}

// tend makes the webhook, or compares it with what it has to be.
func (l *hookLook) tend(ctx context.Context) (err error) {
	wanted := l.wanted()
	var found landfall.ForgeHook
	gone := false
	if l.state.ID != 0 {
		found, l.changed, err = l.Forge.Hook(ctx, l.state.Repository, l.state.ID, l.state.Tag)
		switch {
		case landfall.Is(err, landfall.NotFound):
			gone = true
		case err != nil:
			return err
		case !l.changed && (!l.state.Made || l.state.Secret == l.digest()):
			l.state.Looked = l.Now()
			return nil
		case !l.changed:
			found = wanted
		}
	}
	if found.ID == 0 {
		l.changed = true
		if found, err = l.Forge.FindHook(ctx, l.state.Repository, wanted.URL); err != nil {
			return err
		}
	}
	if found.ID == 0 {
		return l.make(ctx, wanted, gone)
	}
	wrong := strings.Join(differences(found, wanted), ", ")
	if !l.state.Made && wrong != "" {
		l.saw(found)
		l.state.Tag = "" // so that it is compared until it is right
		l.state.Problem = "The webhook, which a person made, " + wrong + ": change it at the forge."
		return nil
	}
	if !l.state.Made || wrong == "" && l.state.Secret == l.digest() {
		l.saw(found)
		return nil
	}
	wanted.ID = found.ID
	if err := l.put(ctx, wanted); err != nil || wrong == "" {
		return err
	}
	l.mended(ctx, wrong)
	return nil
}

// make makes the webhook; again, when one that was there is gone.
func (l *hookLook) make(ctx context.Context, wanted landfall.ForgeHook, gone bool) error {
	// should the answer be lost, it is found by its address, and known for ours
	wanted.ID, l.state.ID, l.state.Made = 0, 0, true
	if err := l.DB.Update(ctx, func(tx *store.Tx) error { return tx.PutHookState(ctx, l.state) }); err != nil {
		return err
	}
	if err := l.put(ctx, wanted); err != nil || !gone {
		return err
	}
	l.mended(ctx, "was deleted")
	return nil
}

// put makes or changes the webhook, with its secret.
func (l *hookLook) put(ctx context.Context, wanted landfall.ForgeHook) error {
	put, err := l.Forge.PutHook(ctx, l.state.Repository, wanted, l.own.Secret)
	if err != nil {
		return err
	}
	l.saw(put)
	l.state.Secret = l.digest()
	return nil
}

// saw records how the webhook is at the forge.
func (l *hookLook) saw(hook landfall.ForgeHook) {
	l.state.ID, l.state.Tag, l.state.Looked, l.state.Problem = hook.ID, hook.Tag, l.Now(), ""
}

// mended records that the webhook was not as it has to be, and was mended.
func (l *hookLook) mended(ctx context.Context, wrong string) {
	l.state.Mended, l.state.MendedAt = "It "+wrong+", and was mended.", l.Now()
	l.Logger.With(l.app.LogAttrs()...).WarnContext(ctx, "the webhook at the forge was mended", "wrong", wrong)
}

// differences says how a webhook differs from what it has to be.
func differences(is, wanted landfall.ForgeHook) (all []string) {
	var lacks []string
	for _, event := range wanted.Events {
		if !slices.Contains(is.Events, event) && !slices.Contains(is.Events, "*") {
			lacks = append(lacks, event)
		}
	}
	for _, d := range []struct {
		is   bool
		text string
	}{
		{!is.Active, "was disabled"},
		{is.URL != wanted.URL, "had another address"},
		{!is.JSON, "had the content type of a form"},
		{!is.Signed, "had no secret"},
		{!is.Verified, "did not check certificates"},
		{len(lacks) > 0, "lacked the events " + strings.Join(lacks, ", ")},
	} {
		if d.is {
			all = append(all, d.text)
		}
	}
	return all
}
