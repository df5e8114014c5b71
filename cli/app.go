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

func (c *Call) appCommand() *cobra.Command {
	history := c.ofFolder("history [APP]", "Show the versions of an app, newest first, and which of them are releases",
		"landfall app history shop\ncd shop && landfall app history", c.appHistory)
	history.Aliases = []string{"list-version", "list-history"}
	return c.group("app", "Make, show and delete apps", "landfall app create shop\nlandfall app list",
		c.appCreate(),
		c.get("list", "List the apps", "landfall app list\nlandfall app list -o json", c.appList),
		c.get("show APP", "Show one app", "landfall app show shop",
			func(ctx context.Context, cl *client.Client, in Operands) error {
				return ask(ctx, cl, http.MethodGet, appPath(in), nil, c.showApp)
			}),
		c.appSet(),
		c.appKey(),
		c.appHook(),
		c.appDeliveries(), c.appDelete(),
		history,
		c.ofFolder("diff [APP] A B", "Show what differs between two versions of an app",
			"landfall app diff shop live latest\ncd shop && landfall app diff live latest", c.appDiff),
		c.ofFolder("state [APP] AT", "Show which versions were in force at a commit or time",
			"landfall app state shop --at 2026-11-20T15:00:00Z\nlandfall app state shop --at 3f9c1ab", c.appState),
	)
}

// get returns a command that talks to the server. An app that it names, and what it names of one, may be written as
// NAMESPACE/NAME.
func (c *Call) get(use, short, example string,
	run func(ctx context.Context, cl *client.Client, in Operands) error) *cobra.Command {
	var qualified []string
	if strings.Contains(use, "APP") {
		qualified = []string{"app", "name"}
	}
	return c.asking(use, short, example, qualified, func(ctx context.Context, cl *client.Client, in Operands) error {
		if in["namespace"] != "" && in["app"] != "" {
			if _, err := appIn(ctx, cl, in["namespace"], in["app"]); err != nil {
				return err
			}
		}
		return run(ctx, cl, in)
	})
}

// asking returns a command that talks to the server. Of the operands that may be written as NAMESPACE/NAME, run gets
// the names, and in "namespace" what stood before them.
func (c *Call) asking(use, short, example string, qualified []string,
	run func(ctx context.Context, cl *client.Client, in Operands) error) *cobra.Command {
	var cmd *cobra.Command
	cmd = c.Command(use, short, example, func(ctx context.Context, in Operands) error {
		cl, err := c.Client()
		if err != nil {
			return err
		}
		if err := splitNames(cmd, in, qualified); err != nil {
			return err
		}
		if err := splitAppFlag(ctx, cl, cmd, in); err != nil {
			return err
		}
		return run(ctx, cl, in)
	})
	return cmd
}

// splitAppFlag takes the namespace out of the flag --app, as splitNames does of operands. NotFound when the app is in
// another one.
func splitAppFlag(ctx context.Context, cl *client.Client, cmd *cobra.Command, in Operands) error {
	f := cmd.Flags().Lookup("app")
	if _, isOperand := in["app"]; isOperand || f == nil {
		return nil
	}
	flag := Operands{"app": f.Value.String(), "namespace": in["namespace"]}
	if err := splitNames(cmd, flag, []string{"app"}); err != nil || flag["app"] == f.Value.String() {
		return err
	}
	if app, err := appIn(ctx, cl, flag["namespace"], flag["app"]); err != nil && app.Name != "" {
		return err
	}
	in["namespace"] = flag["namespace"]
	return f.Value.Set(flag["app"])
}

// splitNames takes the namespace out of operands that are written as NAMESPACE/NAME, and adds it to them. Invalid when
// two of them, or one and --namespace, say another.
func splitNames(cmd *cobra.Command, in Operands, qualified []string) error {
	said := "" // how the namespace was said
	if f := cmd.Flags().Lookup("namespace"); f != nil && f.Changed {
		in["namespace"], said = f.Value.String(), "--namespace "+f.Value.String()
	}
	for _, word := range qualified {
		namespace, name, err := splitName(in[word])
		if err != nil {
			return err
		}
		if namespace == "" {
			continue
		}
		if said != "" && namespace != in["namespace"] {
			return Invalid("%s is of the namespace %s, and %s says another: leave one of them out", in[word], namespace, said)
		}
		in["namespace"], said, in[word] = namespace, in[word], name
	}
	return nil
}

