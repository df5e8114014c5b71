package cli

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

const functionTagsPath = "/function-tags"

func (c *Call) tagCommand() *cobra.Command {
	return c.group("tag", "Name versions of several functions together (tags of releases: landfall release tag)",
		"landfall tag create nightly --function hello:2 --function bar:v1\nlandfall tag list",
		c.tagSet(http.MethodPost, "create", "Name versions of functions together",
			"landfall tag create nightly --function hello:2 --function bar:v1"),
		c.tagSet(http.MethodPut, "update", "Let a function tag name other versions, and no others",
			"landfall tag update nightly --function hello:3 --function bar:v1"),
		c.tagList(), c.tagShow(), c.tagHistory(), c.tagDelete())
}

func (c *Call) tagSet(method, verb, short, example string) *cobra.Command {
	var functions []string
	var reason string
	cmd := c.getIn(verb+" NAME", short, example, func(ctx context.Context, cl *client.Client, in Operands) error {
		if len(functions) == 0 {
			return Invalid("which functions should %s name? give --function NAME:VERSION for each", in["name"])
		}
		body := struct {
			Name      string   `json:"name,omitempty"`
			Functions []string `json:"functions"`
			Reason    string   `json:"reason,omitempty"`
		}{Functions: functions, Reason: reason}
		path := functionTagsPath + pathOf(in["name"])
		if method == http.MethodPost {
			body.Name, path = in["name"], functionTagsPath
		}
		return ask(ctx, cl, method, path+"?"+ofNamespace(in).Encode(), body, c.showTag)
	})
	cmd.Flags().StringArrayVar(&functions, "function", nil,
		"function that it names, or NAME:VERSION (default: the latest version); once for each")
	flagReason(cmd, &reason)
	return cmd
}

func (c *Call) tagHistory() *cobra.Command {
	return c.getIn("history NAME", "Show what a function tag named, newest first", "landfall tag history nightly",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			path := functionTagsPath + pathOf(in["name"], "moves")
			moves, err := client.List[client.FunctionTagMove](ctx, cl, path, ofNamespace(in))
			heading := []string{"AT", "FUNCTION", "FROM", "TO", "BY", "WHY"}
			return printRows(c, moves, err, heading, func(m client.FunctionTagMove) []string {
				return []string{Local(m.At), m.Function, m.From, m.To, m.Actor, m.Reason}
			})
		})
}

func (c *Call) tagList() *cobra.Command {
	return c.listIn("list", "List the function tags", "landfall tag list",
		func(ctx context.Context, cl *client.Client, in Operands) (int, error) {
			tags, err := client.List[client.FunctionTag](ctx, cl, functionTagsPath, ofNamespace(in))
			return len(tags), printRows(c, tags, err, []string{"TAG", "FUNCTIONS", "MOVED", "BY", "DECLARED"},
				func(t client.FunctionTag) []string {
					var names []string
					for _, f := range t.Functions {
						names = append(names, f.Reference().String())
					}
					return []string{t.Name, strings.Join(names, ", "), Local(t.Moved), t.Actor, t.Declared}
				})
		})
}

func (c *Call) tagShow() *cobra.Command {
	return c.getIn("show NAME", "Show which versions a function tag names", "landfall tag show nightly",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			path := functionTagsPath + pathOf(in["name"])
			return ask(ctx, cl, http.MethodGet, path+"?"+ofNamespace(in).Encode(), nil, c.showTag)
		})
}

func (c *Call) tagDelete() *cobra.Command {
	var reason string
	cmd := c.getIn("delete NAME", "Remove a function tag; the versions stay", "landfall tag delete nightly",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			path := functionTagsPath + pathOf(in["name"])
			if err := cl.Do(ctx, http.MethodDelete, path+"?"+removed(in, reason), nil, nil); err != nil {
				return err
			}
			return c.printDeleted("function tag", in["name"])
		})
	flagReason(cmd, &reason)
	return cmd
}

func (c *Call) showTag(t client.FunctionTag) error {
	return c.Print(t, func(table *Table) {
		table.field("tag", t.Name)
		table.field("declared", t.Declared)
		table.section("FUNCTION", "VERSION", "NUMBER", "LABEL")
		for _, f := range t.Functions {
			table.Row(f.Name, landfall.Version{Unit: landfall.UnitID{Name: f.Name}, UID: f.UID}.ObjectName(),
				strconv.FormatInt(f.Number, 10), f.Label)
		}
	})
}
