package accept

import (
	"context"
	"fmt"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

// replayCommand is what people type to have a delivery judged again.
const replayCommand = "landfall app deliveries replay "

// recordFailure records a delivery that could not be accepted for a reason of its own, so that it can be explained, and
// judged again. It returns the reason.
func (r WebhookReceiver) recordFailure(ctx context.Context, event webhook.Event, packed []byte, cause error) error {
	if landfall.Is(cause, landfall.Unauthorized, landfall.Unavailable, landfall.Canceled) {
		return cause
	}
	d := event.Delivery
	d.Unmatched = true
	d.Decision = fmt.Sprintf("It could not be accepted: %s. It is judged again when it comes again, or with %s%s.",
		landfall.MessageOf(cause), replayCommand, d.ID)
	err := r.DB.Update(ctx, func(tx *store.Tx) error {
		if k, err := knownOf(ctx, tx, event); err != nil || k.acted {
			return err
		}
		if err := tx.DeleteDelivery(ctx, d.Hook, d.ID); err != nil {
			return err
		}
		if err := keepPayload(ctx, tx, d, packed); err != nil {
			return err
		}
		apps, err := tx.Apps(ctx)
		if err != nil {
			return err
		}
		var ids []string
		for _, app := range apps {
			if matchesRepository(app, event.Repository, true) {
				ids = append(ids, app.ID)
			}
		}
		return tx.CreateDelivery(ctx, d, ids...)
	})
	if err != nil {
		r.Logger.ErrorContext(ctx, "a delivery that was not accepted could not be recorded", "delivery", d.ID, "error", err)
	}
	return cause
}

// Replay judges a delivery again, as if it came now, and returns what is recorded of it then. In apps that it concerned
// before, nothing is done again. NotFound when there is no such delivery, and when nothing is known of what it said.
// Conflict for a command that is old: who gave it may not want it any more.
func (r WebhookReceiver) Replay(ctx context.Context, hook, id, by string) (landfall.Delivery, error) {
	d, err := r.DB.Delivery(ctx, hook, id)
	if err != nil {
		return d, err
	}
	event, err := r.read(ctx, d)
	if landfall.Is(err, landfall.NotFound) && !d.Unmatched {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	if event.Command != nil && r.Now().Sub(d.Received) > landfall.CommandLife {
		return d, landfall.Errorf("accept.Replay", landfall.Conflict, "the delivery %s holds a command of %s, and a command "+
			"counts for an hour: it must be given again at the forge", d.ID, event.Command.Sender.Login)
	}
	event.ReplayedBy = by
	secrets, err := r.Secrets(ctx, hook)
	if err != nil {
		return d, err
	}
	event.Secret = secrets[0] // each counts
	stored, _, err := r.Accept(ctx, event)
	if err != nil {
		return stored, err
	}
	return stored, r.Pulls.lookAt(ctx, event)
}

// read returns what a delivery asked for, from what is kept of it. NotFound when that is gone.
func (acceptor *Acceptor) read(ctx context.Context, d landfall.Delivery) (webhook.Event, error) {
	packed, err := acceptor.DB.Payload(ctx, d.Hook, d.ID)
	if landfall.Is(err, landfall.NotFound) {
		return webhook.Event{}, landfall.Wrapf("accept.Replay", landfall.NotFound, err,
			"what the delivery %s said is not kept any more; let the forge deliver it again, or push", d.ID)
	}
	if err != nil {
		return webhook.Event{}, err
	}
	payload, err := unpack(packed)
	if err != nil {
		return webhook.Event{}, err
	}
	return webhook.EventOf(d, payload)
}

// Explain says what somebody has to do so that a delivery is acted on; empty when nothing is to be done.
func (acceptor *Acceptor) Explain(ctx context.Context, d landfall.Delivery) (string, error) {
	if !d.Unmatched {
		return "", nil
	}
	event, err := acceptor.read(ctx, d)
	if landfall.Is(err, landfall.NotFound) && d.Asked > 0 {
		return fmt.Sprintf("The forge was asked %s, of %d at most, to deliver it again; later it can be done by hand at the "+
			"forge, on the page of the webhook.", landfall.Count(d.Asked, "time"), maxAsked), nil
	}
	if landfall.Is(err, landfall.NotFound) {
		return landfall.MessageOf(err), nil
	}
	if err != nil {
		return "", err
	}
	apps, err := acceptor.DB.Apps(ctx)
	if err != nil {
		return "", err
	}
	owner := ""
	if d.Hook != "" {
		hook, err := acceptor.DB.Hook(ctx, d.Hook)
		if err != nil {
			return "", err
		}
		owner = hook.App
	}
	other := ""
	for _, app := range apps {
		if !matchesRepository(app, event.Repository, d.Hook == "") {
			continue
		}
		if d.Hook == "" || app.ID == owner {
			return fmt.Sprintf("The app %s has this repository now: %s%s makes its run.", app.Name, replayCommand, d.ID), nil
		}
		other = app.Name
	}
	switch {
	case other != "":
		return fmt.Sprintf("The app %s has this repository: give the forge the address and the secret of that app's webhook "+
			"(landfall app hook %[1]s --rotate), or push again.", other), nil
	case d.Hook != "":
		return "The webhook stands in another repository than its app's: remove it there.", nil
	}
	return fmt.Sprintf("No app has this repository. Make one: landfall app create NAME --repo %s; "+
		"then %s%s makes its run.", cloneOf(event.Repository), replayCommand, d.ID), nil
}

// cloneOf returns the address to clone a repository from.
func cloneOf(r webhook.Repository) string {
	if len(r.URLs) == 0 {
		return "ADDRESS"
	}
	return r.URLs[0]
}