// splitName splits what is written as NAMESPACE/NAME, or NAMESPACE/NAME:VERSION. Without a namespace it is all name.
func splitName(written string) (namespace, name string, err error) {
	if before, _, _ := strings.Cut(written, ":"); !strings.Contains(before, "/") {
		return "", written, nil
	}
	ref, err := landfall.ParseReference(written)
	if err == nil {
		err = landfall.CheckNamespaceName(ref.Namespace)
	}
	if err != nil {
		return "", "", Invalid("%q: %s", written, landfall.MessageOf(err))
	}
	return ref.Namespace, strings.TrimPrefix(written, ref.Namespace+"/"), nil
}

// appIn returns an app. NotFound when it is in another namespace.
func appIn(ctx context.Context, cl *client.Client, namespace, name string) (app client.App, err error) {
	err = cl.Do(ctx, http.MethodGet, appPath(Operands{"app": name}), nil, &app)
	if err == nil && app.Namespace != namespace {
		err = landfall.Errorf("cli", landfall.NotFound, "there is no app %q in the namespace %q: it is in %q", name,
			namespace, app.Namespace)
	}
	return app, err
}

// ask sends a request, and shows what the server answers.
func ask[T any](ctx context.Context, cl *client.Client, method, path string, body any, show func(T) error) error {
	var answer T
	if err := cl.Do(ctx, method, path, body, &answer); err != nil {
		return err
	}
	return show(answer)
}

// pathOf returns the path of elements, each of which may have any character.
func pathOf(elements ...string) string {
	var path strings.Builder
	for _, element := range elements {
		path.WriteString("/" + url.PathEscape(element))
	}
	return path.String()
}

// appPath returns the path of the app that was named, or of what is below it.
func appPath(in Operands, below ...string) string {
	return pathOf(append([]string{"apps", in["app"]}, below...)...)
}

func (c *Call) appCreate() *cobra.Command {
	var app client.NewApp
	var passwordFile, hostKeyFile string
	cmd := c.asking("create NAME", "Make an app",
		"landfall app create shop\n"+
			"landfall app create shop --repo harbor/shop\n"+
			"landfall app create shop --repo https://github.com/me/shop --branch main --repo-token-file token\n"+
			"landfall app create shop --repo git@github.com:me/shop.git",
		[]string{"name"}, func(ctx context.Context, cl *client.Client, in Operands) error {
			app.Name, app.Namespace = in["name"], in["namespace"]
			if err := cmp.Or(landfall.CheckAppName(app.Name), checkPreviews(app.Previews)); err != nil {
				return err
			}
			var err error
			if app.Password, err = c.readCredential(passwordFile); err != nil {
				return err
			}
			if app.HostKeys, err = c.readHostKeys(hostKeyFile); err != nil {
				return err
			}
			isNew := app.Namespace != "" &&
				landfall.Is(cl.Do(ctx, http.MethodGet, fnPath(app.Namespace), nil, nil), landfall.NotFound)
			err = ask(ctx, cl, http.MethodPost, "/apps", app, c.showApp)
			if err == nil && isNew {
				fmt.Fprintf(c.Stderr, "made the namespace %s, too\n", printable(app.Namespace))
			}
			return err
		})
	cmd.Long = `Make an app.

Without --repo the built-in remote is the app's repository: push to the address that is printed, with any
user name and a token as password.

With --repo OWNER/NAME the repository is reached as the GitHub App that is connected (landfall github
connect), and nothing else is needed. With a clone address, the webhook that is printed goes into the
repository's settings.

A private repository is read over https with a token, or by ssh (git@HOST:PATH) with a deploy key. The key
is made with the app; the answer has the public half, and says where to add it.`
	flags := cmd.Flags()
	flags.StringVar(&app.Repository, "repo", "",
		"OWNER/NAME at GitHub, or the repository's clone address; without it the built-in remote is the repository")
	flags.StringVar(&app.Branch, "branch", "",
		"production branch (default: the remote's HEAD, or the first branch pushed: of several main, else master)")
	flags.StringVar(&app.Specs, "specs", "", "folder of the spec files (default: specs)")
	flags.StringVar(&app.Folder, "folder", "", "the app's folder in its repository (default: the root)")
	flags.StringVar(&app.Namespace, "namespace", "", "owner of the app's functions and packages (default: default)")
	flags.StringVar(&app.Previews, "previews", "",
		"who sees releases that are not live: public or signed-in (default: public)")
	flags.StringVar(&app.Username, "repo-user", "", "user name for the repository")
	flags.StringVar(&passwordFile, "repo-token-file", "", tokenFileHelp)
	flags.StringVar(&hostKeyFile, "host-key-file", "", hostKeyFileHelp)
	return cmd
}

