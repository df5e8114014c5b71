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
	sent := attempts{l.Acceptor, l.Deliveries, l.own.ID, l.state.Repository, l.state.ID}
	failed, refused, err := sent.failed(ctx, since)
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
	if err := sent.again(ctx, failed); err != nil {
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

// attempts are those of a forge at delivering to one webhook.
type attempts struct {
	*Acceptor

	at   ForgeDeliveries
	hook string                    // as deliveries are recorded
	of   landfall.GitHubRepository // whose webhook it is; without a name: the App's
	id   int64                     // of a repository's webhook, at the forge
}

// failed returns the attempts since a time after which an event that matters was not accepted, oldest first, and when
// the last one was refused for its signature.
func (a attempts) failed(ctx context.Context, since time.Time) (failed []landfall.ForgeDelivery, refused time.Time,
	err error) {
	all, err := a.at.Deliveries(ctx, a.of, a.id, since)
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
		known, err := a.DB.Delivery(ctx, a.hook, d.Delivery)
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

// again asks the forge to deliver again what failed, and records that.
func (a attempts) again(ctx context.Context, failed []landfall.ForgeDelivery) error {
	for _, d := range failed {
		record := landfall.Delivery{Hook: a.hook, ID: d.Delivery, Event: d.Event, Received: a.Now(), Unmatched: true,
			Repository: d.Repository, Decision: fmt.Sprintf("The forge could not deliver it at %s (%d); it was asked to "+
				"deliver it again.", d.At.UTC().Format(time.DateTime+" MST"), d.Status)}
		err := a.DB.Update(ctx, func(tx *store.Tx) error { return tx.AskDelivery(ctx, record) })
		if err == nil {
			err = a.at.Redeliver(ctx, a.of, a.id, d.ID)
		}
		if landfall.Ignore(err, landfall.NotFound) != nil {
			return err
		}
	}
	return nil
}
