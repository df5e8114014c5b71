package cli

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall/api/client"
)

func (c *Call) appDeliveries() *cobra.Command {
	var limit int
	cmd := c.get("deliveries APP", "List an app's newest deliveries, also those to the shared webhook",
		"landfall app deliveries shop\nlandfall app deliveries shop --limit 1000\n"+
			"landfall app deliveries show 72d3162e-cc78-11e3-81ab-4c9367dc0958",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			query := url.Values{"app": {in["app"]}}
			deliveries, err := client.First[client.Delivery](ctx, cl, "/deliveries", query, limit)
			heading := []string{"DELIVERY", "RECEIVED", "WEBHOOK", "EVENT", "DECISION"}
			return printRows(c, deliveries, err, heading, func(d client.Delivery) []string {
				return []string{d.ID, Local(d.Received), webhookOf(d), d.Event, d.Decision}
			})
		})
	cmd.Flags().IntVar(&limit, "limit", 100, "how many at most (0: all)")
	replay := c.get("replay ID", "Judge a delivery again, as if it came now",
		"landfall app deliveries replay 72d3162e-cc78-11e3-81ab-4c9367dc0958",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			return ask(ctx, cl, http.MethodPost, pathOf("deliveries", in["id"], "replay"), nil, c.showDelivery)
		})
	replay.Long = `Judge a delivery again, as if it came now.

One that came before its app, or that could not be accepted, makes its run. Of one that has a run, that run
is shown, and nothing is done twice. What a delivery said is kept for three days; later, let the forge
deliver it again, or push.`
	cmd.AddCommand(
		c.get("show ID", "Show a delivery: what became of it, and what has to be done so that it is acted on",
			"landfall app deliveries show 72d3162e-cc78-11e3-81ab-4c9367dc0958",
			func(ctx context.Context, cl *client.Client, in Operands) error {
				return ask(ctx, cl, http.MethodGet, pathOf("deliveries", in["id"]), nil, c.showDelivery)
			}),
		replay)
	return cmd
}

// webhookOf says to which webhook a delivery came.
func webhookOf(d client.Delivery) string {
	if d.Hook == "" {
		return "shared"
	}
	return "own"
}

func (c *Call) showDelivery(d client.Delivery) error {
	return c.Print(d, func(t *Table) {
		t.field("delivery", d.ID)
		t.field("received", Local(d.Received))
		t.field("webhook", webhookOf(d))
		t.field("event", d.Event)
		t.field("decision", d.Decision)
		t.field("runs", strings.Join(d.Runs, " "))
		t.field("needed", d.Needed)
	})
}
