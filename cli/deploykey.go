package cli

import (
	"context"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

const hostKeyFileHelp = "file with the keys that the repository's host may have, as ssh-keyscan prints them (-: the " +
	"standard input); GitHub's are built in"

func (c *Call) appKey() *cobra.Command {
	var rotate, remove bool
	var privateFile, hostFile string
	cmd := c.get("key APP", "Show the deploy key of an app, make another one, or say which keys the host may have",
		"landfall app key shop\nlandfall app key shop --rotate\nlandfall app key shop --private-key-file id_ed25519\n"+
			"landfall app key shop --host-key-file hostkeys",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			if rotate && remove || (rotate || remove) && privateFile != "" {
				return Invalid("--rotate, --delete and --private-key-file exclude each other: leave two of them out")
			}
			var app client.App
			if hostFile != "" {
				keys, err := c.readHostKeys(hostFile)
				if err != nil {
					return err
				}
				path := appPath(in, "host-keys")
				if err := cl.Do(ctx, http.MethodPut, path, client.HostKeys{HostKeys: keys}, &app); err != nil {
					return err
				}
			}
			if err := c.changeKey(ctx, cl, in, rotate, remove, privateFile); err != nil {
				return err
			}
			return ask(ctx, cl, http.MethodGet, appPath(in), nil, c.showDeployKey)
		})
	cmd.Long = `Show the deploy key of an app, make another one, or say which keys the host may have.

An app whose repository is read by ssh (git@github.com:OWNER/NAME.git) has a deploy key. Add the public
key, which is printed, to the repository at the forge, to read only. The private half is sealed and never
shown. With --rotate there is a new key, and the repository is not read until that is added, too.

Nothing is sent to a host with another key than those that are pinned: GitHub's are built in. Of another
host, compare what ssh-keyscan HOST prints with what the host publishes, and pin it with --host-key-file;
an empty file returns to those that are built in.`
	flags := cmd.Flags()
	flags.BoolVar(&rotate, "rotate", false, "make a new key; the old one is used no more")
	flags.BoolVar(&remove, "delete", false, "remove the key")
	flags.StringVar(&privateFile, "private-key-file", "",
		"file with a private key without a passphrase, to be used as the deploy key (-: the standard input)")
	flags.StringVar(&hostFile, "host-key-file", "", hostKeyFileHelp)
	return cmd
}

// changeKey makes, stores or removes a deploy key, if any of that was said.
func (c *Call) changeKey(ctx context.Context, cl *client.Client, in Operands, rotate, remove bool,
	privateFile string) error {
	path := appPath(in, "deploy-key")
	if remove {
		return cl.Do(ctx, http.MethodDelete, path, nil, nil)
	}
	private, err := c.readCredential(privateFile)
	if err != nil || private == "" && !rotate {
		return err
	}
	if private != "" {
		private += "\n" // without which it is no whole file
	}
	return cl.Do(ctx, http.MethodPut, path, client.NewDeployKey{PrivateKey: private}, nil)
}

// readHostKeys reads the lines of a file.
func (c *Call) readHostKeys(file string) (lines []string, err error) {
	text, err := c.readCredential(file)
	lines = []string{}
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines, err
}

func (c *Call) showDeployKey(app client.App) error {
	if app.DeployKey == nil {
		return landfall.Errorf("cli", landfall.NotFound, "the repository of %[1]s is not read by ssh, so it has no deploy "+
			"key: landfall app set %[1]s --repo-token-file FILE stores a token for it", app.Name)
	}
	return c.Print(app.DeployKey, func(t *Table) { showKey(t, *app.DeployKey) })
}

// showKey shows a deploy key, and where it is added.
func showKey(t *Table, key client.DeployKey) {
	t.field("deploy key", key.PublicKey)
	if key.PublicKey != "" {
		t.field("deploy key set", Local(key.Set)+", "+key.Fingerprint)
		at := key.Page
		if at == "" {
			at = "the settings of the repository at its host"
		}
		t.field("add it, to read only, at", at)
	}
	for _, host := range key.HostKeys {
		t.field("host key", host)
	}
}
