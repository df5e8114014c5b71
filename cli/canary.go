package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

func (c *Call) canaryCommand() *cobra.Command {
	cmd := c.group("canary", "Move calls to another version step by step, and back when it fails",
		"landfall canary create --name careful --function hello --alias prod --version 4\nlandfall canary show careful",
		c.canaryCreate(), c.canaryList(), c.canaryShow(), c.canaryDelete())
	cmd.Aliases = []string{"canary-config"}
	return cmd
}

func (c *Call) canaryCreate() *cobra.Command {
	var n client.NewCanary
	var name string
	rule := landfall.DefaultCanaryRule()
	cmd := c.getIn("create NAME", "Move the calls of an alias or a route to another version, step by step",
		"landfall canary create --name careful --function hello --alias prod --version 4 --step 10 --interval 5m\n"+
			"landfall canary create --name c --httptrigger hello --newfunction hello:3 --oldfunction hello:2 \\\n"+
			"  --increment-step 20 --increment-interval 1m --failure-threshold 10",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			n.Name, n.Step, n.Threshold, n.MinRequests = in["name"], &rule.Step, &rule.Threshold, &rule.MinRequests
			n.Interval = rule.Interval.String()
			function := cmp.Or(n.Function, n.Newer)
			if function == "" {
				return Invalid("what is moved is missing: --alias with --function and --version, or --httptrigger with " +
					"--newfunction and --oldfunction")
			}
			app, err := appOfFunction(ctx, cl, in["namespace"], name, function)
			if err != nil {
				return err
			}
			if _, n.Function, err = splitName(n.Function); err != nil {
				return err
			}
			return ask(ctx, cl, http.MethodPost, pathOf("apps", app.Name, "canaries"), n, c.printCanary)
		})
	cmd.Long = `Move the calls of an alias, or of a route with weights, from the old version to a new one.

At each interval the new version gets so many percent more, until it has all; it gets the first of them at once.
When more of its requests failed than the threshold allows, the old version gets all again, and the canary is over.
A request failed when the function did not answer, or answered with an error or a status of 500 or more.
Without requests to the new version nothing is decided. Whoever moves the alias or the route by hand ends it.`
	f := cmd.Flags()
	f.StringVar(&n.Alias, "alias", "", "alias of the function that is moved")
	f.StringVar(&n.Function, "function", "", "function that has the alias")
	f.StringVar(&n.Version, "version", "", "version that the alias is to lead to: uid, number, label or latest")
	f.StringVar(&n.Trigger, "httptrigger", "", "route whose weights are moved")
	f.StringVar(&n.Newer, "newfunction", "", "new function, as the route names it")
	f.StringVar(&n.Older, "oldfunction", "", "old function, as the route names it")
	f.IntVar(&rule.Step, "increment-step", rule.Step, "percent that the new version gets more at each step")
	f.DurationVar(&rule.Interval, "increment-interval", rule.Interval, "time between two steps: 30s, 2m, 1h")
	f.IntVar(&rule.Threshold, "failure-threshold", rule.Threshold, "percent of requests to the new version that may fail")
	f.Int64Var(&rule.MinRequests, "min-requests", rule.MinRequests,
		"requests to the new version without which nothing is decided")
	f.StringVar(&name, "app", "", "app of the canary (default: the one that has the function)")
	same := map[string]string{"route": "httptrigger", "newfn": "newfunction", "oldfn": "oldfunction",
		"step": "increment-step", "interval": "increment-interval", "threshold": "failure-threshold"}
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(same[name], name))
	})
	return cmd
}

func (c *Call) canaryList() *cobra.Command {
	return c.listIn("list", "List the canaries of a namespace", "landfall canary list",
		func(ctx context.Context, cl *client.Client, in Operands) (int, error) {
			all, err := client.List[client.Canary](ctx, cl, "/canaries", ofNamespace(in))
			heading := []string{"CANARY", "APP", "MOVES", "STATE", "NEW", "FAILED", "OLD", "FAILED", "NEXT"}
			return len(all), printRows(c, all, err, heading, func(k client.Canary) []string {
				next := ""
				if !k.Next.IsZero() {
					next = Local(k.Next)
				}
				return []string{k.Name, k.App, movedBy(k), string(k.State), share(k.Newer, k.Weight), failed(k.Newer),
					share(k.Older, 100-k.Weight), failed(k.Older), next}
			})
		})
}

