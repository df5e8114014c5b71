package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/preflight"
	"landfall.dev/landfall/spec"
)

// apply is what `spec version apply` was asked for.
type apply struct {
	app, branch               string
	noWait, noRelease, dryRun bool
}

// apply brings the work tree to the server and waits for what becomes of it.
func (c *Call) apply(ctx context.Context, from apply) error {
	w, err := openWorktree(ctx)
	if err != nil {
		return err
	}
	cl, err := c.Client()
	if err != nil {
		return err
	}
	if from.branch = cmp.Or(from.branch, w.branch); from.branch == "" {
		fmt.Fprintln(c.Stderr,
			"no branch is checked out: this counts as the production branch; for a preview name another with --branch")
	}
	app, made, err := c.applyTo(ctx, cl, w, from)
	if err != nil {
		return err
	}
	run, err := c.applyNow(ctx, cl, w, app, from)
	if err != nil && made && run.Release == "" && (run.State == "" || run.State.Final()) {
		fmt.Fprintf(c.Stderr,
			"the app %[1]s was made, and has no release yet: mend this and type landfall spec version apply --app %[1]s; "+
				"to give it up, which keeps its name reserved, landfall app delete %[1]s --force\n", app.Name)
	}
	return err
}

// applyNow brings the work tree to an app, and returns what became of it as far as that is known.
func (c *Call) applyNow(ctx context.Context, cl *client.Client, w *worktree, app client.App,
	from apply) (client.Run, error) {
	request, err := c.bring(ctx, cl, w, app)
	if err != nil {
		return client.Run{}, err
	}
	request.Branch, request.NoRelease, request.DryRun = from.branch, from.noRelease, from.dryRun
	var applied client.Applied
	if err := cl.Do(ctx, http.MethodPost, appPath(Operands{"app": app.Name}, "applies"), request, &applied); err != nil {
		return client.Run{}, err
	}
	switch {
	case applied.Run == nil:
		return client.Run{}, c.showDryRun(applied)
	case from.noWait:
		return *applied.Run, c.showRun(*applied.Run)
	}
	run := *applied.Run
	if run.State.Final() { // of an earlier apply or push of this commit, or there is nothing to do
		fmt.Fprintf(c.Stderr, "commit %s: %s\n", run.Commit.Short(), printable(run.Reason))
	} else if run, err = c.follow(ctx, cl, run); err != nil {
		return run, err
	}
	if err := c.finished(run); err != nil {
		fmt.Fprintf(c.Stderr, "the run: landfall run show %s\n", run.ID)
		return run, err
	}
	return run, c.checkLive(ctx, cl, run, from.branch)
}

// applyTo returns the app to apply to, and makes it when it is not there.
func (c *Call) applyTo(ctx context.Context, cl *client.Client, w *worktree, from apply) (app client.App, made bool,
	err error) {
	namespace, name, err := splitName(from.app)
	if err != nil {
		return app, false, err
	}
	if name == "" {
		if name, err = w.app(filepath.Base(w.top)); err != nil {
			return app, false, err
		}
	}
	err = cl.Do(ctx, http.MethodGet, appPath(Operands{"app": name}), nil, &app)
	if err == nil && namespace != "" {
		app, err = appIn(ctx, cl, namespace, name)
		return app, false, err
	}
	if landfall.KindOf(err) != landfall.NotFound || from.dryRun {
		return app, false, err
	}
	if err := c.checkNew(ctx, cl, w, cmp.Or(namespace, landfall.DefaultNamespace)); err != nil {
		return app, false, err // a name is reserved for good: not for an app that cannot be
	}
	fmt.Fprintf(c.Stderr, "making the app %s\n", printable(name))
	err = cl.Do(ctx, http.MethodPost, "/apps", client.NewApp{Name: name, Namespace: namespace, Branch: from.branch}, &app)
	return app, err == nil, err
}

// app returns the name of the work tree's app: the one in its App document, or else the one given.
func (w *worktree) app(otherwise string) (string, error) {
	name := otherwise
	s, err := readSpec(w.top, spec.DefaultFolder)
	if err != nil && !errors.Is(err, errNoSpecs) {
		return "", err // the name may stand where it cannot be read: the folder's would be another app
	}
	if s != nil && s.App != nil && s.App.Name != "" {
		name = s.App.Name
	}
	if err := landfall.CheckAppName(name); err != nil {
		return "", Invalid("%s; name the app with --app, or in an App document", landfall.MessageOf(err))
	}
	return name, nil
}

// pushedTo returns the name of the app whose built-in repository on a server is a remote; nothing when none is, or
// those of several apps are.
func (w *worktree) pushedTo(ctx context.Context, server string) (app string) {
	ours, err := url.Parse(server)
	if err != nil {
		return ""
	}
	remotes, _ := w.git(ctx, nil, "config", "--get-regexp", `^remote\..*\.url$`) // there may be none
	for line := range strings.Lines(remotes) {
		_, address, _ := strings.Cut(strings.TrimSpace(line), " ")
		remote, err := url.Parse(address)
		if err != nil || !strings.EqualFold(remote.Host, ours.Host) {
			continue
		}
		path, isRepository := strings.CutPrefix(remote.Path, "/git/")
		name := strings.TrimSuffix(path, ".git")
		if !isRepository || landfall.CheckAppName(name) != nil {
			continue
		}
		if app != "" && app != name {
			return ""
		}
		app = name
	}
	return app
}

