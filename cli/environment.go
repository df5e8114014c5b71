package cli

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"

	"landfall.dev/landfall/api/client"
)

func environmentKind() unitKind { return unitKind{"environment", "env", "/environments"} }

func (c *Call) environmentCommand() *cobra.Command {
	k := environmentKind()
	cmd := c.group(k.name, "Show and delete the environments of functions",
		"landfall environment list\nlandfall environment delete python", c.unitList(k), c.environmentDelete(k))
	cmd.Aliases = []string{k.short}
	return cmd
}

func (c *Call) environmentDelete(k unitKind) *cobra.Command {
	var app string
	cmd := c.getIn("delete NAME", "Delete an environment that nothing needs",
		"landfall environment delete python --app shop",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			query := ofNamespace(in)
			if app != "" {
				query.Set("app", app)
			}
			if err := cl.Do(ctx, http.MethodDelete, pathOf(k.path[1:], in["name"])+"?"+query.Encode(), nil, nil); err != nil {
				return err
			}
			return c.printDeleted(k.name, in["name"])
		})
	cmd.Long = `Delete an environment that nothing needs.

All its versions go. It is refused, with all that holds it, while the specs of its app declare it, and while
a release that can be reached, an execution, or a version of a function needs it.`
	cmd.Flags().StringVar(&app, "app", "", "the app whose it is, where several have one of the name")
	return cmd
}
