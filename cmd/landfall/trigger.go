package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/cron"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
)

func (c *cli) triggerCommand() *cobra.Command {
	return c.group("trigger", "Make, show, fire and delete triggers",
		"landfall trigger list shop\nlandfall trigger create shop hourly --function report --cron '0 * * * *'",
		c.triggerCreate(), c.triggerList(), c.triggerShow(), c.triggerFire(), c.triggerDelete())
}

// wordsOfHand is what people should know of what they make by hand.
const wordsOfHand = `

It becomes a version and a release of the app, as a push does, and what was released before stays as it is. The next push to production
says again what the app is: what is to stay belongs into its specs.`

// triggerFlags are the flags that say what a trigger is.
type triggerFlags struct {
	client.FnTrigger

	version   string
	namespace string
}

// common gives a command the flags that triggers of every kind have.
func (t *triggerFlags) common(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&t.Function, "function", "", "function that it leads to, or NAME:VERSION")
	cmd.Flags().StringVar(&t.version, "version", "", "version of the function: uid, number, label, alias, live or digest (default: latest)")
	cmd.Flags().StringToStringVar(&t.Config, "config", nil, "configuration over the app's, as NAME=VALUE,NAME=VALUE")
	return inNamespace(cmd, &t.namespace)
}

// route gives a command the flags that HTTP triggers have.
func (t *triggerFlags) route(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&t.Methods, "method", nil, "methods, of HTTP (default GET)")
	cmd.Flags().StringVar(&t.URL, "url", "", "path that it answers at: /hello, or /orders/{id}")
	cmd.Flags().BoolVar(&t.Prefix, "prefix", false, "everything below the path, too")
	cmd.Flags().StringVar(&t.Access, "access", "", "who may call it: public, token or signed-in (default public)")
}

// trigger returns what the flags say.
func (t *triggerFlags) trigger(line string) (client.FnTrigger, error) {
	if t.Function == "" {
		return t.FnTrigger, invalid("--function is missing: %s", line)
	}
	trigger := t.FnTrigger
	if t.version != "" {
		if strings.Contains(t.Function, ":") {
			return trigger, invalid("--function %s names a version, and --version another: leave one of them out", t.Function)
		}
		trigger.Function += ":" + t.version
	}
	return trigger, nil
}

// putTrigger makes a trigger, which must be new.
func (c *cli) putTrigger(ctx context.Context, cl *client.Client, app client.App, name string, t client.FnTrigger) error {
	var made client.FnTrigger
	if err := cl.Create(ctx, fnPath(app.Namespace, "apps", app.Name, "triggers", name), t, &made); err != nil {
		return err
	}
	return c.showTrigger(made, app)
}

