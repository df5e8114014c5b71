package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// unitPath returns the path of a function or package, or of what is below it.
func (k unitKind) unitPath(name string, below ...string) string {
	return k.path + pathOf(append([]string{name}, below...)...)
}

// versionOf returns the path of the version that the operands name, with the query that says the namespace.
func (k unitKind) versionOf(in Operands) (path string, query url.Values, err error) {
	ref, err := landfall.ParseReference(in["name"])
	if err != nil {
		return "", nil, err
	}
	return k.unitPath(ref.Name, "versions", cmp.Or(in["version"], ref.Selector)),
		url.Values{"namespace": {cmp.Or(ref.Namespace, in["namespace"])}}, nil
}

// versionUpdate is the command that makes another version, or, where nothing but a description is said, describes the
// one that is named.
func (c *Call) versionUpdate(k unitKind) *cobra.Command {
	example := "landfall function version update --name foo --pkg foo-pkg --version bla\n" +
		"landfall function version update foo --code foo.py\n" +
		"landfall function version update foo --version 3 --description \"Answers in three languages\""
	if k.name == "package" {
		example = "landfall package version update --name src-pkg --src src-archive.zip\n" +
			"landfall package version update src-pkg --version 3 --description \"With the new library\""
	}
	short := "Make another version of a " + k.name + ", or describe one"
	cmd := c.makeCommand(k, "update NAME", short, example, client.NewVersion{Update: true})
	cmd.Long = short + `.

The new version has what is said here, and is as the latest in the rest. With --description and --version alone
none is made: the version that --version names gets the description.

` + wordsOfLimits
	return cmd
}

// describe changes the description of a version.
func (c *Call) describe(ctx context.Context, cl *client.Client, k unitKind, in Operands, n newVersion) error {
	in["version"] = n.version
	path, query, err := k.versionOf(in)
	if err != nil {
		return err
	}
	body := map[string]string{"description": n.Description}
	return ask(ctx, cl, http.MethodPut, path+"?"+query.Encode(), body, c.showVersion)
}

func (c *Call) versionDownload(k unitKind) *cobra.Command {
	var file string
	var source bool
	cmd := c.getIn("download NAME [VERSION]", "Download what a version runs, as a zip archive",
		"landfall "+k.name+" version download hello:live\nlandfall "+k.name+
			" version download hello 3 --source --file hello.zip",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			path, query, err := k.versionOf(in)
			if err != nil {
				return err
			}
			query.Set("download", "true")
			if source {
				query.Set("archive", "source")
			}
			archive, name, err := cl.Download(ctx, path+"?"+query.Encode())
			if err != nil {
				return err
			}
			defer archive.Close()
			return c.save(archive, cmp.Or(file, name))
		})
	cmd.Flags().BoolVar(&source, "source", false, "the source of the package, where it is built, in place of what runs")
	cmd.Flags().StringVar(&file, "file", "",
		"where to write it: a file that is not there yet, or - for standard output (default NAME-VERSION.zip)")
	return cmd
}

// save writes a download into a new file, whole or not at all.
func (c *Call) save(from io.Reader, file string) (err error) {
	if file == "-" {
		_, err := io.Copy(c.Stdout, from)
		return err
	}
	if _, err := os.Lstat(file); err == nil {
		return Invalid("%s is there already: name another with --file", file)
	}
	to, err := os.CreateTemp(filepath.Dir(file), ".download-*")
	if err != nil {
		return Invalid("%v", err)
	}
	defer func() { _ = os.Remove(to.Name()) }() // it is gone once it has its name
	size, err := io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	if err := os.Link(to.Name(), file); err != nil { // never over another
		return Invalid("%v", err)
	}
	fmt.Fprintf(c.Stderr, "%s: %s bytes\n", file, strconv.FormatInt(size, 10))
	return nil
}

