package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

func (c *Call) triggerCommand() *cobra.Command {
	return c.group("trigger", "Make, show, fire and delete triggers",
		"landfall trigger list shop\nlandfall trigger create shop hourly --function report --cron '0 * * * *'",
		c.triggerCreate(), c.triggerList(), c.triggerShow(), c.triggerFire(), c.triggerDelete())
}

// wordsOfHand is what people should know of what they make by hand.
const wordsOfHand = `

It becomes a version and a release of the app, as a push does, and what was released before stays as it is.
The next push to production says again what the app is: what is to stay belongs into its specs.`

// triggerFlags are the flags that say what a trigger is.
type triggerFlags struct {
	client.FnTrigger

	functions []string
	weights   []int
	version   string
	noRelease bool
}

// common gives a command the flags that triggers of every kind have.
func (t *triggerFlags) common(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&t.functions, "function", nil,
		"function that it leads to, or NAME:VERSION; two of them with weights")
	cmd.Flags().IntSliceVar(&t.weights, "weight", nil, "percent of the calls that the function before it gets")
	cmd.Flags().StringVar(&t.version, "version", "",
		"version of the function: uid, number, label, alias, live or digest (default: latest)")
	cmd.Flags().StringToStringVar(&t.Config, "config", nil, "configuration over the app's, as NAME=VALUE,NAME=VALUE")
	flagNoRelease(cmd, &t.noRelease)
}

// route gives a command the flags that HTTP triggers have.
func (t *triggerFlags) route(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&t.Methods, "method", nil, "methods, of HTTP (default GET)")
	cmd.Flags().StringVar(&t.URL, "url", "", "path that it answers at: /hello, or /orders/{id}")
	cmd.Flags().BoolVar(&t.Prefix, "prefix", false, "everything below the path, too")
	cmd.Flags().StringVar(&t.Sticky, "sticky", "",
		"with weights, what keeps a client on one version: cookie, cookie:NAME or header:NAME")
	cmd.Flags().StringVar(&t.Access, "access", "", "who may call it: public, token or signed-in (default public)")
}

// trigger returns what the flags say.
func (t *triggerFlags) trigger(line string) (client.FnTrigger, error) {
	if t.Tag != "" {
		if len(t.functions)+len(t.weights) > 0 || t.version != "" {
			return t.FnTrigger, Invalid("--tag %s says which functions and versions: leave --function and --version out", t.Tag)
		}
		return t.FnTrigger, nil
	}
	trigger := t.FnTrigger
	switch {
	case len(t.functions) == 0:
		return trigger, Invalid("--function is missing: %s", line)
	case len(t.functions) != len(t.weights) && (len(t.functions) > 1 || len(t.weights) > 0):
		return trigger, Invalid("--function is there %d times, and --weight %d times; two functions share the calls like "+
			"this: --function hello:2 --weight 90 --function hello:3 --weight 10", len(t.functions), len(t.weights))
	case t.version != "" && (len(t.weights) > 0 || strings.Contains(t.functions[0], ":")):
		return trigger, Invalid("--function %s names a version, and --version another: leave one of them out",
			strings.Join(t.functions, " --function "))
	case len(t.weights) == 0:
		trigger.Function = t.functions[0]
		if t.version != "" {
			trigger.Function += ":" + t.version
		}
		return trigger, nil
	}
	trigger.Weights = map[string]int{}
	for i, name := range t.functions {
		if _, twice := trigger.Weights[name]; twice {
			return trigger, Invalid("--function %s is there twice", landfall.Printable(name))
		}
		trigger.Weights[name] = t.weights[i]
	}
	return trigger, nil
}

// putTrigger makes a trigger, which must be new.
func (c *Call) putTrigger(ctx context.Context, cl *client.Client, app client.App, name string,
	t client.FnTrigger, noRelease bool) error {
	var made client.FnTrigger
	if err := cl.Create(ctx, triggerPath(app, name)+unreleased(noRelease), t, &made); err != nil {
		return err
	}
	return c.showTrigger(made, app)
}

func (c *Call) showTrigger(t client.FnTrigger, app client.App) error {
	return c.Print(t, func(table *Table) {
		table.field("trigger", t.Name)
		table.field("kind", strings.TrimSuffix(string(t.Kind), "-trigger"))
		table.field("app", app.Name)
		table.field("function", t.Function)
		table.field("tag", t.Tag)
		for _, name := range slices.Sorted(maps.Keys(t.Weights)) {
			table.field("function", fmt.Sprintf("%s %d %%", name, t.Weights[name]))
		}
		table.field("methods", strings.Join(t.Methods, ","))
		table.field("url", t.URL)
		if t.Prefix {
			table.field("prefix", "everything below the url, too")
		}
		table.field("host", t.Host)
		table.field("access", t.Access)
		table.field("sticky", t.Sticky)
		table.field("cron", strings.TrimSpace(t.Cron+" "+t.TimeZone))
		table.field("request", strings.TrimSpace(t.Method+" "+t.Subpath))
		table.field("topic", t.Topic)
		table.field("answers", t.RespTopic)
		table.field("failures", t.ErrorTopic)
		if t.Kind == landfall.QueueTrigger {
			table.field("retries", strconv.Itoa(t.MaxRetries))
		}
		table.field("content", t.ContentType)
		table.field("filters", inJSON(t.Filters))
		table.field("resources", inJSON(t.Resources))
		for _, name := range slices.Sorted(maps.Keys(t.Config)) {
			table.field("config", name+"="+t.Config[name])
		}
		table.field("created", Local(t.Created))
		table.field("updated", Local(t.Updated))
		table.field("release", string(t.Release))
		table.field("note", t.Note)
	})
}

