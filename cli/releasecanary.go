package cli

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

func (c *Call) releaseCanary() *cobra.Command {
	var plan client.NewReleaseCanary
	var stop bool
	var interval time.Duration
	var threshold int
	cmd := c.get("canary APP [RELEASE]", "Let a share of the visitors of the live address get another release whole",
		"landfall release canary shop owf2k7qa --weight 10 --step 20 --interval 5m --threshold 1\n"+
			"landfall release canary shop\nlandfall release canary shop --stop",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			switch {
			case stop && in["release"] != "":
				return Invalid("--stop ends the canary that runs, and takes no release")
			case stop:
				query := queryOf(map[string]string{"reason": plan.Reason}).Encode()
				return ask(ctx, cl, http.MethodDelete, appPath(in, "canary")+"?"+query, nil, c.showReleaseCanary)
			case in["release"] == "":
				return ask(ctx, cl, http.MethodGet, appPath(in, "canary"), nil, c.showReleaseCanary)
			}
			plan.Release, plan.Interval = in["release"], interval.String()
			plan.Threshold = &threshold
			return ask(ctx, cl, http.MethodPut, appPath(in, "canary"), plan, c.showReleaseCanary)
		})
	cmd.Long = `Let a share of the visitors of the live address get another release whole.

A visitor keeps the release that they got, by a cookie. The share grows by --step at each --interval, and then
the release becomes live. It returns by itself when it fails more often than live, by more than --threshold
per cent of its requests, of which it needs 100. A push to production, a rollback or a promotion ends it.
Schedules and queues stay with live. Without a release the command shows the canary that runs, or the last one.`
	const weight, step, pause = 10, 20, 5 * time.Minute
	f := cmd.Flags()
	f.IntVar(&plan.Weight, "weight", weight, "percent of the visitors that get it at first")
	f.IntVar(&plan.Step, "step", step, "percent more at each interval")
	f.DurationVar(&interval, "interval", pause, "between two steps")
	f.IntVar(&threshold, "threshold", 1, "percent of failures that it may have more than live")
	f.StringVar(&plan.Reason, "reason", "", "why; it is kept in the history")
	f.BoolVar(&stop, "stop", false, "end the canary that runs")
	return cmd
}

func (c *Call) showReleaseCanary(canary client.ReleaseCanary) error {
	percent := func(n int) string { return strconv.Itoa(n) + "%" }
	return c.Print(canary, func(t *Table) {
		t.field("app", canary.App)
		t.field("canary", string(canary.Release))
		t.field("live", string(canary.Live))
		state := string(canary.State)
		if canary.Reason != state {
			state += ": " + canary.Reason
		}
		t.field("state", state)
		t.field("weight", fmt.Sprintf("%d%% of the visitors, %d%% more every %s", canary.Weight, canary.Step,
			canary.Interval))
		t.field("threshold", fmt.Sprintf("%d%% more failures than live", canary.Threshold))
		t.field("failed", "of the canary "+failedOf(canary.Canary)+" requests, of live "+failedOf(canary.LiveSide))
		t.field("started", Local(canary.Started))
		if canary.Held {
			t.field("next step", "when live is not held any more: landfall release resume "+canary.App)
		} else {
			t.field("next step", Local(canary.Next))
		}
		t.field("ended", Local(canary.Ended))
		t.field("url", canary.URL)
		t.section("AT", "WEIGHT", "STATE", "CANARY", "LIVE", "BY", "REASON")
		for _, s := range canary.History {
			t.Row(Local(s.At), percent(s.Weight), string(s.State), failedOf(s.Canary), failedOf(s.Live), s.Actor, s.Reason)
		}
	})
}

// failedOf returns how many requests failed, and of how many.
func failedOf(f landfall.CanaryFigures) string {
	return fmt.Sprintf("%d of %d", f.Failures, f.Requests)
}
