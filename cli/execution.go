package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

const anExecution = "7d0c6c1e-3a0f-4a43-9f39-0b1f6f5b8c11"

func (c *Call) executionCommand() *cobra.Command {
	return c.group("execution", "Show what became of calls of functions, and call them on record",
		"landfall execution list --function hello --state failed\nlandfall execution logs -f "+anExecution,
		c.executionList(),
		c.get("show ID", "Show one execution", "landfall execution show "+anExecution,
			func(ctx context.Context, cl *client.Client, in Operands) error {
				return ask(ctx, cl, http.MethodGet, executionPath(in["id"]), nil, c.showExecution)
			}),
		c.executionCreate(),
		c.get("delete ID", "Delete an execution and its log; one that waits is not run",
			"landfall execution delete "+anExecution, func(ctx context.Context, cl *client.Client, in Operands) error {
				return cl.Do(ctx, http.MethodDelete, executionPath(in["id"]), nil, nil)
			}),
		c.get("retry ID", "Send a dead letter again: an execution that nobody waited for, and that failed in each attempt",
			"landfall execution list --dead\nlandfall execution retry "+anExecution,
			func(ctx context.Context, cl *client.Client, in Operands) error {
				return ask(ctx, cl, http.MethodPost, executionPath(in["id"])+"/retry", nil, c.showExecution)
			}),
		c.executionLogs(),
	)
}

func executionPath(id string) string { return pathOf("executions", id) }

func (c *Call) executionList() *cobra.Command {
	var app, function, state string
	var limit int
	var dead bool
	cmd := c.getIn("list", "List executions, newest first",
		"landfall execution list --limit 20\nlandfall execution list --function hello:live --state failed -o json\n"+
			"landfall execution list --dead",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			if limit < 0 {
				return Invalid("--limit is %d; right would be a number of executions, or 0 for all", limit)
			}
			if err := oneOf("state", state, "queued", "running", "succeeded", "failed"); err != nil {
				return err
			}
			if function != "" && !strings.Contains(function, "/") {
				function = in["namespace"] + "/" + function
			}
			query := queryOf(map[string]string{"app": app, "function": function, "state": state})
			if dead {
				query.Set("dead", "true")
			}
			all, err := client.First[landfall.Execution](ctx, cl, "/executions", query, limit)
			if dead {
				heading := []string{"EXECUTION", "FAILED", "FUNCTION", "VERSION", "ATTEMPTS", "REASON", "MESSAGE"}
				return printRows(c, all, err, heading, func(x landfall.Execution) []string {
					return []string{x.ID, Local(x.Finished), x.Function, string(x.Version), strconv.FormatInt(x.Attempt, 10),
						inShort(x.Reason), inShort(x.Message)}
				})
			}
			heading := []string{"EXECUTION", "CREATED", "FUNCTION", "VERSION", "STATE", "MILLISECONDS", "REASON"}
			return printRows(c, all, err, heading, func(x landfall.Execution) []string {
				return []string{x.ID, Local(x.Created), x.Function, string(x.Version), string(x.State), milliseconds(x),
					inShort(x.Reason)}
			})
		})
	cmd.Flags().StringVar(&app, "app", "", "only executions of functions of this app")
	cmd.Flags().StringVar(&function, "function", "",
		"only executions of this function: NAME, or NAME:VERSION for those of one version")
	cmd.Flags().StringVar(&state, "state", "", "only executions in this state: queued, running, succeeded, failed")
	cmd.Flags().BoolVar(&dead, "dead", false,
		"only dead letters: nobody waited for them, they failed in each attempt, and can be sent again")
	cmd.Flags().IntVar(&limit, "limit", 0, "how many at most (default: all)")
	return cmd
}

func milliseconds(x landfall.Execution) string {
	if !x.State.Final() {
		return ""
	}
	return strconv.FormatFloat(x.Duration, 'f', 3, 64)
}