// inJSON returns a value as JSON; empty for one that says nothing.
func inJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil || slices.Contains([]string{"null", "[]", "{}"}, string(text)) {
		return ""
	}
	return string(text)
}

// fnPath returns the path of what is below a namespace.
func fnPath(namespace string, below ...string) string {
	return pathOf(append([]string{"ns", namespace}, below...)...)
}

func (c *Call) triggerCreate() *cobra.Command {
	var t triggerFlags
	var cmd *cobra.Command
	cmd = c.get("create APP NAME", "Make a trigger of a function, and release the app with it",
		"landfall trigger create shop hello --function hello --method GET --url /hello\n"+
			"landfall trigger create shop hourly --function report --version 3 --cron '0 * * * *' --time-zone Europe/Berlin\n"+
			"landfall trigger create shop nightly --tag nightly --cron '0 3 * * *'\n"+
			"landfall trigger create shop orders --function bill:live --topic orders",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			trigger, err := t.trigger(cmd.UseLine())
			if err != nil {
				return err
			}
			if trigger.URL == "" && trigger.Cron == "" && trigger.Topic == "" {
				return Invalid("what fires the trigger is missing: --url for requests, --cron for a schedule, or --topic for " +
					"messages")
			}
			var app client.App
			if err := cl.Do(ctx, http.MethodGet, appPath(in), nil, &app); err != nil {
				return err
			}
			return c.putTrigger(ctx, cl, app, in["name"], trigger, t.noRelease)
		})
	cmd.Long = "Make a trigger of a function, and release the app with it.\n\n" +
		"One of --url, --cron and --topic says what fires it." + wordsOfHand
	t.common(cmd)
	t.route(cmd)
	cmd.Flags().StringVar(&t.Cron, "cron", "", "schedule: five fields, or six with seconds, or @hourly and the like")
	cmd.Flags().StringVar(&t.TimeZone, "time-zone", "", "time zone of the schedule (default UTC)")
	cmd.Flags().StringVar(&t.Tag, "tag", "", "with --cron: a function tag, all of whose functions are called")
	cmd.Flags().StringVar(&t.Topic, "topic", "", "topic of the app's queue")
	cmd.Flags().String("namespace", "", "namespace of the app (default: the one that it is in)")
	return cmd
}

func (c *Call) triggerShow() *cobra.Command {
	return c.get("show APP NAME", "Show a trigger as production has it", "landfall trigger show shop hello",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			t, app, err := findTrigger(ctx, cl, in)
			if err != nil {
				return err
			}
			return c.showTrigger(t, app)
		})
}

// findTrigger returns the trigger that was named, and its app.
func findTrigger(ctx context.Context, cl *client.Client, in Operands) (t client.FnTrigger, app client.App, err error) {
	if err = cl.Do(ctx, http.MethodGet, appPath(in), nil, &app); err == nil {
		err = cl.Do(ctx, http.MethodGet, triggerPath(app, in["name"]), nil, &t)
	}
	return t, app, err
}

// triggerPath returns the path of a trigger, whether it is there or not.
func triggerPath(app client.App, name string) string {
	return fnPath(app.Namespace, "apps", app.Name, "triggers", name)
}

func (c *Call) triggerDelete() *cobra.Command {
	var noRelease bool
	cmd := c.get("delete APP NAME", "Delete a trigger, and release the app without it",
		"landfall trigger delete shop hello", func(ctx context.Context, cl *client.Client, in Operands) error {
			return c.deleteTrigger(ctx, cl, in, noRelease)
		})
	cmd.Long = "Delete a trigger, and release the app without it." + wordsOfHand
	flagNoRelease(cmd, &noRelease)
	return cmd
}

// flagNoRelease gives a command the flag by which it makes a version of an app alone.
func flagNoRelease(cmd *cobra.Command, noRelease *bool) {
	cmd.Flags().BoolVar(noRelease, "no-release", false, "make a version of the app, and no release: the next one has it")
}

// unreleased returns the query that asks for a version alone.
func unreleased(noRelease bool) string {
	if !noRelease {
		return ""
	}
	return "?no_release=true"
}

func (c *Call) deleteTrigger(ctx context.Context, cl *client.Client, in Operands, noRelease bool) error {
	var app client.App
	if err := cl.Do(ctx, http.MethodGet, appPath(in), nil, &app); err != nil {
		return err
	}
	if err := cl.Do(ctx, http.MethodDelete, triggerPath(app, in["name"])+unreleased(noRelease), nil, nil); err != nil {
		return err
	}
	return c.printDeleted("trigger", in["name"])
}

func (c *Call) triggerList() *cobra.Command {
	return c.get("list APP", "List the triggers of the live release, and when time triggers are due",
		"landfall trigger list shop", func(ctx context.Context, cl *client.Client, in Operands) error {
			triggers, err := client.List[client.Trigger](ctx, cl, appPath(in, "triggers"), nil)
			if err != nil {
				return err
			}
			return c.printTriggers(triggers)
		})
}

func (c *Call) printTriggers(triggers []client.Trigger) error {
	return c.Print(triggers, func(t *Table) {
		t.Row("KIND", "TRIGGER", "FUNCTION", "ON", "ACCESS", "NEXT", "LAST", "OUTCOME")
		for _, trigger := range triggers {
			var next, last, outcome string
			if trigger.Next != nil {
				next = Local(*trigger.Next)
			}
			if f := trigger.Last; f != nil {
				last, outcome = Local(f.Due), f.State
				if f.Problem != "" {
					outcome += ": " + f.Problem
				}
			}
			t.Row(strings.TrimSuffix(string(trigger.Kind), "-trigger"), trigger.Name, trigger.Function, trigger.On,
				trigger.Access, next, last, outcome)
		}
	})
}