// ofFolder is get for a command that reads of an app. When it is not named, it is that of the work tree around the
// current folder: the one in the App document, or that to which the work tree is pushed, or that of the top folder.
func (c *Call) ofFolder(use, short, example string,
	run func(ctx context.Context, cl *client.Client, in Operands) error) *cobra.Command {
	return c.get(use, short, example, func(ctx context.Context, cl *client.Client, in Operands) error {
		if in["app"] != "" {
			return run(ctx, cl, in)
		}
		w, err := openWorktree(ctx)
		if err == nil {
			in["app"], err = w.app(cmp.Or(w.pushedTo(ctx, cl.URL), filepath.Base(w.top)))
		}
		if err != nil {
			return Invalid("no app is named, and the folder does not say which: %s", landfall.MessageOf(err))
		}
		return run(ctx, cl, in)
	})
}

// checkNew fails when the first apply to a new app would: its specs are wrong, files are missing, or what they declare
// belongs to another app, as when the name of that one was mistyped.
func (c *Call) checkNew(ctx context.Context, cl *client.Client, w *worktree, namespace string) error {
	s, err := readSpec(w.top, spec.DefaultFolder)
	if err != nil {
		return err
	}
	files, err := filesBelow(ctx, w.top)
	if err != nil {
		return err
	}
	problems, _, err := preflight.Check(ctx, os.DirFS(w.top), s, files)
	if err := cmp.Or(err, spec.ErrorOf(problems)); err != nil {
		return err
	}
	declared := map[string][]spec.Object{}
	for _, f := range s.Functions {
		declared["function"] = append(declared["function"], f.Object)
	}
	for _, p := range s.Packages {
		declared["package"] = append(declared["package"], p.Object)
	}
	for _, kind := range slices.Sorted(maps.Keys(declared)) {
		if err := checkFree(ctx, cl, namespace, kind, declared[kind]); err != nil {
			return err
		}
	}
	return nil
}

// checkFree fails when one of the functions or packages of a new app is another app's.
func checkFree(ctx context.Context, cl *client.Client, namespace, kind string, declared []spec.Object) error {
	units, err := client.List[client.Unit](ctx, cl, "/"+kind+"s", url.Values{"namespace": {namespace}})
	if err != nil {
		return err
	}
	for _, u := range units {
		i := slices.IndexFunc(declared, func(o spec.Object) bool { return o.Name == u.Name })
		if i < 0 || u.App == "" {
			continue
		}
		return Invalid("%s: %s %s belongs to the app %q: apply to that one with --app %[4]s, rename it, or give this app a "+
			"namespace of its own (app create --namespace)", declared[i].Pos, kind, u.Name, u.App)
	}
	return nil
}

// bring pushes the commit of the work tree to the app's repository on the server.
func (c *Call) bring(ctx context.Context, cl *client.Client, w *worktree, app client.App) (client.Apply, error) {
	var document *spec.App
	if s, err := readSpec(filepath.Join(w.top, filepath.FromSlash(app.Folder)),
		cmp.Or(app.Specs, spec.DefaultFolder)); err == nil {
		document = s.App
	}
	changed, err := w.changed(ctx)
	if err != nil {
		return client.Apply{}, err
	}
	named, err := w.ignored(ctx, app.Folder, document)
	if err != nil {
		return client.Apply{}, err
	}
	request := client.Apply{ID: newApplyID(), Commit: w.head, Base: w.head, Clean: !changed && len(named) == 0}
	if !request.Clean {
		if len(named) > 0 {
			fmt.Fprintf(c.Stderr, "%s that git ignores are applied too, because static names them and nothing else there\n",
				landfall.Count(len(named), "file"))
		}
		if request.Commit, err = w.snapshot(ctx, named); err != nil {
			return request, err
		}
	}
	if request.Base == "" {
		request.Base = request.Commit
	}
	ref := landfall.RefName(landfall.ApplyPrefix + request.ID)
	return request, w.push(ctx, cl.URL+"/git/"+app.Name+".git", cl.Token, request.Commit, ref)
}

// showDryRun shows what an apply would change.
func (c *Call) showDryRun(applied client.Applied) error {
	for _, line := range applied.Log {
		fmt.Fprintln(c.Stderr, printable(line))
	}
	if !applied.Complete {
		if c.output != "" {
			return c.Print(applied, nil)
		}
		fmt.Fprintln(c.Stderr, "a build command makes files of this app: which units change is known when it has run")
		return c.Print(applied, func(t *Table) {
			if applied.Files != nil {
				t.Row("files of the commit: " + filesChanged(*applied.Files))
			}
		})
	}
	return c.printChanges(applied, applied.Changes)
}

// checkLive tells the user when a release of production did not become live because live is held.
func (c *Call) checkLive(ctx context.Context, cl *client.Client, run client.Run, branch string) error {
	if run.Release == "" {
		return nil
	}
	var app client.App
	if err := cl.Do(ctx, http.MethodGet, appPath(Operands{"app": run.App}), nil, &app); err != nil {
		return err
	}
	production := branch == "" || branch == app.Branch
	switch {
	case app.Live == run.Release && c.output == "":
		_, err := fmt.Fprintf(c.Stdout, "It is live: %s\n", app.URL)
		return err
	case app.Live != run.Release && app.Held && production:
		return landfall.Wrapf("cli", landfall.Conflict, errHeld,
			"the release %s was made, but live is held at %s; landfall release live %s %s makes it live", run.Release, app.Live,
			app.Name, run.Release)
	}
	return nil
}
