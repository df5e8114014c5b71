package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/secret"
)

func (c *Call) secretCommand() *cobra.Command {
	return c.group("secret", "Give the functions of an app secrets",
		"landfall secret set shop STRIPE_KEY\nlandfall secret list shop", c.secretSet(),
		c.get("list APP", "List an app's secrets: their versions, who set them, and which functions name them",
			"landfall secret list shop", c.secretList), c.secretRevoke(),
		c.get("delete APP NAME", "Delete a secret that no reachable release has", "landfall secret delete shop STRIPE_KEY",
			func(ctx context.Context, cl *client.Client, in Operands) error {
				if err := cl.Do(ctx, http.MethodDelete, appPath(in, "secrets", in["name"]), nil, nil); err != nil {
					return err
				}
				return c.printDeleted("secret", in["name"])
			}),
	)
}

func (c *Call) secretSet() *cobra.Command {
	var file string
	var body client.NewSecret
	cmd := c.get("set APP NAME", "Set a secret, and release the app with it",
		"landfall secret set shop STRIPE_KEY\nlandfall secret set shop STRIPE_KEY < key\n"+
			"landfall secret set shop TLS_KEY --from-file key.pem --no-release\nlandfall secret set shop NPM_TOKEN --build",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			if err := secret.CheckName(in["name"]); err != nil {
				return err
			}
			var err error
			if body.Value, err = c.secretValue(file); err != nil {
				return err
			}
			if err := secret.CheckValue(secret.Text(body.Value)); err != nil {
				return err
			}
			if body.Build {
				if err := secret.CheckBuild(in["name"], secret.Text(body.Value)); err != nil {
					return err
				}
			}
			var set client.SecretSet
			if err := cl.Do(ctx, http.MethodPut, appPath(in, "secrets", in["name"]), body, &set); err != nil {
				return err
			}
			if !set.Hidden {
				fmt.Fprintf(c.Stderr, "a value of fewer than %d bytes is not taken out of logs\n", secret.Shortest)
			}
			return c.Print(set, func(t *Table) { showSecretSet(t, set) })
		})
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 2 { // not shown
			return Invalid(
				"a value is no argument, which other users of this machine and the history of the shell could read: " +
					"type it when asked, give it on standard input, or name a file with --from-file")
		}
		return nil
	}
	cmd.Long = `Set a secret, and release the app with it.

The value is asked for, or read from standard input, or from a file: at most 64 KiB of text, of which one
line end at the end does not count. A function that names the secret in its spec finds it in the
environment variable of that name. Each value is a version of the secret. Unless --no-release says
otherwise, production is released anew with it, and a rollback brings the value before back. With
--preview the value is for every branch but production; without such a value they have production's.

With --build the value is for build commands, and no function can have it: what private registries ask
for. The builds of every push find it in the variable of that name. NPM_RC becomes the build's ~/.npmrc
and NETRC its ~/.netrc; DOCKER_AUTH_CONFIG, the text of a config.json of Docker, is for images that are
pulled. Pull requests of forks are not built.`
	cmd.Flags().StringVar(&file, "from-file", "", "file that holds the value")
	cmd.Flags().BoolVar(&body.Preview, "preview", false,
		"the value is for every branch but production, from its next release on")
	cmd.Flags().BoolVar(&body.Build, "build", false, "the value is for build commands, and for no function")
	cmd.Flags().BoolVar(&body.NoRelease, "no-release", false, "make no release: the next one uses it")
	return cmd
}

// secretValue reads a value from a file, a terminal or standard input.
func (c *Call) secretValue(file string) (string, error) {
	in := c.Stdin
	if file != "" {
		f, err := os.Open(filepath.Clean(file))
		if err != nil {
			return "", Invalid("%s cannot be read: %v", file, err)
		}
		defer f.Close()
		in = f
	} else if f, ok := c.Stdin.(*os.File); ok && IsTerminal(f) {
		fmt.Fprint(c.Stderr, "value: ")
		value, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(c.Stderr)
		return string(value), err
	}
	const lineEnd = 2
	data, err := io.ReadAll(io.LimitReader(in, secret.MaxValue+lineEnd+1))
	if err != nil {
		return "", Invalid("the value cannot be read: %v", err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

func showSecretSet(t *Table, set client.SecretSet) {
	t.field("secret", set.Name)
	number := strconv.FormatInt(set.Number, 10)
	if !set.Made {
		number += " (it had that value already)"
	}
	t.field("version", number)
	t.field("release", string(set.Release))
	t.field("url", set.URL)
	if set.Release != "" {
		t.field("live", strconv.FormatBool(set.Live))
	}
	t.field("note", set.Note)
}

func (c *Call) secretList(ctx context.Context, cl *client.Client, in Operands) error {
	secrets, err := client.List[client.Secret](ctx, cl, appPath(in, "secrets"), nil)
	if err != nil {
		return err
	}
	return c.Print(secrets, func(t *Table) {
		t.Row("SECRET", "NUMBER", "SET", "BY", "FOR", "STATE", "FUNCTIONS")
		for _, s := range secrets {
			for _, v := range s.Versions {
				line, state := "production", ""
				switch {
				case v.Build && v.Preview:
					line = "builds of previews"
				case v.Build:
					line = "builds"
				case v.Preview:
					line = "previews"
				}
				switch {
				case !v.Revoked.IsZero():
					state = "revoked by " + v.RevokedBy
				case v.Live:
					state = "live"
				}
				t.Row(s.Name, strconv.FormatInt(v.Number, 10), Local(v.Created), v.Actor, line, state,
					strings.Join(s.Functions, ", "))
			}
		}
	})
}

func (c *Call) secretRevoke() *cobra.Command {
	cmd := c.get("revoke APP NAME", "Take the value of a version away for good",
		"landfall secret revoke shop STRIPE_KEY:3", func(ctx context.Context, cl *client.Client, in Operands) error {
			name, version, ok := strings.Cut(in["name"], ":")
			if !ok || version == "" {
				return Invalid("say which version: landfall secret revoke %s %s:NUMBER; landfall secret list %s shows them",
					in["app"], name, in["app"])
			}
			path, body := appPath(in, "secrets", name, "revoke"), map[string]string{"version": version}
			return ask(ctx, cl, http.MethodPost, path, body, func(v client.SecretVersion) error {
				return c.Print(v, func(t *Table) { t.Row(fmt.Sprintf("revoked %s (no. %d)", name, v.Number)) })
			})
		})
	cmd.Long = `Take the value of a version away for good.

The version is NAME:NUMBER. It must not be the one that the live release has: set another value first. No
release with the version becomes live any more, by a rollback either; in releases that answer still,
functions that name the secret are not run.`
	return cmd
}
