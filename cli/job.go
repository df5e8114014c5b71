package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

const aJob = "0b1f6f5b-3a0f-4a43-9f39-7d0c6c1e8c11"

func (c *Call) jobCommand() *cobra.Command {
	return c.group("job", "Have functions run at times that you choose, apart from what an app's specs say",
		"landfall job create hello --pattern '0 3 * * *'\nlandfall job list", c.jobCreate(), c.jobList(), c.jobUpdate(),
		c.jobStatus("pause ID", "Let a job pause until it is resumed", landfall.JobPaused),
		c.jobStatus("resume ID", "Let a job that pauses go on, from when its pattern says", landfall.JobRunning),
		c.jobStatus("cancel ID", "End a job for good; it stays in the list", landfall.JobCancelled),
		c.get("show ID", "Show one job", "landfall job show "+aJob,
			func(ctx context.Context, cl *client.Client, in Operands) error {
				return ask(ctx, cl, http.MethodGet, pathOf("jobs", in["id"]), nil, c.showJob)
			}),
		c.deletion("delete ID", "Delete a job; what it started goes on", "landfall job delete "+aJob, "jobs", "job"))
}

// deletion is a command that deletes what has an id.
func (c *Call) deletion(use, short, example, path, what string) *cobra.Command {
	return c.get(use, short, example, func(ctx context.Context, cl *client.Client, in Operands) error {
		if err := cl.Do(ctx, http.MethodDelete, pathOf(path, in["id"]), nil, nil); err != nil {
			return err
		}
		return c.Print(map[string]string{"deleted": in["id"]}, func(t *Table) {
			t.Row("deleted the " + what + " " +
				in["id"])
		})
	})
}

// namesFunction adds the flag that says the version of the FUNCTION that a command names, and returns what fills in n.
func namesFunction(cmd *cobra.Command, n *client.FunctionName) func(in Operands) error {
	version := cmd.Flags().String("version", "",
		"number, uid or label of the version (default: the one that FUNCTION names, or the latest)")
	return func(in Operands) error {
		n.Function = in["function"]
		if !strings.Contains(n.Function, "/") {
			n.Function = in["namespace"] + "/" + n.Function
		}
		if *version == "" || *version == "0" {
			return nil
		}
		if strings.Contains(n.Function, ":") {
			return Invalid("%s names a version already: leave --version out", in["function"])
		}
		n.Function += ":" + *version
		return nil
	}
}

// readInput returns what a flag says of the data of events: JSON.
func (c *Call) readInput(flag, said string) (json.RawMessage, error) {
	data, err := readData(c.Stdin, said)
	if err == nil && len(data) > 0 && !json.Valid(data) {
		err = Invalid("--%s is no JSON; text has quotes around it: '\"Ada\"'", flag)
	}
	return data, err
}

func (c *Call) jobCreate() *cobra.Command {
	var n client.NewJob
	var data string
	var named func(in Operands) error
	cmd := c.getIn("create FUNCTION", "Have a function run once, or as a cron expression says",
		"landfall job create hello --pattern '*/5 * * * *' --input '{\"name\": \"Ada\"}'\n"+
			"landfall job create hello --version 3 --pattern '0 3 * * *' --count 7\n"+
			"landfall job create hello --first-execution-time 2030-01-02T03:04:05Z",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			if err := named(in); err != nil {
				return err
			}
			var err error
			if n.Input, err = c.readInput("input", data); err != nil {
				return err
			}
			return ask(ctx, cl, http.MethodPost, "/jobs", n, c.showJob)
		})
	cmd.Long = `Have a function run once, or as a cron expression says. Each run is an execution.

The job holds the version that it names: that version cannot be deleted before the job is over or deleted. A job
of the latest version holds none, and runs the version that is the latest each time.`
	named = namesFunction(cmd, &n.FunctionName)
	cmd.Flags().StringVar(&n.Name, "name", "", "what the job is called")
	cmd.Flags().StringVar(&n.Pattern, "pattern", "", "cron expression, in UTC unless it begins with TZ=ZONE")
	cmd.Flags().StringVar(&n.First, "first-execution-time", "", "when it runs first, such as 2030-01-02T03:04:05Z")
	cmd.Flags().Int64Var(&n.Count, "count", 0, "how often it runs (default: without end)")
	cmd.Flags().StringVar(&data, "input", "", "JSON that the function gets: text, @FILE, or - for standard input")
	return cmd
}