// movedBy says what a canary moves.
func movedBy(k client.Canary) string {
	if k.Alias != "" {
		return "alias " + k.Newer.Function + ":" + k.Alias
	}
	return "route " + k.Trigger
}

func share(s client.CanarySide, percent int) string { return s.Ref + " " + strconv.Itoa(percent) + "%" }

func failed(s client.CanarySide) string { return fmt.Sprintf("%d of %d", s.Failures, s.Requests) }

func (c *Call) canaryShow() *cobra.Command {
	var name string
	cmd := c.getIn("show NAME", "Show a canary: weights, figures, the next step, and its history",
		"landfall canary show careful", func(ctx context.Context, cl *client.Client, in Operands) error {
			k, err := findCanary(ctx, cl, in, name)
			if err == nil {
				err = cl.Do(ctx, http.MethodGet, pathOf("apps", k.App, "canaries", k.Name), nil, &k)
			}
			if err != nil {
				return err
			}
			return c.printCanary(k)
		})
	cmd.Aliases = []string{"get"}
	cmd.Flags().StringVar(&name, "app", "", "app of the canary, when several have one of the name")
	return cmd
}

// findCanary returns the canary of a name. Conflict when several apps of the namespace have one, and none is named.
func findCanary(ctx context.Context, cl *client.Client, in Operands, app string) (k client.Canary, err error) {
	all, err := client.List[client.Canary](ctx, cl, "/canaries", ofNamespace(in))
	if err != nil {
		return k, err
	}
	all = slices.DeleteFunc(all, func(k client.Canary) bool {
		return k.Name != in["name"] || app != "" && k.App != app
	})
	switch len(all) {
	case 0:
		return k, landfall.Errorf("cli", landfall.NotFound, "there is no canary %q; there are: landfall canary list",
			in["name"])
	case 1:
		return all[0], nil
	}
	return k, landfall.Errorf("cli", landfall.Conflict, "several apps have a canary %s: say which with --app", in["name"])
}

func (c *Call) canaryDelete() *cobra.Command {
	var name string
	cmd := c.getIn("delete NAME", "Stop a canary; the weights stay as they are", "landfall canary delete careful",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			k, err := findCanary(ctx, cl, in, name)
			if err == nil {
				err = cl.Do(ctx, http.MethodDelete, pathOf("apps", k.App, "canaries", k.Name), nil, nil)
			}
			if err != nil {
				return err
			}
			return c.printDeleted("canary", k.Name)
		})
	cmd.Flags().StringVar(&name, "app", "", "app of the canary, when several have one of the name")
	return cmd
}

func (c *Call) printCanary(k client.Canary) error {
	return c.Print(k, func(t *Table) {
		t.field("canary", k.Name)
		t.field("app", k.App)
		t.field("moves", movedBy(k))
		t.field("state", string(k.State))
		t.field("new", share(k.Newer, k.Weight)+", "+failed(k.Newer)+" failed")
		t.field("old", share(k.Older, 100-k.Weight)+", "+failed(k.Older)+" failed")
		t.field("rule", fmt.Sprintf("%d%% more each %s; back above %d%% failures; at least %d requests", k.Step, k.Interval,
			k.Threshold, k.MinRequests))
		t.field("reason", k.Reason)
		if !k.Next.IsZero() {
			t.field("next", Local(k.Next))
		}
		if !k.Finished.IsZero() {
			t.field("finished", Local(k.Finished))
		}
		for _, s := range k.History {
			t.field("history", fmt.Sprintf("%s %s %d%%: %s", Local(s.At), s.Verdict, s.Weight, s.Reason))
		}
	})
}
