package cli

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall/api/client"
)

func (c *Call) planCommand() *cobra.Command {
	return c.group("plan", "Say what the apps of a namespace may use together, and show what they use",
		"landfall plan set team --apps 10 --memory 1GiB\nlandfall plan show team", c.planSet(),
		c.get("show [NAMESPACE]", "Show the limits of a namespace, or of all, beside what is used",
			"landfall plan show\nlandfall plan show team -o json", c.planShow))
}

func (c *Call) planSet() *cobra.Command {
	given := map[string]*string{}
	cmd := c.get("set NAMESPACE", "Set limits for the apps of a namespace",
		"landfall plan set team --apps 10 --releases 50 --memory 1GiB --cpu 2000m --executions 100 --bytes 20GiB\n"+
			"landfall plan set team --apps none",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			var plan client.NamespacePlan
			path := pathOf("plans", in["namespace"])
			if err := cl.Do(ctx, http.MethodGet, path, nil, &plan); err != nil {
				return err
			}
			limits, said := &plan.Limits, false
			for name, limit := range map[string]**int64{
				"apps": &limits.Apps, "releases": &limits.Releases, "memory": &limits.Memory, "cpu": &limits.MilliCPU,
				"executions": &limits.Executions, "bytes": &limits.Bytes,
			} {
				if *given[name] == "" {
					continue
				}
				var err error
				if *limit, err = parseLimit(name, *given[name]); err != nil {
					return err
				}
				said = true
			}
			if !said {
				return Invalid("say what the limit is: landfall plan set %s --apps 10", in["namespace"])
			}
			return ask(ctx, cl, http.MethodPut, path, limits, c.showPlan)
		})
	cmd.Long = `Set limits for the apps of a namespace. What is not named stays, and none takes a limit away.

A push, a version that is made by hand, a new app and a move of live that ask for more are refused, with the
figures. Lowering a limit takes nothing away: what is live stays live, and only what is asked for from then
on counts. Functions count once for each live release, with the memory and the processors of one process
(128 MiB and 1000m unless the spec says otherwise) and with their concurrency (16).`
	flags := cmd.Flags()
	for name, usage := range map[string]string{
		"apps": "apps: a number, or none", "releases": "accessible releases of all apps",
		"memory": "memory of the functions that are live: 1GiB", "cpu": "processors of the functions that are live: 2000m",
		"executions": "executions at the same time of the functions that are live", "bytes": "stored bytes: 20GiB",
	} {
		given[name] = flags.String(name, "", usage)
	}
	return cmd
}

// parseLimit reads a limit of a plan; nil is none.
func parseLimit(name, text string) (limit *int64, err error) {
	if text == "none" {
		return limit, nil
	}
	right, number, factor := "a number, or none", text, 1.0
	switch name {
	case "memory", "bytes":
		right = "bytes such as 512MiB or 20GiB, or none"
		const step = 1024
		for i, unit := range []string{"K", "M", "G", "T"} {
			if rest, ok := strings.CutSuffix(strings.TrimSuffix(strings.TrimSuffix(text, "B"), "i"), unit); ok {
				number, factor = rest, math.Pow(step, float64(i+1))
			}
		}
	case "cpu":
		right = "thousandths of a processor such as 2000m, processors such as 2, or none"
		var milli bool
		if number, milli = strings.CutSuffix(text, "m"); !milli {
			factor = 1000
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	n *= factor
	if err != nil || n < 0 || n > 1<<60 || n != math.Trunc(n) {
		return nil, Invalid("--%s is %q; right would be %s", name, text, right)
	}
	return new(int64(n)), nil
}

func (c *Call) planShow(ctx context.Context, cl *client.Client, in Operands) error {
	if in["namespace"] != "" {
		return ask(ctx, cl, http.MethodGet, pathOf("plans", in["namespace"]), nil, c.showPlan)
	}
	plans, err := client.List[client.NamespacePlan](ctx, cl, "/plans", nil)
	if err != nil {
		return err
	}
	return c.Print(plans, func(t *Table) { showPlans(t, plans...) })
}

func (c *Call) showPlan(p client.NamespacePlan) error {
	return c.Print(p, func(t *Table) { showPlans(t, p) })
}

// showPlans adds a row for each limit of each plan.
func showPlans(t *Table, plans ...client.NamespacePlan) {
	t.Row("NAMESPACE", "WHAT", "USED", "LIMIT", "OVER")
	for _, p := range plans {
		for _, line := range p.Limits.Lines(p.Used) {
			limit, over := "none", ""
			if line.Limit != nil {
				limit = line.Text(*line.Limit)
				if line.Used > *line.Limit {
					over = line.Text(line.Used - *line.Limit)
				}
			}
			t.Row(p.Namespace, line.Name, line.Text(line.Used), limit, over)
		}
	}
}