func (c *Call) appSet() *cobra.Command {
	var branch, previews, keepFiles, repository string
	var reached credentialFlags
	cmd := c.get("set APP", "Set another production branch, who sees previews, how long old files stay, or a new "+
		"password or token for an app's repository",
		"landfall app set shop --branch main\nlandfall app set shop --previews signed-in\n"+
			"landfall app set shop --keep-files 7d\nlandfall app set shop --repo harbor/shop\n"+
			"landfall app set shop --repo-token-file token",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			if !reached.change() && (branch+previews+keepFiles+repository == "" || reached.username != "") {
				return Invalid(
					"name the file that holds the new password or token: landfall app set %[1]s --repo-token-file FILE; "+
						"or another production branch: landfall app set %[1]s --branch BRANCH; or who sees releases that are not live: "+
						"landfall app set %[1]s --previews public|signed-in; or how long files of releases that were live are served: "+
						"landfall app set %[1]s --keep-files 24h", in["app"])
			}
			if err := cmp.Or(checkPreviews(previews), checkKeepFiles(keepFiles), reached.check()); err != nil {
				return err
			}
			var app client.App
			if err := c.setCredentials(ctx, cl, in, reached, &app); err != nil {
				return err
			}
			for _, setting := range []struct {
				value, path string
				body        any
			}{
				{repository, "repository", client.Repository{Repository: repository}},
				{branch, "branch", client.Branch{Branch: branch}},
				{previews, "previews", client.Previews{Previews: previews}},
				{keepFiles, "keep-files", client.KeepFiles{KeepFiles: landfall.Age(keepFiles)}},
			} {
				if setting.value == "" {
					continue
				}
				if err := cl.Do(ctx, http.MethodPut, appPath(in, setting.path), setting.body, &app); err != nil {
					return err
				}
			}
			if keepFiles != "" && app.KeepFiles.Duration() != landfall.Age(keepFiles).Duration() {
				fmt.Fprintf(c.Stderr, "release.keep_files in the spec of %s is %s and goes before; %s holds once the production "+
					"branch does not say it\n", printable(app.Name), printable(string(app.KeepFiles)), keepFiles)
			}
			if repository != "" && app.GitHubApp {
				fmt.Fprintf(c.Stderr, "%s is reached as the GitHub App; a deploy key or a webhook that somebody made for it at "+
					"GitHub is not used, and can be deleted there\n", printable(app.Name))
			}
			return c.showApp(app)
		})
	cmd.Long = `Set another production branch, who sees previews, how long old files stay, or a new password or token for
an app's repository.

With --previews signed-in, releases that are not live answer only those who are signed in at this server,
or send a token, and may read the app. It holds at once, for releases that are there already, too.

With --keep-files 7d, scripts, styles, images and other files that pages load are served for 7 days after
their release was live, where the live one has no such file: pages that were open during a push go on
working. 0 ends that. It holds at once, unless the newest release of the production branch has a
release.keep_files of its own in its spec.

Live stays where it is until the next push to the new production branch. A password or token is sealed, used
from the next run on, sent to the repository's own host only, and never shown: landfall app show says when
it was set. A run that failed because the old one is refused can be repeated with landfall run retry RUN.
--no-repo-token removes it.

With --repo OWNER/NAME the app's repository is reached as the GitHub App from now on (landfall github connect).
It must be the same repository, and the App must see it. The app's token, deploy key and webhook are not used
any more; the webhook that the server made is deleted. After a repository was transferred to another owner,
nothing of it runs: landfall app show says so. With --repo OWNER/NAME the app follows it there.`
	cmd.Flags().StringVar(&branch, "branch", "", "production branch")
	cmd.Flags().StringVar(&repository, "repo", "",
		"OWNER/NAME of the app's repository, to reach it as the GitHub App, or where it was transferred to")
	cmd.Flags().StringVar(&previews, "previews", "", "who sees releases that are not live: public or signed-in")
	cmd.Flags().StringVar(&keepFiles, "keep-files", "",
		"how long files of releases that were live are served: 24h, 7d, or 0 for never")
	reached.add(cmd.Flags())
	return cmd
}

func checkPreviews(value string) error { return oneOf("previews", value, "public", "signed-in") }

func checkKeepFiles(value string) error {
	if _, err := landfall.ParseAge(value); value != "" && err != nil {
		return Invalid("--keep-files is %q; right would be a length of time such as 24h or 7d, or 0 for never", value)
	}
	return nil
}