func (c *Call) jobUpdate() *cobra.Command {
	var change client.JobChange
	var name, data string
	var cmd *cobra.Command
	cmd = c.get("update ID", "Change a job that is not over", "landfall job update "+aJob+" --pattern '0 4 * * *'",
		func(ctx context.Context, cl *client.Client, in Operands) (err error) {
			if cmd.Flags().Changed("name") {
				change.Name = &name
			}
			if change.Input, err = c.readInput("input", data); err != nil {
				return err
			}
			if change.Name == nil && change.Pattern+change.Next == "" && len(change.Input) == 0 {
				return Invalid("say what changes: --name, --pattern, --input or --next-execution-time")
			}
			return ask(ctx, cl, http.MethodPut, pathOf("jobs", in["id"]), change, c.showJob)
		})
	cmd.Flags().StringVar(&name, "name", "", "what the job is called")
	cmd.Flags().StringVar(&change.Pattern, "pattern", "", "cron expression, in UTC unless it begins with TZ=ZONE")
	cmd.Flags().StringVar(&change.Next, "next-execution-time", "", "when it runs next, such as 2030-01-02T03:04:05Z")
	cmd.Flags().StringVar(&data, "input", "", "JSON that the function gets: text, @FILE, or - for standard input")
	return cmd
}

// jobStatus is a command that gives a job another status.
func (c *Call) jobStatus(use, short string, status landfall.JobState) *cobra.Command {
	name, _, _ := strings.Cut(use, " ")
	return c.get(use, short, "landfall job "+name+" "+aJob,
		func(ctx context.Context, cl *client.Client, in Operands) error {
			return ask(ctx, cl, http.MethodPut, pathOf("jobs", in["id"]), client.JobChange{Status: string(status)}, c.showJob)
		})
}

func (c *Call) jobList() *cobra.Command {
	return c.usesList("list", "List the jobs, newest first", "landfall job list --function hello",
		func(ctx context.Context, cl *client.Client, query url.Values) (int, error) {
			jobs, err := client.List[client.Job](ctx, cl, "/jobs", query)
			heading := []string{"JOB", "NAME", "FUNCTION", "VERSION", "PATTERN", "NEXT", "STATUS"}
			return len(jobs), printRows(c, jobs, err, heading, func(j client.Job) []string {
				return []string{j.ID, j.Name, j.Function, versionNumber(j.Number), j.Pattern, Local(j.Next), string(j.Status)}
			})
		})
}

// usesList is a command that lists jobs or webhooks, of all functions or of one.
func (c *Call) usesList(use, short, example string,
	list func(ctx context.Context, cl *client.Client, query url.Values) (int, error)) *cobra.Command {
	var function string
	cmd := c.listIn(use, short, example, func(ctx context.Context, cl *client.Client, in Operands) (int, error) {
		of := map[string]string{"namespace": in["namespace"]}
		switch {
		case strings.Contains(function, "/"):
			of = map[string]string{"function": function}
		case function != "":
			of["function"] = in["namespace"] + "/" + function
		}
		return list(ctx, cl, queryOf(of))
	})
	cmd.Flags().StringVar(&function, "function", "", "only those of this function")
	return cmd
}

// versionNumber shows the number of the version that a job or a webhook has.
func versionNumber(number int64) string {
	if number == 0 {
		return "latest"
	}
	return strconv.FormatInt(number, 10)
}

func (c *Call) showJob(j client.Job) error {
	return c.Print(j, func(t *Table) {
		t.field("job", j.ID)
		t.field("name", j.Name)
		t.field("function", j.Function)
		t.field("namespace", j.Namespace)
		t.field("version", versionNumber(j.Number))
		t.field("pattern", cmp.Or(j.Pattern, "none: it runs once"))
		t.field("input", string(j.Input))
		t.field("next", Local(j.Next))
		if j.Count > 0 {
			t.field("runs left", strconv.FormatInt(j.Count, 10))
		}
		t.field("status", string(j.Status))
		t.field("problem", j.Problem)
		t.field("created", Local(j.Created))
	})
}