func (c *cli) showTrigger(t client.FnTrigger, app client.App) error {
	return c.print(t, func(table *table) {
		table.field("trigger", t.Name)
		table.field("kind", strings.TrimSuffix(string(t.Kind), "-trigger"))
		table.field("app", app.Name)
		table.field("function", t.Function)
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
		table.field("created", c.local(t.Created))
		table.field("updated", c.local(t.Updated))
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
	elements := append([]string{namespace}, below...)
	for i, element := range elements {
		elements[i] = url.PathEscape(element)
	}
	return "/ns/" + strings.Join(elements, "/")
}

func (c *cli) triggerCreate() *cobra.Command {
	var t triggerFlags
	var cmd *cobra.Command
	cmd = c.get("create APP NAME", "Make a trigger of a function, and release the app with it",
		"landfall trigger create shop hello --function hello --method GET --url /hello\n"+
			"landfall trigger create shop hourly --function report --version 3 --cron '0 * * * *' --time-zone Europe/Berlin\n"+
			"landfall trigger create shop orders --function bill:live --topic orders",
		func(ctx context.Context, cl *client.Client, in operands) error {
			trigger, err := t.trigger(cmd.UseLine())
			if err != nil {
				return err
			}
			if trigger.URL == "" && trigger.Cron == "" && trigger.Topic == "" {
				return invalid("what fires the trigger is missing: --url for requests, --cron for a schedule, or --topic for messages")
			}
			var app client.App
			if err := cl.Do(ctx, http.MethodGet, appPath(in), nil, &app); err != nil {
				return err
			}
			return c.putTrigger(ctx, cl, app, in["name"], trigger)
		})
	cmd.Long = "Make a trigger of a function, and release the app with it.\n\nOne of --url, --cron and --topic says what fires it." + wordsOfHand
	t.route(t.common(cmd))
	cmd.Flags().StringVar(&t.Cron, "cron", "", "schedule: five fields, or six with seconds, or @hourly and the like")
	cmd.Flags().StringVar(&t.TimeZone, "time-zone", "", "time zone of the schedule (default UTC)")
	cmd.Flags().StringVar(&t.Topic, "topic", "", "topic of the app's queue")
	return cmd
}

func (c *cli) triggerShow() *cobra.Command {
	return c.get("show APP NAME", "Show a trigger as production has it", "landfall trigger show shop hello",
		func(ctx context.Context, cl *client.Client, in operands) error {
			var app client.App
			if err := cl.Do(ctx, http.MethodGet, appPath(in), nil, &app); err != nil {
				return err
			}
			var t client.FnTrigger
			if err := cl.Do(ctx, http.MethodGet, fnPath(app.Namespace, "apps", app.Name, "triggers", in["name"]), nil, &t); err != nil {
				return err
			}
			return c.showTrigger(t, app)
		})
}

func (c *cli) triggerDelete() *cobra.Command {
	cmd := c.get("delete APP NAME", "Delete a trigger, and release the app without it", "landfall trigger delete shop hello", c.deleteTrigger)
	cmd.Long = "Delete a trigger, and release the app without it." + wordsOfHand
	return cmd
}

func (c *cli) deleteTrigger(ctx context.Context, cl *client.Client, in operands) error {
	var app client.App
	if err := cl.Do(ctx, http.MethodGet, appPath(in), nil, &app); err != nil {
		return err
	}
	if err := cl.Do(ctx, http.MethodDelete, fnPath(app.Namespace, "apps", app.Name, "triggers", in["name"]), nil, nil); err != nil {
		return err
	}
	return c.print(map[string]string{"deleted": in["name"]}, func(t *table) { t.row("deleted the trigger " + in["name"]) })
}

func (c *cli) triggerList() *cobra.Command {
	return c.get("list APP", "List the triggers of the live release, and when time triggers are due", "landfall trigger list shop",
		func(ctx context.Context, cl *client.Client, in operands) error {
			triggers, err := client.List[client.Trigger](ctx, cl, appPath(in, "triggers"), nil)
			if err != nil {
				return err
			}
			return c.printTriggers(triggers)
		})
}

func (c *cli) printTriggers(triggers []client.Trigger) error {
	return c.print(triggers, func(t *table) {
		t.row("KIND", "TRIGGER", "FUNCTION", "ON", "ACCESS", "NEXT", "LAST", "OUTCOME")
		for _, trigger := range triggers {
			var next, last, outcome string
			if trigger.Next != nil {
				next = c.local(*trigger.Next)
			}
			if f := trigger.Last; f != nil {
				last, outcome = c.local(f.Due), f.State
				if f.Problem != "" {
					outcome += ": " + f.Problem
				}
			}
			t.row(strings.TrimSuffix(string(trigger.Kind), "-trigger"), trigger.Name, trigger.Function, trigger.On, trigger.Access, next, last, outcome)
		}
	})
}

// triggersOf returns the triggers of an app's live release, by kind and name.
func (s *server) triggersOf(ctx context.Context, app landfall.App) ([]client.Trigger, error) {
	all := []client.Trigger{}
	err := s.db.Snapshot(ctx, func(at *store.Snapshot) error {
		firings, err := at.LastFirings(ctx, app.ID)
		if err != nil {
			return err
		}
		for _, kind := range []landfall.UnitKind{landfall.HTTPTrigger, landfall.TimeTrigger, landfall.QueueTrigger} {
			units, err := at.ServedUnits(ctx, app.ID, kind)
			if err != nil {
				return err
			}
			units = slices.DeleteFunc(units, func(u store.ServedUnit) bool { return u.Release != app.Live })
			slices.SortFunc(units, func(a, b store.ServedUnit) int { return cmp.Compare(a.Unit.Name, b.Unit.Name) })
			for _, u := range units {
				all = append(all, shownTrigger(u, firings, time.Now()))
			}
		}
		return nil
	})
	return all, err
}

// shownTrigger returns a trigger as people see it. What of it cannot be read is missing.
func shownTrigger(u store.ServedUnit, firings map[string]store.Firing, now time.Time) client.Trigger {
	t, _ := spec.ReadTriggerVersion(u.Unit, u.Spec)
	shown := client.Trigger{Kind: u.Unit.Kind, Name: u.Unit.Name, Version: u.Version, Function: t.Function.String()}
	if len(t.Weights) > 0 {
		var shares []string
		for _, w := range t.Weights {
			shares = append(shares, fmt.Sprintf("%s %d %%", w.Function, w.Percent))
		}
		shown.Function = strings.Join(shares, ", ")
	}
	switch t.Kind {
	case landfall.HTTPTrigger:
		shown.On = strings.Join(t.HTTP.Methods, ",") + " " + t.HTTP.Host + t.HTTP.URL
		if t.HTTP.Prefix {
			shown.On = strings.TrimSuffix(shown.On, "/") + "/*"
		}
		shown.Access = string(t.Access())
	case landfall.TimeTrigger:
		shown.On = strings.TrimSpace(t.Time.Cron + " " + t.Time.TimeZone)
		if schedule, err := cron.Parse(t.Time.Cron, t.Time.TimeZone); err == nil {
			if next := schedule.Next(now); !next.IsZero() {
				shown.Next = &next
			}
		}
		if f, ok := firings[t.Name]; ok {
			shown.Last = firingOf(f)
		}
	case landfall.QueueTrigger:
		shown.On = t.Queue.Topic
	case landfall.ConfigUnit, landfall.EnvironmentUnit, landfall.PackageUnit, landfall.FunctionUnit, landfall.StaticUnit, landfall.SecretUnit:
	}
	return shown
}

func firingOf(f store.Firing) *client.Firing {
	shown := &client.Firing{Due: f.Due, Fired: f.Fired, State: string(f.State), Attempt: f.Attempt, Problem: f.Problem}
	if !f.Finished.IsZero() {
		shown.Finished = &f.Finished
	}
	return shown
}