// showApp shows an app.
func (c *Call) showApp(app client.App) error {
	return c.Print(app, func(t *Table) {
		t.field("name", app.Name)
		t.field("url", app.URL)
		t.field("repository", app.Repository)
		t.field("reached as", map[bool]string{true: "the GitHub App (landfall github show)"}[app.GitHubApp])
		showCredentials(t, app)
		t.field("branch", app.Branch)
		t.field("specs", app.Specs)
		t.field("folder", app.Folder)
		t.field("namespace", app.Namespace)
		t.field("previews", app.Previews)
		t.field("keep files", string(app.KeepFiles))
		t.field("live", live(app))
		t.field("created", Local(app.Created))
		t.field("deleted", Local(app.Deleted))
		for _, problem := range app.Problems {
			t.field("problem", problem)
		}
		showHook(t, app)
	})
}

// showHook shows an app's webhook.
func showHook(t *Table, app client.App) {
	if app.Hook != nil {
		t.field("webhook", app.Hook.URL)
		t.field("webhook secret (shown once)", app.Hook.Secret)
		t.field("webhook at the forge", seenAtForge(*app.Hook))
		t.field("webhook problem", app.Hook.Problem)
		if app.Hook.Mended != "" {
			t.field("webhook mended", Local(app.Hook.MendedAt)+": "+app.Hook.Mended)
		}
	}
}

// seenAtForge says who made a webhook at the forge, and when it was seen there.
func seenAtForge(hook client.Hook) string {
	switch {
	case hook.Looked.IsZero():
		return ""
	case hook.Made:
		return "made by this server, as it has to be at " + Local(hook.Looked)
	}
	return "made by hand, seen at " + Local(hook.Looked)
}

func (c *Call) appHook() *cobra.Command {
	var rotate bool
	cmd := c.get("hook APP", "Show the webhook of an app, or give it a new secret",
		"landfall app hook shop\nlandfall app hook shop --rotate",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			method, path := http.MethodGet, appPath(in)
			if rotate {
				method, path = http.MethodPost, appPath(in, "hook", "rotate")
			}
			return ask(ctx, cl, method, path, nil, func(app client.App) error {
				if app.GitHubApp && app.Hook == nil {
					return landfall.Errorf("cli", landfall.NotFound,
						"%s needs no webhook: the GitHub App hears of its pushes", app.Name)
				}
				if app.Hook == nil {
					return landfall.Errorf("cli", landfall.NotFound,
						"%s has no webhook: its repository is the built-in remote, which hears of pushes by itself", app.Name)
				}
				return c.Print(app.Hook, func(t *Table) { showHook(t, app) })
			})
		})
	cmd.Long = `Show the webhook of an app, or give it a new secret.

The address goes into the repository's settings at the forge, with the secret, which is shown when it is
made and never again. With --rotate there is a new one, and deliveries that are signed with the old one
are refused from then on, until the forge has the new one. Whether deliveries come is what landfall app
deliveries shows. With LANDFALL_GITHUB_TOKEN the server makes the webhook at GitHub by itself, gives it each
new secret, and mends it when somebody changes it there; landfall app show says so.`
	cmd.Flags().BoolVar(&rotate, "rotate", false, "make a new secret; the old one is refused at once")
	return cmd
}

// live returns an app's live release as people read it.
func live(app client.App) string {
	switch {
	case !app.Held:
		return string(app.Live)
	case app.Live == "":
		return "nothing (held)"
	}
	return string(app.Live) + " (held)"
}

func (c *Call) appList(ctx context.Context, cl *client.Client, _ Operands) error {
	apps, err := client.List[client.App](ctx, cl, "/apps", nil)
	return printRows(c, apps, err, []string{"APP", "LIVE", "BRANCH", "URL", "REPOSITORY"}, func(app client.App) []string {
		return []string{app.Name, live(app), app.Branch, app.URL, app.Repository}
	})
}

func (c *Call) appDelete() *cobra.Command {
	var force bool
	cmd := c.get("delete APP", "Delete an app; its name stays reserved", "landfall app delete shop --force",
		func(ctx context.Context, cl *client.Client, in Operands) error {
			path := appPath(in) + "?force=" + strconv.FormatBool(force)
			return ask(ctx, cl, http.MethodDelete, path, nil, func(app client.App) error {
				return c.Print(app, func(t *Table) { t.Row("deleted " + app.Name) })
			})
		})
	cmd.Flags().BoolVar(&force, "force", false,
		"end its runs, close its addresses, and remove what it stored; the names of its functions are free")
	return cmd
}
