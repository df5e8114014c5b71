package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// unitKind is a kind of unit that has commands of its own; functions and packages have the same ones.
type unitKind struct {
	name, short, path string
}

func functionKind() unitKind { return unitKind{"function", "fn", "/functions"} }

func packageKind() unitKind { return unitKind{"package", "pkg", "/packages"} }

func (c *Call) unitCommand(k unitKind) *cobra.Command {
	versions := c.group("version", "Make, show, describe, download and delete the versions of a "+k.name,
		"landfall "+k.name+" version list hello", c.versionCreate(k), c.versionList(k), c.versionShow(k), c.versionUpdate(k),
		c.versionDownload(k), c.versionDelete(k))
	commands := []*cobra.Command{c.unitList(k), versions}
	short := "Show " + k.name + "s and their versions"
	if k.name == "function" {
		commands = append(commands, c.functionCreate(k), c.functionShow(k), c.functionDelete(k), c.aliasCommand(),
			c.functionInvoke(), c.functionLogs())
		short = "Show functions and their versions, name and call them"
	}
	cmd := c.group(k.name, short, "landfall "+k.name+" list\nlandfall "+k.name+" version list hello", commands...)
	cmd.Aliases = []string{k.short}
	return cmd
}

// getIn is get for what is in a namespace: the command takes --namespace, or a name that is written as NAMESPACE/NAME,
// and run gets the namespace with the operands.
func (c *Call) getIn(use, short, example string,
	run func(ctx context.Context, cl *client.Client, in Operands) error) *cobra.Command {
	cmd := c.asking(use, short, example, []string{"app", "name", "function"},
		func(ctx context.Context, cl *client.Client, in Operands) error {
			in["namespace"] = cmp.Or(in["namespace"], landfall.DefaultNamespace)
			return run(ctx, cl, in)
		})
	cmd.Flags().String("namespace", landfall.DefaultNamespace, "namespace")
	return cmd
}

// listIn is getIn for a list. Who asks for a namespace that is not there gets an empty list, as from other programs,
// and is told on standard error. list returns how many items there are.
func (c *Call) listIn(use, short, example string,
	list func(ctx context.Context, cl *client.Client, in Operands) (int, error)) *cobra.Command {
	return c.getIn(use, short, example, func(ctx context.Context, cl *client.Client, in Operands) error {
		n, err := list(ctx, cl, in)
		if err != nil || n > 0 {
			return err
		}
		if !landfall.Is(cl.Do(ctx, http.MethodGet, fnPath(in["namespace"]), nil, nil), landfall.NotFound) {
			return nil
		}
		near := nearName(ctx, cl, proposals()["namespace"], in, in["namespace"])
		if near != "" {
			near = "; did you mean " + strconv.Quote(near) + "?"
		}
		fmt.Fprintf(c.Stderr, "there is no namespace %q%s\n", in["namespace"], near)
		return nil
	})
}

// ofNamespace returns the query that says the namespace.
func ofNamespace(in Operands) url.Values { return url.Values{"namespace": {in["namespace"]}} }

func (c *Call) unitList(k unitKind) *cobra.Command {
	return c.listIn("list", "List the "+k.name+"s in force", "landfall "+k.name+" list",
		func(ctx context.Context, cl *client.Client, in Operands) (int, error) {
			units, err := client.List[client.Unit](ctx, cl, k.path, ofNamespace(in))
			heading := []string{strings.ToUpper(k.name), "NAMESPACE", "APP", "VERSIONS", "LATEST"}
			return len(units), printRows(c, units, err, heading, func(u client.Unit) []string {
				return []string{u.Name, u.Namespace, u.App, strconv.Itoa(u.Versions), string(u.Latest)}
			})
		})
}

func (c *Call) versionList(k unitKind) *cobra.Command {
	return c.getIn("list NAME", "List the versions of a "+k.name+", oldest first",
		"landfall "+k.name+" version list hello\nlandfall "+k.short+" version list --name hello -o json",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			path := k.unitPath(in["name"], "versions")
			versions, err := client.List[client.Version](ctx, cl, path, ofNamespace(in))
			heading := []string{"VERSION", "NUMBER", "CREATED", "COMMIT", "NAMES", "DESCRIPTION"}
			return printRows(c, versions, err, heading, func(v client.Version) []string {
				return []string{v.Metadata.Name, strconv.FormatInt(v.Number, 10), Local(v.Created), v.Commit.Short(),
					versionNames(v), v.Description}
			})
		})
}

// versionNames returns what a version is called beside its uid and number.
func versionNames(v client.Version) string {
	var names []string
	if v.Label != "" {
		names = append(names, v.Label)
	}
	if v.Latest {
		names = append(names, landfall.Latest)
	}
	if v.Live {
		names = append(names, landfall.LivePointer)
	}
	return strings.Join(append(names, v.Aliases...), ", ")
}

func (c *Call) versionShow(k unitKind) *cobra.Command {
	cmd := c.getIn("show NAME [VERSION]",
		"Show one version, named by its uid, number, label, alias, latest, live or digest",
		"landfall "+k.name+" version show hello:live\nlandfall "+k.name+" version show --name hello --version 3 -o yaml",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			path, query, err := k.versionOf(in)
			if err != nil {
				return err
			}
			return ask(ctx, cl, http.MethodGet, path+"?"+query.Encode(), nil, c.showVersion)
		})
	cmd.Aliases = []string{"describe"}
	return cmd
}

func (c *Call) showVersion(v client.Version) error {
	return c.showMade(client.MadeVersion{Version: &v})
}

// showMade shows a version, and what became of the app by making it.
func (c *Call) showMade(made client.MadeVersion) error {
	v := made.Version
	return c.Print(v, func(t *Table) {
		t.field("version", v.Metadata.Name)
		t.field("number", strconv.FormatInt(v.Number, 10))
		t.field("names", versionNames(*v))
		t.field("description", v.Description)
		t.field("namespace", v.Metadata.Namespace)
		t.field("digest", string(v.Digest))
		t.field("commit", string(v.Commit))
		t.field("created", Local(v.Created))
		t.field("spec", string(v.Spec))
		t.field("release", string(made.Release))
		t.field("note", made.Note)
	})
}