func (c *Call) versionDelete(k unitKind) *cobra.Command {
	var yes bool
	cmd := c.getIn("delete NAME VERSION", "Delete a version, or all, unless something holds one",
		"landfall "+k.name+" version delete hello 3\nlandfall "+k.name+" version delete --name hello --version all",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			path, query, err := k.versionOf(in)
			if err != nil {
				return err
			}
			return c.delete(ctx, cl, path, query, yes)
		})
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (c *Call) functionDelete(k unitKind) *cobra.Command {
	var yes, force bool
	cmd := c.getIn("delete NAME", "Delete a function with its aliases and versions, unless something holds one",
		"landfall function delete hello\nlandfall function delete hello --force",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			query := ofNamespace(in)
			if force {
				query.Set("force", "true")
			}
			return c.delete(ctx, cl, k.unitPath(in["name"]), query, yes)
		})
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&force, "force", false, "releases that hold it expire first, but never the live one")
	return cmd
}

// delete deletes what a path names, and says what went. At a terminal it first shows what else goes, and asks.
func (c *Call) delete(ctx context.Context, cl *client.Client, path string, query url.Values, yes bool) error {
	if !yes && IsTerminal(c.Stdin) && IsTerminal(c.Stderr) {
		dry := url.Values{"dry_run": {"true"}}
		maps.Copy(dry, query)
		var all client.Deletion
		if err := cl.Do(ctx, http.MethodDelete, path+"?"+dry.Encode(), nil, &all); err != nil {
			return err
		}
		if len(all.Versions)+len(all.Aliases)+len(all.Tags)+len(all.Releases)+len(all.Triggers) > 1 && !c.agreed(all) {
			return Invalid("nothing was deleted")
		}
	}
	return ask(ctx, cl, http.MethodDelete, path+"?"+query.Encode(), nil, func(gone client.Deletion) error {
		return c.Print(gone, func(t *Table) {
			t.Row("DELETED", "NUMBER")
			deleted(t, gone)
			for _, trigger := range gone.Triggers {
				fmt.Fprintf(c.Stderr, "the %s leads nowhere now\n", printable(trigger.String()))
			}
		})
	})
}

// deleted adds a row for each thing that a deletion takes.
func deleted(t *Table, d client.Deletion) {
	for _, release := range d.Releases {
		t.Row("release "+string(release), "")
	}
	for _, alias := range d.Aliases {
		t.Row("alias "+alias, "")
	}
	for _, tag := range d.Tags {
		t.Row("its place in the function tag "+tag, "")
	}
	for _, v := range d.Versions {
		t.Row(string(v.Kind)+" "+v.Name, strconv.FormatInt(v.Number, 10))
	}
}

// agreed shows a person what a deletion takes, and which triggers it leaves without a function, and returns whether
// they agree.
func (c *Call) agreed(all client.Deletion) bool {
	t := newTable(c.Stderr)
	t.Row("THIS WILL BE DELETED", "NUMBER")
	deleted(t, all)
	for i, trigger := range all.Triggers {
		if i == 0 {
			t.section("THIS WILL LEAD NOWHERE")
		}
		t.Row(trigger.String())
	}
	_ = t.w.Flush() // a terminal that is gone does not agree
	fmt.Fprint(c.Stderr, "Delete all of it? [y/N] ")
	line, _ := bufio.NewReader(c.Stdin).ReadString('\n') // an end without a line is no
	return strings.EqualFold(strings.TrimSpace(line), "y")
}

func (c *Call) functionShow(k unitKind) *cobra.Command {
	return c.getIn("show NAME", "Show a function's aliases and versions",
		"landfall function show hello\nlandfall function show hello -o json",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			path := k.unitPath(in["name"]) + "?" + ofNamespace(in).Encode()
			return ask(ctx, cl, http.MethodGet, path, nil, c.showFunction)
		})
}

func (c *Call) showFunction(m client.FunctionMaster) error {
	return c.Print(m, func(t *Table) {
		t.Row("ALIAS", "VERSION", "PERCENT")
		for _, a := range m.Alias {
			weight := ""
			if a.FunctionRef.Weight > 0 {
				weight = strconv.Itoa(a.FunctionRef.Weight)
			}
			t.Row(a.Name, a.FunctionRef.Name, weight)
		}
		t.section("VERSION")
		for _, v := range m.Versions {
			t.Row(v.Name)
		}
	})
}
