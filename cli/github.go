package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

func (c *Call) gitHubCommand() *cobra.Command {
	return c.group("github", "Connect GitHub, and show what is connected",
		"landfall github connect\nlandfall github show", c.gitHubConnect(),
		c.get("show", "Show the GitHub App, where it is installed, and what hinders it",
			"landfall github show\nlandfall github show -o json",
			func(ctx context.Context, cl *client.Client, _ Operands) error {
				return ask(ctx, cl, http.MethodGet, "/github", nil, c.showGitHub)
			}),
		c.gitHubRepositories(),
		c.get("disconnect", "Forget the GitHub App with its key and its secrets", "landfall github disconnect",
			func(ctx context.Context, cl *client.Client, _ Operands) error {
				return ask(ctx, cl, http.MethodDelete, "/github/app", nil, func(app client.GitHubApp) error {
					return c.Print(app, func(t *Table) {
						t.Row("disconnected the GitHub App " + app.Slug + "; it still exists at GitHub: " + app.URL)
					})
				})
			}),
	)
}

func (c *Call) gitHubRepositories() *cobra.Command {
	var filter string
	cmd := c.get("repositories", "List the repositories that the GitHub App sees",
		"landfall github repositories --filter shop\nlandfall github repositories -o json",
		func(ctx context.Context, cl *client.Client, _ Operands) error {
			path := "/github/repositories?" + url.Values{"filter": {filter}, "limit": {"1000"}}.Encode()
			return ask(ctx, cl, http.MethodGet, path, nil, func(all client.GitHubRepositories) error {
				for _, problem := range all.Problems {
					fmt.Fprintln(c.Stderr, "Note: "+printable(problem))
				}
				if all.More || all.Found > len(all.Items) {
					fmt.Fprintln(c.Stderr, "Note: the App sees more repositories than these.")
				}
				if all.Found == 0 && filter == "" && len(all.Problems) == 0 {
					fmt.Fprintln(c.Stderr, "Note: the App is installed on no repository; landfall github show says where to do it.")
				}
				return c.Print(all, func(t *Table) {
					t.Row("REPOSITORY", "APPS")
					for _, r := range all.Items {
						t.Row(r.Name, strings.Join(r.Apps, " "))
					}
				})
			})
		})
	cmd.Long = `List the repositories that the GitHub App sees, and the apps that are made of them.

landfall app create NAME --repo OWNER/NAME makes another one. The page /github/repositories does the same.`
	cmd.Flags().StringVar(&filter, "filter", "", "only those with this in OWNER/NAME")
	return cmd
}

// connectEvery is how often it is asked what became of a connection.
const connectEvery = time.Second

func (c *Call) gitHubConnect() *cobra.Command {
	var asked client.NewGitHubConnection
	var noWait bool
	cmd := c.get("connect", "Connect GitHub: a person lets it make a GitHub App for this server, with one click",
		"landfall github connect\nlandfall github connect --organization harbor",
		func(ctx context.Context, cl *client.Client, _ Operands) error {
			var begun client.GitHubConnection
			if err := cl.Do(ctx, http.MethodPost, "/github/connections", asked, &begun); err != nil {
				return err
			}
			if begun.Note != "" {
				fmt.Fprintln(c.Stderr, "Note: "+printable(begun.Note))
			}
			if noWait {
				return c.Print(begun, func(t *Table) { t.Row("Open " + begun.URL) })
			}
			fmt.Fprintln(c.Stderr, "Open "+printable(begun.URL)+" and let GitHub make the App. Waiting …")
			for begun.State == "waiting" {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(connectEvery):
				}
				if err := cl.Do(ctx, http.MethodGet, pathOf("github", "connections", begun.ID), nil, &begun); err != nil {
					return err
				}
			}
			if begun.State != "connected" {
				return landfall.Errorf("cli", landfall.Conflict, "the GitHub App was not connected: %s",
					strings.TrimSpace(begun.Problem+" begin again with landfall github connect"))
			}
			return ask(ctx, cl, http.MethodGet, "/github", nil, c.showGitHub)
		})
	cmd.Long = `Connect GitHub: a person lets it make a GitHub App for this server, with one click.

The command prints the address of a page, and waits. Whoever opens it and is signed in as an administrator
sees what the App may do, and goes on to GitHub, which makes the App and sends its key and its secrets back
to the server. They are sealed as secrets are. Then the App is installed on repositories, and

    landfall app create shop --repo OWNER/NAME

needs nothing else. An App that is connected already stays so until the new one is.`
	cmd.Flags().StringVar(&asked.Organization, "organization", "",
		"organization that will own the App (default: the account of who makes it)")
	cmd.Flags().StringVar(&asked.Name, "name", "", "name of the App (default: Landfall and the server's host)")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "print the address, and do not wait")
	return cmd
}

func (c *Call) showGitHub(g client.GitHub) error {
	return c.Print(g, func(t *Table) {
		if g.App == nil {
			t.Row("no GitHub App is connected: landfall github connect")
			if g.Token {
				t.Row("the server has a plain token (LANDFALL_GITHUB_TOKEN)")
			}
			return
		}
		t.field("app", g.App.Slug)
		t.field("owner", g.App.Owner)
		t.field("url", g.App.URL)
		t.field("connected", Local(g.App.Created))
		for _, p := range g.Problems {
			t.field("problem", strings.TrimPrefix(p.Repository+": ", ": ")+p.Problem)
		}
		if len(g.Installations) == 0 {
			if !slices.ContainsFunc(g.Problems, func(p client.GitHubProblem) bool { return p.Repository == "" }) {
				t.field("installed", "nowhere; open "+g.App.Install) // GitHub said so
			}
			return
		}
		t.field("install elsewhere", g.App.Install)
		t.section("ACCOUNT", "REPOSITORIES", "SUSPENDED", "LACKS")
		for _, i := range g.Installations {
			t.Row(i.Account, i.Repositories, Local(i.Suspended), strings.Join(i.Missing, " "))
		}
	})
}
