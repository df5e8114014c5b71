package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

func (c *Call) runCommand() *cobra.Command {
	return c.group("run", "Show runs: what became of each push", "landfall run list --app shop\nlandfall run logs -f RUN",
		c.runList(),
		c.get("show ID", "Show one run with its steps, changes and reports",
			"landfall run show 0199e0c4-7b1c-7c3e-9d6f-5a1b2c3d4e5f", c.runShow), c.runLogs(),
		c.runRetry(), c.runApprove(), c.runDecline(),
		c.get("cancel ID", "End an unfinished run", "landfall run cancel 0199e0c4-7b1c-7c3e-9d6f-5a1b2c3d4e5f",
			func(ctx context.Context, cl *client.Client, in Operands) error {
				return ask(ctx, cl, http.MethodPost, runPath(in["id"])+"/cancel", nil, c.showRun)
			}),
	)
}

func runPath(id string) string { return pathOf("runs", id) }

// queryOf returns the query of the values that are given.
func queryOf(values map[string]string) url.Values {
	query := url.Values{}
	for name, value := range values {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

func (c *Call) runList() *cobra.Command {
	var branch, state string
	var limit int
	cmd := c.get("list [APP]", "List runs, newest first",
		"landfall run list --limit 20\nlandfall run list --app shop --branch main --state failed",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			if limit < 0 {
				return Invalid("--limit is %d; right would be a number of runs, or 0 for all", limit)
			}
			if err := oneOf("state", state, "queued", "running", "waiting", "succeeded", "failed", "error", "superseded",
				"skipped", "cancelled", "declined", "expired"); err != nil {
				return err
			}
			query := queryOf(map[string]string{"app": in["app"], "branch": branch, "state": state})
			runs, err := client.First[client.Run](ctx, cl, "/runs", query, limit)
			heading := []string{"RUN", "CREATED", "APP", "COMMIT", "BRANCH", "STATE", "REASON"}
			return printRows(c, runs, err, heading, func(r client.Run) []string {
				return []string{r.ID, Local(r.Created), r.App, r.Commit.Short(), r.Branch, string(r.State), inShort(r.Reason)}
			})
		})
	cmd.Flags().StringVar(&branch, "branch", "", "only runs of this branch")
	cmd.Flags().StringVar(&state, "state", "",
		"only runs in this state: queued, running, waiting (for approval), succeeded, failed, error, superseded, skipped, "+
			"cancelled, declined, expired")
	cmd.Flags().IntVar(&limit, "limit", 0, "how many at most (default: all)")
	return cmd
}

func (c *Call) runShow(ctx context.Context, cl *client.Client, in Operands) error {
	return ask(ctx, cl, http.MethodGet, runPath(in["id"]), nil, c.showRun)
}

// showRun shows a run.
func (c *Call) showRun(r client.Run) error {
	return c.Print(r, func(t *Table) {
		t.field("run", r.ID)
		t.field("app", r.App)
		t.field("commit", string(r.Commit))
		t.field("branch", r.Branch)
		t.field("state", string(r.State))
		t.field("step", string(r.Step))
		t.field("reason", r.Reason)
		if r.Fork != 0 {
			t.field("pull request", fmt.Sprintf("%d, of a fork", r.Fork))
		}
		if r.Approval != nil {
			t.field("approved", r.Approval.String())
		}
		t.field("release", string(r.Release))
		t.field("url", r.URL)
		t.field("created", Local(r.Created))
		t.field("started", Local(r.Started))
		t.field("finished", Local(r.Finished))
		if s := r.Stats; s.UnitsTotal > 0 {
			t.field("units", fmt.Sprintf("%d of %d changed", s.UnitsChanged, s.UnitsTotal))
			t.field("files", fmt.Sprintf("%d of %d uploaded", s.FilesUploaded, s.Files))
			t.field("bytes", fmt.Sprintf("%d of %d uploaded", s.BytesUploaded, s.Bytes))
		}
		for _, ref := range r.References {
			t.field("reference", ref)
		}
		if len(r.Steps) > 0 {
			t.section("STEP", "ATTEMPT", "STARTED", "SECONDS", "MESSAGE")
			for _, s := range r.Steps {
				seconds := ""
				if !s.Finished.IsZero() {
					seconds = strconv.FormatFloat(s.Finished.Sub(s.Started).Seconds(), 'f', 3, 64)
				}
				t.Row(string(s.Step), strconv.FormatInt(s.Attempt, 10), Local(s.Started), seconds, inShort(s.Message))
			}
		}
		if len(r.Changes) > 0 {
			t.section(changesHeading()...)
			showChanges(t, r.Changes)
		}
		if len(r.Statuses) > 0 {
			t.section("STATUS", "CONTEXT", "SENT", "DESCRIPTION", "PROBLEM")
			for _, s := range r.Statuses {
				t.Row(string(s.State), s.Context, Local(s.Sent), s.Description, s.Problem)
			}
		}
	})
}

func (c *Call) runLogs() *cobra.Command {
	var follow bool
	cmd := c.get("logs ID", "Print a run's log", "landfall run logs -f 0199e0c4-7b1c-7c3e-9d6f-5a1b2c3d4e5f",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			lines := []landfall.LogLine{}
			err := cl.Follow(ctx, in["id"], 0, !follow, func(line landfall.LogLine) error {
				if c.output != "" {
					lines = append(lines, line)
					return nil
				}
				_, err := fmt.Fprintln(c.Stdout, logLine(line))
				return err
			})
			if err != nil || c.output == "" {
				return err
			}
			return c.Print(lines, nil)
		})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more until the run is over")
	return cmd
}

