package cli

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

func (c *Call) routeCommand() *cobra.Command {
	return c.group("route", "Make, list and delete routes: triggers of functions by HTTP",
		"landfall route create --method GET --url /hello --function hello --version 2\nlandfall route list shop",
		c.routeCreate(),
		c.get("list APP", "List the routes of the live release", "landfall route list shop",
			func(ctx context.Context, cl *client.Client, in Operands) error {
				triggers, err := client.List[client.Trigger](ctx, cl, appPath(in, "triggers"), nil)
				if err != nil {
					return err
				}
				return c.printTriggers(slices.DeleteFunc(triggers, func(t client.Trigger) bool {
					return t.Kind != landfall.HTTPTrigger
				}))
			}),
		c.routeDelete(),
	)
}

func (c *Call) routeCreate() *cobra.Command {
	var t triggerFlags
	var name string
	var cmd *cobra.Command
	cmd = c.getIn("create [NAME]", "Make a route to a function, and release its app with it",
		"landfall route create --method GET --url /hello --function hello\n"+
			"landfall route create --method GET --url /hello --function hello --version 2 --name old-hello\n"+
			"landfall route create --url /hello --function hello:2 --weight 90 --function hello:3 --weight 10 --sticky cookie",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			trigger, err := t.trigger(cmd.UseLine())
			if err != nil {
				return err
			}
			if trigger.URL == "" {
				return Invalid("--url is missing: %s", cmd.UseLine())
			}
			app, err := appOfFunction(ctx, cl, in["namespace"], name, t.functions[0])
			if err != nil {
				return err
			}
			trigger.Kind = landfall.HTTPTrigger
			route := in["name"]
			if route == "" {
				const longest = 63
				route = landfall.Slug(strings.Join(append(trigger.Methods, trigger.URL), " "), longest)
			}
			return c.putTrigger(ctx, cl, app, route, trigger, t.noRelease)
		})
	cmd.Long = `Make a route to a function, and release its app with it.

The route is of the app that has the function. One to a function that no app has is at the namespace's own host,
http://NAMESPACE.HOST. Without a name it gets one of its methods and its path.` + wordsOfHand
	t.common(cmd)
	t.route(cmd)
	cmd.Flags().StringVar(&name, "app", "", "app of the route (default: the one that has the function)")
	return cmd
}

// appOfFunction returns the app that was named, or else the one that has a function.
func appOfFunction(ctx context.Context, cl *client.Client, namespace, name, function string) (app client.App,
	err error) {
	if name == "" {
		ref, err := landfall.ParseReference(function)
		if err != nil {
			return app, err
		}
		namespace = cmp.Or(ref.Namespace, namespace)
		functions, err := client.List[client.Unit](ctx, cl, "/functions", url.Values{"namespace": {namespace}})
		if err != nil {
			return app, err
		}
		i := slices.IndexFunc(functions, func(u client.Unit) bool { return u.Name == ref.Name })
		if i < 0 {
			return app, landfall.Errorf("cli", landfall.NotFound, "there is no function %s in the namespace %s", ref.Name,
				namespace)
		}
		name = cmp.Or(functions[i].App, namespace) // by hand: what the namespace has
	}
	err = cl.Do(ctx, http.MethodGet, appPath(Operands{"app": name}), nil, &app)
	return app, err
}

func (c *Call) routeDelete() *cobra.Command {
	var noRelease bool
	cmd := c.get("delete APP NAME", "Delete a route, and release the app without it", "landfall route delete shop hello",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			t, app, err := findTrigger(ctx, cl, in)
			if err != nil {
				return err
			}
			if t.Kind != landfall.HTTPTrigger {
				return landfall.Errorf("cli", landfall.Conflict, "%s is no route but a %s: landfall trigger delete %s %s",
					in["name"], string(t.Kind), app.Name, in["name"])
			}
			return c.deleteTrigger(ctx, cl, in, noRelease)
		})
	cmd.Long = "Delete a route, and release the app without it." + wordsOfHand
	flagNoRelease(cmd, &noRelease)
	return cmd
}
