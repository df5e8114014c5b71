package main

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

func (c *cli) namespaceCommand() *cobra.Command {
	return c.group("namespace", "Make, list and delete namespaces, which own apps and their functions", "landfall namespace create team",
		c.get("create NAME", "Make a namespace", "landfall namespace create team\nlandfall app create shop --namespace team",
			func(ctx context.Context, cl *client.Client, in operands) error {
				if err := landfall.CheckNamespaceName(in["name"]); err != nil {
					return err
				}
				var made client.Namespace
				if err := cl.Create(ctx, fnPath(in["name"]), nil, &made); err != nil {
					return err
				}
				return c.print(made, func(t *table) { t.row("made the namespace " + made.Name) })
			}),
		c.get("list", "List the namespaces", "landfall namespace list",
			func(ctx context.Context, cl *client.Client, _ operands) error {
				namespaces, err := client.List[client.Namespace](ctx, cl, "/ns", nil)
				if err != nil {
					return err
				}
				return c.print(namespaces, func(t *table) {
					t.row("NAMESPACE", "CREATED")
					for _, n := range namespaces {
						t.row(n.Name, c.local(n.Created))
					}
				})
			}),
		c.get("delete NAME", "Delete a namespace without apps", "landfall namespace delete team",
			func(ctx context.Context, cl *client.Client, in operands) error {
				if err := cl.Do(ctx, http.MethodDelete, fnPath(in["name"]), nil, nil); err != nil {
					return err
				}
				return c.print(map[string]string{"deleted": in["name"]}, func(t *table) { t.row("deleted the namespace " + in["name"]) })
			}),
	)
}