func logLine(line landfall.LogLine) string {
	return fmt.Sprintf("%-7s %s", line.Step, landfall.TerminalText(line.Text))
}

func (c *Call) runRetry() *cobra.Command {
	var rebuild, noWait bool
	cmd := c.get("retry ID", "Run a commit again, and wait for what becomes of it",
		"landfall run retry 0199e0c4-7b1c-7c3e-9d6f-5a1b2c3d4e5f --rebuild",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			var run client.Run
			err := cl.Do(ctx, http.MethodPost, runPath(in["id"])+"/retry?rebuild="+strconv.FormatBool(rebuild), nil, &run)
			if err != nil {
				return err
			}
			if noWait {
				return c.showRun(run)
			}
			fmt.Fprintf(c.Stderr, "run %s\n", run.ID)
			if run, err = c.follow(ctx, cl, run); err != nil {
				return err
			}
			return c.finished(run)
		})
	cmd.Long = `Run a commit again, under a new run, and wait for what becomes of it.

With --rebuild everything is made and stored again: so is mended what landfall fsck finds damaged of a
release, and so runs a commit whose message has [skip landfall]. The exit code tells what became of it, as that of landfall spec version apply does.`
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "print the new run and do not wait for it")
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "run build commands again, even if their output is at hand")
	return cmd
}

// How long a server that restarts is waited for.
const (
	followAgain = time.Second
	followTries = 60
)

// follow prints a run's log until the run is over, also over a restart of the server, and returns the run.
func (c *Call) follow(ctx context.Context, cl *client.Client, run client.Run) (client.Run, error) {
	out := c.Stdout
	if c.output != "" || IsTerminal(c.Stderr) {
		out = c.Stderr
	}
	var seen int64
	var held []landfall.LogLine // what may say how the run ended, which is the command's error, too
	var broken error            // the reader of our output has gone
	say := func(lines ...landfall.LogLine) {
		for _, line := range lines {
			if _, err := fmt.Fprintln(out, logLine(line)); err != nil {
				broken = err
			}
		}
	}
	for tries := 0; ; tries++ {
		err := cl.Follow(ctx, run.ID, 0, false, func(line landfall.LogLine) error {
			if line.Seq > seen {
				seen, tries = line.Seq, 0
				held = append(held, line)
				if !mayEnd(line) {
					say(held...)
					held = nil
				}
			}
			return broken
		})
		if broken != nil {
			return run, broken
		}
		if err == nil {
			err = cl.Do(ctx, http.MethodGet, runPath(run.ID), nil, &run)
		}
		switch kind := landfall.KindOf(err); {
		case err == nil && run.State.Final():
			if runError(run) != nil {
				held = held[:max(0, len(held)-endOf(run))]
			}
			say(held...)
			return run, broken
		case err != nil && (tries >= followTries || (kind != landfall.Unavailable && kind != landfall.Internal)):
			return run, err
		}
		select {
		case <-ctx.Done():
			return run, ctx.Err()
		case <-time.After(followAgain):
		}
	}
}

// mayEnd reports whether a line of a log may be one of its last, which say why a run failed: the line itself names the
// state, or it is of the reading, which takes no time and finds all mistakes at once.
func mayEnd(line landfall.LogLine) bool {
	state, _, _ := strings.Cut(line.Text, ":")
	return line.Step == landfall.StepRead || landfall.RunState(state).Final()
}

// endOf returns how many lines at the end of a log say what its run came to.
func endOf(run client.Run) int {
	reason := strings.TrimSpace(run.Reason)
	if strings.Contains(reason, "\n") {
		return strings.Count(reason, "\n") + 1 + 1 // and the state
	}
	return 1
}

// finished prints what a run came to: its release's address on a line of its own, or the run itself for programs.
func (c *Call) finished(run client.Run) error {
	err := c.Print(run, func(t *Table) {
		switch {
		case run.Release != "":
			t.Row(run.URL)
		case run.State == landfall.RunSucceeded || run.State == landfall.RunSkipped:
			t.Row(run.Reason)
		}
	})
	if err != nil {
		return err
	}
	return runError(run)
}
