package cli

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

func (c *Call) tokenCommand() *cobra.Command {
	return c.group("token", "Make, list and revoke tokens: what machines and people sign in with",
		"landfall token create ci --scope deploy --app shop --expires 90d\nlandfall token list", c.tokenCreate(),
		c.get("list", "List the tokens: what each may do, until when, and when it was used last", "landfall token list",
			func(ctx context.Context, cl *client.Client, _ Operands) error {
				tokens, err := client.List[client.Token](ctx, cl, "/tokens", nil)
				heading := []string{"TOKEN", "SCOPE", "FOR", "CREATED", "EXPIRES", "LAST USED"}
				return printRows(c, tokens, err, heading, func(k client.Token) []string {
					return []string{k.Name, string(k.Scope), validFor(k), Local(k.Created), orNever(k.Expires), orNever(k.Used)}
				})
			}),
		c.get("delete NAME", "Revoke a token at once; whoever signed in with it is signed out",
			"landfall token delete ci", func(ctx context.Context, cl *client.Client, in Operands) error {
				if err := cl.Do(ctx, http.MethodDelete, pathOf("tokens", in["name"]), nil, nil); err != nil {
					return err
				}
				return c.Print(map[string]string{"deleted": in["name"]}, func(t *Table) {
					t.Row("revoked the token " + in["name"])
				})
			}),
	)
}

func (c *Call) tokenCreate() *cobra.Command {
	var n client.NewToken
	var scope, expires string
	var cmd *cobra.Command
	cmd = c.get("create NAME", "Make a token, and print it this once",
		"landfall token create ci --scope deploy --app shop --expires 90d\n"+
			"landfall token create dashboards --scope read --namespace team",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			if err := oneOf("scope", scope, "read", "invoke", "deploy", "admin"); err != nil {
				return err
			}
			if scope == "" {
				return Invalid("say with --scope what the token may do: read, invoke, deploy or admin")
			}
			for _, flag := range []string{"app", "namespace", "expires"} {
				// A variable of a shell that is not set would make a token for everything, or for ever.
				if f := cmd.Flags().Lookup(flag); f.Changed && f.Value.String() == "" {
					return Invalid("--%s is empty; give it a value, or leave it out", flag)
				}
			}
			n.Name, n.Scope, n.Expires = in["name"], landfall.Scope(scope), landfall.Age(expires)
			return ask(ctx, cl, http.MethodPost, "/tokens", n, c.showMadeToken)
		})
	cmd.Long = `Make a token, and print it this once: the server keeps only its digest.

With --scope read a token sees apps, runs and releases; invoke calls functions; deploy pushes, releases and
rolls back, and sees; admin does everything. --app or --namespace bind it to one app, or to the apps of one
namespace: what belongs to the whole installation is closed to it then.`
	cmd.Flags().StringVar(&scope, "scope", "", "what it may do: read, invoke, deploy or admin")
	cmd.Flags().StringVar(&n.App, "app", "", "app for which alone it is valid (default all apps)")
	cmd.Flags().StringVar(&n.Namespace, "namespace", "", "namespace for whose apps alone it is valid")
	cmd.Flags().StringVar(&expires, "expires", "",
		"how long it is valid, such as 24h or 90d (default as long as the token that makes it)")
	return cmd
}

func (c *Call) showMadeToken(made client.MadeToken) error {
	return c.Print(made, func(t *Table) {
		until := ""
		if !made.Expires.IsZero() {
			until = ", until " + Local(made.Expires)
		}
		t.Row("made the token " + made.Name + ": " + string(made.Scope) + " for " + validFor(made.Token) + until)
		t.Row(made.Text)
		if made.Note != "" {
			t.Row("Note: " + made.Note)
		}
		t.Row("It is not shown again. It goes into LANDFALL_TOKEN, after Authorization: Bearer, or as git's password.")
	})
}

// validFor says for what a token is valid.
func validFor(k client.Token) string {
	switch {
	case k.App != "":
		return "the app " + k.App
	case k.Namespace != "":
		return "the namespace " + k.Namespace
	}
	return "all apps"
}

func orNever(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return Local(t)
}
