package accept

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

const (
	// maxAsked is how often a forge is asked to deliver the same event again.
	maxAsked = 5
	// listEvery is how often deliveries are listed when nothing says that there was one.
	listEvery = time.Hour
	// clockSkew is how far a forge's clock may be from ours.
	clockSkew = 10 * time.Minute
)

// recover asks the forge to deliver again what it could not deliver to the webhook.
func (l *hookLook) recover(ctx context.Context) error {
	now := l.Now()
	last, _ := l.listed.Load(l.app.ID)
	at, _ := last.(time.Time)
	if l.state.ID == 0 || !l.changed && now.Sub(at) < listEvery {
		return nil
	}
	since := now.Add(-landfall.KeepPayloads)
	if l.state.Since.After(since) {
		since = l.state.Since
	}
	failed, refused, err := l.failed(ctx, l.own.ID, l.state.Repository, l.state.ID, since)
	if err != nil {
		return err
	}
	if l.state.Made && refused.After(l.state.MendedAt) { // the forge says that there is a secret, but not which
		if err := l.put(ctx, l.wanted()); err != nil {
			return err
		}
		l.mended(ctx, "had another secret")
	}
	if l.state.Since = now.Add(-clockSkew); len(failed) > 0 {
		l.state.Since = failed[0].At
	}
	if err := l.ask(ctx, l.own.ID, l.state.Repository, l.state.ID, failed); err != nil {
		return err
	}
	l.listed.Store(l.app.ID, now)
	return nil
}

// recordRecovered says in the records of a delivery, and of its runs, that the forge had to be asked for it.
func (r WebhookReceiver) recordRecovered(ctx context.Context, tx *store.Tx, d *landfall.Delivery, asked int) error {
	d.Asked = asked
	d.Decision += " (Recovered: the forge could not deliver it before.)"
	for _, run := range d.Runs {
		err := tx.AppendLog(ctx, run, landfall.StepAccept, r.Now(),
			"notice: recovered: the forge could not deliver this event; it was asked to deliver it again")
		if err != nil {
			return err
		}
	}
	return nil
}

// failed returns the attempts at deliveries to a hook after which an event that matters was not accepted, oldest first,
// and when the last one was refused for its signature.
func (h *Hooks) failed(ctx context.Context, hook string, of landfall.GitHubRepository, id int64,
	since time.Time) (failed []landfall.ForgeDelivery, refused time.Time, err error) {
	all, err := h.Deliveries.Deliveries(ctx, of, id, since)
	if err != nil {
		return nil, refused, err
	}
	seen := map[string]bool{}
	for _, d := range all {
		if d.Status == http.StatusUnauthorized && d.At.After(refused) {
			refused = d.At
		}
		if seen[d.Delivery] {
			continue
		}
		seen[d.Delivery] = true
		if !d.Failed() || !webhook.MattersLate(d.Event, d.Action) {
			continue
		}
		known, err := h.DB.Delivery(ctx, hook, d.Delivery)
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return nil, refused, err
		}
		if err != nil || known.Unmatched && known.Asked < maxAsked {
			failed = append(failed, d)
		}
	}
	slices.SortFunc(failed, func(a, b landfall.ForgeDelivery) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})
	return failed, refused, nil
}

// ask asks the forge to deliver again what failed, and records that.
func (h *Hooks) ask(ctx context.Context, hook string, of landfall.GitHubRepository, id int64,
	failed []landfall.ForgeDelivery) error {
	for _, d := range failed {
		record := landfall.Delivery{Hook: hook, ID: d.Delivery, Event: d.Event, Received: h.Now(), Unmatched: true,
			Repository: d.Repository, Decision: fmt.Sprintf("The forge could not deliver it at %s (%d); it was asked to "+
				"deliver it again.", d.At.UTC().Format(time.DateTime+" MST"), d.Status)}
		err := h.DB.Update(ctx, func(tx *store.Tx) error { return tx.AskDelivery(ctx, record) })
		if err == nil {
			err = h.Deliveries.Redeliver(ctx, of, id, d.ID)
		}
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return err
		}
	}
	return nil
}
