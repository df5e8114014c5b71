package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/spec"
)

// apply is what `spec version apply` was asked for.
type apply struct {
	app, branch               string
	noWait, noRelease, dryRun bool
}

// apply brings the work tree to the server and waits for what becomes of it.
func (c *cli) apply(ctx context.Context, from apply) error {
	w, err := openWorktree(ctx)
	if err != nil {
		return err
	}
	cl, err := c.client()
	if err != nil {
		return err
	}
	if from.branch == "" {
		from.branch = w.branch
	}
	if from.branch == "" {
		fmt.Fprintln(c.stderr, "no branch is checked out: this counts as the production branch; for a preview name another with --branch")
	}
	app, made, err := c.applyTo(ctx, cl, w, from)
	if err != nil {
		return err
	}
	run, err := c.applyNow(ctx, cl, w, app, from)
	if err != nil && made && run.Release == "" && (run.State == "" || run.State.Final()) {
		fmt.Fprintf(c.stderr, "the app %[1]s was made, and has no release yet: mend this and type landfall spec version apply --app %[1]s; "+
			"to give it up, which keeps its name reserved, landfall app delete %[1]s --force\n", app.Name)
	}
	return err
}

// applyNow brings the work tree to an app, and returns what became of it as far as that is known.
func (c *cli) applyNow(ctx context.Context, cl *client.Client, w *worktree, app client.App, from apply) (client.Run, error) {
	request, err := c.bring(ctx, cl, w, app)
	if err != nil {
		return client.Run{}, err
	}
	request.Branch, request.NoRelease, request.DryRun = from.branch, from.noRelease, from.dryRun
	var applied client.Applied
	if err := cl.Do(ctx, http.MethodPost, appPath(operands{"app": app.Name}, "applies"), request, &applied); err != nil {
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
		fmt.Fprintf(c.stderr, "commit %s: %s\n", run.Commit.Short(), printable(run.Reason))
	} else if run, err = c.follow(ctx, cl, run); err != nil {
		return run, err
	}
	if err := c.finished(run); err != nil {
		fmt.Fprintf(c.stderr, "the run: landfall run show %s\n", run.ID)
		return run, err
	}
	return run, c.checkLive(ctx, cl, run, from.branch)
}

// applyTo returns the app to apply to, and makes it when it is not there.
func (c *cli) applyTo(ctx context.Context, cl *client.Client, w *worktree, from apply) (app client.App, made bool, err error) {
	name := from.app
	if name == "" {
		name = filepath.Base(w.top)
		s, err := readSpec(w.top, pipeline.DefaultSpecs)
		if err != nil && !errors.Is(err, errNoSpecs) {
			return app, false, err // the name may stand where it cannot be read: the folder's would be another app
		}
		if s != nil && s.App != nil && s.App.Name != "" {
			name = s.App.Name
		}
		if err := landfall.CheckAppName(name); err != nil {
			return app, false, invalid("%s; name the app with --app, or in an App document", landfall.MessageOf(err))
		}
	}
	err = cl.Do(ctx, http.MethodGet, appPath(operands{"app": name}), nil, &app)
	if landfall.KindOf(err) != landfall.NotFound || from.dryRun {
		return app, false, err
	}
	if err := checkNew(ctx, cl, w); err != nil {
		return app, false, err // a name is reserved for good: not for an app that cannot be
	}
	fmt.Fprintf(c.stderr, "making the app %s\n", printable(name))
	err = cl.Do(ctx, http.MethodPost, "/apps", client.NewApp{Name: name, Branch: from.branch}, &app)
	return app, err == nil, err
}

// checkNew fails when the first apply to a new app would: its specs are wrong, files are missing, or what they declare belongs to
// another app, as when the name of that one was mistyped.
func checkNew(ctx context.Context, cl *client.Client, w *worktree) error {
	s, err := readSpec(w.top, pipeline.DefaultSpecs)
	if err != nil {
		return err
	}
	files, err := filesBelow(w.top)
	if err != nil {
		return err
	}
	missing, _ := pipeline.MissingFiles(s, files)
	if err := checkRunnable(ctx, w.top, s, files, missing); err != nil {
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
		if err := checkFree(ctx, cl, kind, declared[kind]); err != nil {
			return err
		}
	}
	return nil
}

// checkFree fails when one of the functions or packages of a new app is another app's.
func checkFree(ctx context.Context, cl *client.Client, kind string, declared []spec.Object) error {
	units, err := client.List[client.Unit](ctx, cl, "/"+kind+"s", url.Values{"namespace": {landfall.DefaultNamespace}})
	if err != nil {
		return err
	}
	for _, u := range units {
		i := slices.IndexFunc(declared, func(o spec.Object) bool { return o.Name == u.Name })
		if i < 0 || u.App == "" {
			continue
		}
		return invalid("%s: %s %s belongs to the app %q: apply to that one with --app %[4]s, rename it, or give this app a namespace of its own "+
			"(app create --namespace)", declared[i].Pos, kind, u.Name, u.App)
	}
	return nil
}

// bring pushes the commit of the work tree to the app's repository on the server.
func (c *cli) bring(ctx context.Context, cl *client.Client, w *worktree, app client.App) (client.Apply, error) {
	specs := app.Specs
	if specs == "" {
		specs = pipeline.DefaultSpecs
	}
	var document *spec.App
	if s, err := readSpec(filepath.Join(w.top, filepath.FromSlash(app.Folder)), specs); err == nil {
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
			fmt.Fprintf(c.stderr, "%s that git ignores are applied too, because static names them and nothing else there\n", count(len(named), "file"))
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
func (c *cli) showDryRun(applied client.Applied) error {
	for _, line := range applied.Log {
		fmt.Fprintln(c.stderr, printable(line))
	}
	if !applied.Complete {
		if c.output != "" {
			return c.print(applied, nil)
		}
		fmt.Fprintln(c.stderr, "a build command makes files of this app: which units change is known when it has run")
		return c.print(applied, func(t *table) {
			if applied.Files != nil {
				t.row("files of the commit: " + filesChanged(*applied.Files))
			}
		})
	}
	return c.printChanges(applied, applied.Changes)
}

// checkLive tells the user when a release of production did not become live because live is held.
func (c *cli) checkLive(ctx context.Context, cl *client.Client, run client.Run, branch string) error {
	if run.Release == "" {
		return nil
	}
	var app client.App
	if err := cl.Do(ctx, http.MethodGet, appPath(operands{"app": run.App}), nil, &app); err != nil {
		return err
	}
	production := branch == "" || branch == app.Branch
	switch {
	case app.Live == run.Release && c.output == "":
		_, err := fmt.Fprintf(c.stdout, "It is live: %s\n", app.URL)
		return err
	case app.Live != run.Release && app.Held && production:
		return &landfall.Error{Op: "cli", Kind: landfall.Conflict, Err: errHeld, Message: fmt.Sprintf(
			"the release %s was made, but live is held at %s; landfall release live %s %s makes it live", run.Release, app.Live, app.Name, run.Release)}
	}
	return nil
}