// showExecution shows an execution.
func (c *Call) showExecution(x landfall.Execution) error {
	return c.Print(x, func(t *Table) {
		t.field("execution", x.ID)
		t.field("function", x.Function)
		t.field("namespace", x.Namespace)
		t.field("version", fmt.Sprintf("%s-%s (no. %d)", x.Function, x.Version, x.Number))
		t.field("app", x.App)
		t.field("release", string(x.Release))
		t.field("trigger", x.Trigger)
		t.field("event", x.Event.Type+" "+x.Event.ID+" from "+x.Event.Source)
		t.field("state", string(x.State))
		t.field("reason", x.Reason)
		t.field("message", x.Message)
		t.field("created", Local(x.Created))
		t.field("started", Local(x.Started))
		t.field("finished", Local(x.Finished))
		t.field("milliseconds", milliseconds(x))
		if x.Async {
			t.field("attempts", strconv.FormatInt(x.Attempt, 10))
			if x.Retries > 0 {
				t.field("retries", strconv.FormatInt(x.Retries, 10))
			}
			t.field("next attempt", Local(x.Next))
			t.field("sent again", Local(x.Sent))
			if x.Dead {
				t.field("dead letter", "yes; landfall execution retry "+x.ID+" sends it again")
			}
		}
		t.field("input", landfall.Count(int(x.Input), "byte"))
		t.field("output", landfall.Count(int(x.Output), "byte"))
		log := landfall.Count(int(x.Log), "byte")
		if x.LogGone {
			log += ", not kept"
		}
		t.field("log", log)
		t.field("result", string(x.Result))
	})
}

func (c *Call) executionCreate() *cobra.Command {
	var given string
	var n client.NewExecution
	var named func(in Operands) error
	var noWait bool
	cmd := c.getIn("create FUNCTION", "Run a function, on record from the start, and wait until it is over",
		"landfall execution create hello --version 3 --data '{\"name\": \"Ada\"}'\n"+
			"landfall execution create hello:live --data @order.json --no-wait",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			err := named(in)
			if err != nil {
				return err
			}
			if n.Input, err = c.readInput("data", given); err != nil {
				return err
			}
			sync := !noWait
			n.Sync = &sync
			var x landfall.Execution
			if err := cl.Do(ctx, http.MethodPost, "/executions", n, &x); err != nil {
				return err
			}
			if err := c.showExecution(x); err != nil || x.State != landfall.ExecutionFailed {
				return err
			}
			return &landfall.Error{Op: "execution create", Message: "the function failed: " + x.Message}
		})
	cmd.Long = `Run a function, on record from the start, and wait until it is over.

The execution is stored before it runs: it is run even if the server ends meanwhile, in the version that
it was created for, and its answer is kept with it.`
	named = namesFunction(cmd, &n.FunctionName)
	cmd.Flags().StringVar(&given, "data", "", "JSON that the function gets: text, @FILE, or - for standard input")
	cmd.Flags().StringVar(&given, "input", "", "as --data")
	_ = cmd.Flags().MarkHidden("input") // the name of old; the flag is there
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "print the execution and do not wait for it")
	return cmd
}

func (c *Call) executionLogs() *cobra.Command {
	var follow bool
	cmd := c.get("logs ID", "Print the log of an execution", "landfall execution logs -f "+anExecution,
		func(ctx context.Context, cl *client.Client, in Operands) error {
			return c.printLogs(ctx, cl, executionPath(in["id"])+"/log", url.Values{}, follow,
				func(landfall.ExecutionLog) string {
					return ""
				})
		})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more until the execution is over")
	return cmd
}

func (c *Call) functionLogs() *cobra.Command {
	var follow bool
	cmd := c.getIn("logs NAME", "Print what the executions of a version of a function logged",
		"landfall function logs hello\nlandfall function logs hello:live -f",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			ref, err := landfall.ParseReference(in["name"])
			if err != nil {
				return err
			}
			query := url.Values{"namespace": {cmp.Or(ref.Namespace, in["namespace"])}, "version": {ref.Selector}}
			return c.printLogs(ctx, cl, "/functions/"+url.PathEscape(ref.Name)+"/log", query, follow,
				func(l landfall.ExecutionLog) string {
					const short = 8
					return l.Time.In(zone()).Format(time.DateTime) + "  " +
						printable(l.Execution[:min(len(l.Execution), short)]) + "  "
				})
		})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more, until interrupted")
	return cmd
}

// printLogs prints a log as it comes: lines for people, each behind what before says, or the pieces for programs.
func (c *Call) printLogs(
	ctx context.Context, cl *client.Client, path string, query url.Values, follow bool,
	before func(landfall.ExecutionLog) string,
) error {
	query.Set("follow", strconv.FormatBool(follow))
	pieces := []landfall.ExecutionLog{}
	err := cl.FollowExecutions(ctx, path+"?"+query.Encode(), func(l landfall.ExecutionLog) error {
		if c.output != "" {
			pieces = append(pieces, l)
			return nil
		}
		var lines strings.Builder
		for line := range strings.SplitSeq(strings.TrimSuffix(l.Text, "\n"), "\n") {
			lines.WriteString(before(l) + landfall.TerminalText(line) + "\n")
		}
		_, err := io.WriteString(c.Stdout, lines.String())
		return err
	})
	if err != nil || c.output == "" {
		return err
	}
	return c.Print(pieces, nil)
}
