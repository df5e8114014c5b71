package cli

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

func (c *Call) namespaceCommand() *cobra.Command {
	return c.group("namespace", "Make, list and delete namespaces, which own apps and their functions",
		"landfall namespace create team", c.get("create NAME", "Make a namespace",
			"landfall namespace create team\nlandfall app create shop --namespace team",
			func(ctx context.Context, cl *client.Client, in Operands) error {
				if err := landfall.CheckNamespaceName(in["name"]); err != nil {
					return err
				}
				var made client.Namespace
				if err := cl.Create(ctx, fnPath(in["name"]), nil, &made); err != nil {
					return err
				}
				return c.Print(made, func(t *Table) { t.Row("made the namespace " + made.Name) })
			}),
		c.get("list", "List the namespaces", "landfall namespace list",
			func(ctx context.Context, cl *client.Client, _ Operands) error {
				namespaces, err := client.List[client.Namespace](ctx, cl, "/ns", nil)
				return printRows(c, namespaces, err, []string{"NAMESPACE", "CREATED"}, func(n client.Namespace) []string {
					return []string{n.Name, Local(n.Created)}
				})
			}),
		c.get("delete NAME", "Delete a namespace without apps", "landfall namespace delete team",
			func(ctx context.Context, cl *client.Client, in Operands) error {
				if err := cl.Do(ctx, http.MethodDelete, fnPath(in["name"]), nil, nil); err != nil {
					return err
				}
				return c.printDeleted("namespace", in["name"])
			}),
	)
}
