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

func (c *Call) aliasCommand() *cobra.Command {
	return c.group("alias", "Name versions of a function",
		"landfall function alias create hello prod v1.0.1\nlandfall function alias list hello",
		c.aliasList(), c.aliasHistory(), c.aliasDelete(),
		c.aliasSet(http.MethodPost, "create", "Make an alias for a version of a function, or for two with weights",
			"landfall function alias create hello prod 3\n"+
				"landfall function alias create --name hello --alias qa --version v1.0.1\n"+
				"landfall function alias create hello canary --weights 3=90,4=10 --sticky header:X-User"),
		c.aliasSet(http.MethodPut, "update", "Let an alias point to another version, or to two with weights",
			"landfall function alias update hello prod 4 --reason 'the checkout is repaired'\n"+
				"landfall function alias update --name hello --alias qa --version v1.0.2\n"+
				"landfall function alias update hello canary --weights 3=50,4=50"))
}

// aliasPath returns the path of the aliases of the function that was named, or of what is below it.
func aliasPath(in Operands, below ...string) string {
	return pathOf(append([]string{"functions", in["name"], "aliases"}, below...)...)
}

func (c *Call) aliasList() *cobra.Command {
	return c.getIn("list NAME", "List the aliases of a function", "landfall function alias list hello",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			aliases, err := client.List[client.Alias](ctx, cl, aliasPath(in), ofNamespace(in))
			heading := []string{"ALIAS", "VERSION", "NUMBER", "STICKY", "MOVED"}
			return printRows(c, aliases, err, heading, func(a client.Alias) []string {
				var numbers []string
				for _, s := range a.Shares {
					numbers = append(numbers, strconv.FormatInt(s.Number, 10))
				}
				return []string{a.Name, a.String(), strings.Join(numbers, ", "), string(a.Sticky), Local(a.Moved)}
			})
		})
}

func (c *Call) aliasHistory() *cobra.Command {
	return c.getIn("history NAME ALIAS", "Show where an alias pointed, newest first",
		"landfall function alias history hello prod", func(ctx context.Context, cl *client.Client, in Operands) error {
			moves, err := client.List[client.AliasMove](ctx, cl, aliasPath(in, in["alias"], "moves"), ofNamespace(in))
			return printRows(c, moves, err, []string{"AT", "FROM", "TO", "BY", "WHY"}, func(m client.AliasMove) []string {
				return []string{Local(m.At), m.From, m.To, m.Actor, m.Reason}
			})
		})
}

// flagReason gives a command the flag that says why it moves a pointer.
func flagReason(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "", "why, in at most 500 characters; it is kept in the history")
}

// removed returns the query that says in which namespace something is removed, and why.
func removed(in Operands, reason string) string {
	return queryOf(map[string]string{"namespace": in["namespace"], "reason": reason}).Encode()
}

func (c *Call) aliasDelete() *cobra.Command {
	var reason string
	cmd := c.getIn("delete NAME ALIAS", "Remove an alias; its versions stay",
		"landfall function alias delete --name hello --alias qa",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			err := cl.Do(ctx, http.MethodDelete, aliasPath(in, in["alias"])+"?"+removed(in, reason), nil, nil)
			if err != nil {
				return err
			}
			return c.printDeleted("alias", in["name"]+":"+in["alias"])
		})
	flagReason(cmd, &reason)
	return cmd
}

func (c *Call) aliasSet(method, verb, short, example string) *cobra.Command {
	var weights, sticky, reason string
	var cmd *cobra.Command
	cmd = c.getIn(verb+" NAME ALIAS [VERSION]", short, example,
		func(ctx context.Context, cl *client.Client, in Operands) error {
			body := struct {
				Alias   string         `json:"alias,omitempty"`
				Version string         `json:"version,omitempty"`
				Weights map[string]int `json:"weights,omitempty"`
				Reason  string         `json:"reason,omitempty"`
				Sticky  *string        `json:"sticky,omitempty"`
			}{Version: in["version"], Reason: reason}
			if cmd.Flags().Changed("sticky") {
				body.Sticky = &sticky
			}
			var err error
			if body.Weights, err = parseWeights(weights); err != nil {
				return err
			}
			if body.Version == "" && weights == "" {
				return Invalid("where should %s point? give a VERSION, or --weights VERSION=PERCENT,VERSION=PERCENT", in["alias"])
			}
			path := aliasPath(in, in["alias"])
			if method == http.MethodPost {
				body.Alias, path = in["alias"], aliasPath(in)
			}
			return ask(ctx, cl, method, path+"?"+ofNamespace(in).Encode(), body, func(a client.Alias) error {
				return c.Print(a, func(t *Table) {
					t.field("alias", a.Name)
					t.field("version", a.String())
					t.field("sticky", string(a.Sticky))
				})
			})
		})
	cmd.Flags().StringVar(&weights, "weights", "", "two versions and how many percent of the calls each gets: v1=90,v2=10")
	cmd.Flags().StringVar(&sticky, "sticky", "",
		"what keeps a client on one of the two: cookie, cookie:NAME or header:NAME; an empty one ends that")
	flagReason(cmd, &reason)
	return cmd
}

// parseWeights reads VERSION=PERCENT,VERSION=PERCENT.
func parseWeights(written string) (map[string]int, error) {
	weights := map[string]int{}
	if written == "" {
		return weights, nil
	}
	for part := range strings.SplitSeq(written, ",") {
		version, percent, ok := strings.Cut(part, "=")
		n, err := strconv.Atoi(strings.TrimSuffix(percent, "%"))
		if _, twice := weights[version]; !ok || err != nil || version == "" || twice {
			return nil, Invalid("--weights is %q; right would be %s", landfall.Printable(written),
				"VERSION=PERCENT,VERSION=PERCENT, for example v1=90,v2=10")
		}
		weights[version] = n
	}
	return weights, nil
}
