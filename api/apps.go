package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/connect"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/webhook"
)

// AppPath names an app.
type AppPath struct {
	App string `path:"app" doc:"name of the app"`
}

func (p AppPath) find(ctx context.Context, a *api, scope landfall.Scope) (landfall.App, error) {
	return a.app(ctx, p.App, scope)
}

// Paging asks for one page of a list.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor string `query:"cursor"`
}

func (a *api) registerApps(h huma.API) {
	register(h, reading("status", "/status", "The server and the token"), a.status)
	register(h, reading("list-apps", "/apps", "All apps"), a.listApps)
	register(h, administering("create-app", http.MethodPost, "/apps",
		"Make an app").answering(http.StatusCreated).making("{name}"),
		a.createApp)
	register(h, reading("show-app", "/apps/{app}", "One app"), a.showApp)
	registerOn(a, h, administering("set-credentials", http.MethodPut, "/apps/{app}/credentials",
		"Set a new password for the app's repository"), a.setCredentials)
	registerOn(a, h, administering("drop-credentials", http.MethodDelete, "/apps/{app}/credentials",
		"Remove the password or token for the app's repository"), a.dropCredentials)
	registerOn(a, h, administering("set-deploy-key", http.MethodPut, "/apps/{app}/deploy-key",
		"Make another deploy key for the app's repository, or store one"), a.setDeployKey)
	registerOn(a, h, administering("drop-deploy-key", http.MethodDelete, "/apps/{app}/deploy-key",
		"Remove the deploy key for the app's repository"), a.dropDeployKey)
	registerOn(a, h, administering("set-host-keys", http.MethodPut, "/apps/{app}/host-keys",
		"Say which keys the host of the app's repository may have"), a.setHostKeys)
	registerOn(a, h, administering("rotate-hook", http.MethodPost, "/apps/{app}/hook/rotate",
		"Replace the secret of the app's webhook"), a.rotateHook)
	registerOn(a, h, administering("set-repository", http.MethodPut, "/apps/{app}/repository",
		"Reach the app's repository as the GitHub App, or confirm that the app follows it to another owner"), a.setRepository)
	registerOn(a, h, administering("set-branch", http.MethodPut, "/apps/{app}/branch",
		"Make another branch the production branch"), a.setBranch)
	registerOn(a, h, administering("set-previews", http.MethodPut, "/apps/{app}/previews",
		"Say who sees releases that are not live"), a.setPreviews)
	registerOn(a, h, administering("set-keep-files", http.MethodPut, "/apps/{app}/keep-files",
		"Say how long files of releases that were live are served"), a.setKeepFiles)
	registerOn(a, h, administering("delete-app", http.MethodDelete, "/apps/{app}",
		"Delete an app; its name stays reserved"), a.deleteApp)
	registerOn(a, h, deploying("apply", http.MethodPost, "/apps/{app}/applies",
		"Apply a commit that was pushed to refs/landfall/apply/ID"), a.apply)
}

func (a *api) status(ctx context.Context, _ *struct{}) (*body[client.Status], error) {
	apps, err := a.appsIn(ctx, "")
	if err != nil {
		return nil, err
	}
	oldest, err := a.DB.OldestUnfinished(ctx)
	if err != nil {
		return nil, err
	}
	deserted, err := a.Runs.NoWorker(ctx)
	if err != nil {
		return nil, err
	}
	token := caller(ctx)
	s := client.Status{URL: a.URL.String(), Domain: a.Domain, Roles: a.Roles, Sandbox: a.Sandbox, Lacks: a.SandboxLacks,
		Network: a.Network, Proxy: a.Proxy, Remote: a.Repositories != nil, Waiting: deserted, Token: token.Name,
		Apps: len(apps), Scope: string(token.Scope), Oldest: oldest}
	if a.Problems != nil {
		s.Problems = a.Problems(ctx, func(app string) bool { return token.Allows(landfall.ScopeRead, app) })
	}
	return answer(s, nil)
}

func (a *api) listApps(ctx context.Context, in *Paging) (*body[page[client.App]], error) {
	apps, err := a.appsIn(ctx, "")
	if err != nil {
		return nil, err
	}
	return paged(*in, apps, func(app landfall.App) string { return app.Name },
		func(app landfall.App) (client.App, bool, error) { return a.appOf(app), true, nil })
}

func (a *api) appOf(app landfall.App) client.App {
	c := client.App{
		ID: app.ID, Namespace: app.Namespace, Name: app.Name, Repository: app.Repository, Branch: app.Branch,
		Specs: app.Specs, Folder: app.Folder, Policy: app.Policy, Live: app.Live, Held: app.Held,
		URL: a.ReleaseURL(app.Name, ""), Created: app.Created, Deleted: app.Deleted,
		Previews: cmp.Or(string(app.Previews), previewsPublic), KeepFiles: app.FileRetention(),
	}
	if app.Repository == "" {
		c.BuiltIn, c.Repository = true, a.URL.JoinPath("git", app.Name+".git").String()
	}
	return c
}

func (a *api) createApp(ctx context.Context, in *body[client.NewApp]) (*body[client.App], error) {
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return nil, err
	}
	asApp := connect.IsName(in.Body.Repository)
	if asApp {
		if in.Body.Username != "" || in.Body.Password != "" {
			return nil, landfall.Errorf("api", landfall.Invalid,
				"%s is reached as the GitHub App: leave out the user name and the token, or name the repository's clone address",
				in.Body.Repository)
		}
		var err error
		if in.Body.Repository, err = a.GitHub.Address(ctx, in.Body.Repository); err != nil {
			return nil, err
		}
	}
	return answer(a.makeApp(ctx, in.Body, "", asApp))
}

// makeApp makes an app with annotations, as they are stored. asApp says that its repository is reached as the GitHub
// App.
func (a *api) makeApp(ctx context.Context, in client.NewApp, annotations string, asApp bool) (client.App, error) {
	app, there, err := made(ctx, a.DB.App)
	if err != nil {
		return client.App{}, err
	}
	if there {
		return a.madeApp(ctx, app)
	}
	if app, err = a.newApp(ctx, in); err != nil {
		return client.App{}, err
	}
	hook := landfall.Hook{ID: randomHex(16), App: app.ID, Secret: randomHex(32)}
	err = a.DB.UpdateAsLeader(ctx, func(tx *store.Tx) error { // whose repositories count
		if err := tx.EnsureNamespace(ctx, app.Namespace, app.Created.UnixMicro()); err != nil {
			return err
		}
		if err := tx.CreateApp(ctx, app); err != nil {
			return err
		}
		if err := deploy.CheckNewApp(ctx, tx, app); err != nil {
			return err
		}
		if annotations != "" {
			if err := tx.AnnotateApp(ctx, app.ID, annotations); err != nil {
				return err
			}
		}
		if _, err := tx.Changed(ctx, app.ID); err != nil || app.Repository == "" {
			return err
		}
		if err := tx.CreateHook(ctx, hook, app.Created.UnixMicro()); err != nil {
			return err
		}
		tx.Enqueue(accept.TopicCatchUp, app.ID, time.Time{}) // which sees where the repository is now
		a.Acceptor.Hooks.Enqueue(tx, app.ID)
		if asApp {
			return tx.SetCredentials(ctx, app.ID, store.Credentials{App: true})
		}
		return a.Acceptor.NewCredentials(ctx, tx, app,
			accept.Reach{Username: in.Username, Token: secret.Text(in.Password), HostKeys: in.HostKeys})
	})
	if err != nil {
		return client.App{}, err
	}
	if a.Repositories != nil {
		if err := a.Repositories.Create(ctx, app.ID, app.Branch); err != nil {
			return client.App{}, err
		}
	}
	a.Rollout.Show(ctx, app)
	switch {
	case app.Repository == "":
		return a.appOf(app), nil
	case asApp: // the App hears of pushes
		return a.appAtGitHub(ctx, app)
	}
	return a.withCredentials(ctx, app, a.appWith(app, hook))
}

// madeApp shows an app that an earlier request with the same key made, as if it had been made now.
func (a *api) madeApp(ctx context.Context, app landfall.App) (client.App, error) {
	if app.Repository == "" {
		return a.appOf(app), a.Repositories.Create(ctx, app.ID, app.Branch)
	}
	credentials, err := a.DB.Credentials(ctx, app.ID)
	if err == nil && credentials.App {
		return a.appAtGitHub(ctx, app)
	}
	if err != nil {
		return client.App{}, err
	}
	hook, err := a.DB.HookOf(ctx, app.ID)
	if err != nil {
		return client.App{}, err
	}
	return a.withCredentials(ctx, app, a.appWith(app, hook))
}

// appWith is an app with its hook, whose secret is shown this once.
func (a *api) appWith(app landfall.App, hook landfall.Hook) client.App {
	c := a.appOf(app)
	c.Hook = a.hookOf(hook)
	c.Hook.Secret = hook.Secret
	return c
}

// hookOf is a hook as everybody may see it.
func (a *api) hookOf(h landfall.Hook) *client.Hook {
	return &client.Hook{URL: a.URL.JoinPath(webhook.Path, h.ID).String()}
}

// addForgeState adds to a hook what is known of it at the forge.
func (a *api) addForgeState(ctx context.Context, app landfall.App, hook *client.Hook) error {
	if hook == nil { // the GitHub App hears of its pushes
		return nil
	}
	state, err := a.DB.HookState(ctx, app.ID)
	if err != nil {
		return landfall.Ignore(err, landfall.NotFound)
	}
	hook.Made, hook.Looked, hook.Problem = state.ID != 0 && state.Made, state.Looked, state.Problem
	hook.Mended, hook.MendedAt = state.Mended, state.MendedAt
	return nil
}

// hook returns the hook of an app. NotFound, with a sentence, when it has none.
func (a *api) hook(ctx context.Context, app landfall.App) (landfall.Hook, error) {
	h, err := a.DB.HookOf(ctx, app.ID)
	if landfall.Is(err, landfall.NotFound) {
		err = landfall.Wrapf("api", landfall.NotFound, err,
			"%s has no webhook: its repository is the built-in remote, which hears of pushes by itself", app.Name)
	}
	return h, err
}

func (a *api) rotateHook(ctx context.Context, app landfall.App, _ *AppPath) (*body[client.App], error) {
	hook, err := a.hook(ctx, app)
	if err != nil {
		return nil, err
	}
	hook.Secret = randomHex(32)
	err = a.DB.Update(ctx, func(tx *store.Tx) error {
		a.Acceptor.Hooks.Enqueue(tx, app.ID) // which gives it to the forge
		return tx.SetHookSecret(ctx, hook.ID, hook.Secret)
	})
	return answer(a.appWith(app, hook), err)
}

// newApp checks what was asked for.
func (a *api) newApp(ctx context.Context, n client.NewApp) (landfall.App, error) {
	app := landfall.App{
		ID: newID(ctx), Namespace: n.Namespace, Name: n.Name, Repository: n.Repository, Branch: n.Branch,
		Specs: cleanFolder(n.Specs), Folder: cleanFolder(n.Folder), UIDSpace: uuid.New(), Created: a.now(),
		Previews: previewsOf(n.Previews),
	}
	if err := landfall.CheckAppName(app.Name); err != nil {
		return app, err
	}
	if app.Namespace == "" {
		app.Namespace = landfall.DefaultNamespace
	}
	if err := landfall.CheckNamespaceName(app.Namespace); err != nil {
		return app, err
	}
	if app.Namespace == app.Name {
		return app, landfall.Errorf("api", landfall.Conflict, "an app and its namespace need different names")
	}
	for _, folder := range []string{app.Specs, app.Folder} {
		if slices.Contains(strings.Split(folder, "/"), "..") {
			return app, landfall.Errorf("api", landfall.Invalid, "%q leaves the repository", folder)
		}
	}
	if app.Branch != "" {
		if err := checkBranch(app.Branch); err != nil {
			return app, err
		}
	}
	if app.Repository == "" {
		if n.Username != "" || n.Password != "" || len(n.HostKeys) > 0 {
			return app, landfall.Errorf("api", landfall.Invalid, "a user name, token or host key for a repository was given, "+
				"and no repository: name its address with --repo, or leave them out for the built-in remote")
		}
		if a.Repositories == nil {
			return app, landfall.Errorf("api", landfall.Unavailable,
				"the built-in remote is off because the server has no git: install git there, or name a repository with --repo")
		}
		return app, nil
	}
	if !strings.ContainsAny(app.Repository, ":@") {
		return app, landfall.Errorf("api", landfall.Invalid, "%q is no repository: write it as OWNER/NAME if the GitHub App "+
			"sees it, or as its clone address, https://HOST/PATH or git@HOST:PATH", app.Repository)
	}
	return app, a.CheckURL(app.Repository)
}

func checkBranch(branch string) error {
	if _, err := landfall.ParseRefName(landfall.BranchPrefix + branch); err != nil {
		return landfall.Errorf("api", landfall.Invalid, "%q cannot be a branch", branch)
	}
	return nil
}

func cleanFolder(folder string) string { return strings.Trim(strings.TrimPrefix(folder, "./"), "/") }

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b)
}

func (a *api) showApp(ctx context.Context, in *AppPath) (*body[client.App], error) {
	app, err := a.anyApp(ctx, in.App, landfall.ScopeRead)
	if err != nil {
		return nil, err
	}
	c := a.appOf(app)
	if app.Repository != "" {
		hook, err := a.hook(ctx, app)
		if err != nil {
			return nil, err
		}
		c.Hook = a.hookOf(hook)
		if err := errors.Join(a.showCredentials(ctx, app, &c), a.addForgeState(ctx, app, c.Hook)); err != nil {
			return nil, err
		}
	}
	if app.Stopped() {
		c.Problems = append(c.Problems, accept.Stopped(app))
	}
	unseen, err := a.DB.RepositoryProblem(ctx, app.ID)
	if err == nil && !app.Stopped() {
		c.Problems = append(c.Problems, accept.Unseen(app, unseen))
	}
	if landfall.Ignore(err, landfall.NotFound) != nil {
		return nil, err
	}
	refused, err := a.refused(ctx, app)
	if err != nil {
		return nil, err
	}
	c.Problems = append(c.Problems, refused...)
	c.Previous, err = deploy.Previous(ctx, a.DB, app)
	return answer(c, err)
}

// refused says what the forge does not let us do at an app's repository.
func (a *api) refused(ctx context.Context, app landfall.App) (problems []string, err error) {
	if app.GitHub.ID == 0 {
		return nil, nil
	}
	refusals, err := a.DB.Refusals(ctx, app.GitHub.ID)
	for _, r := range refusals {
		problems = append(problems, r.Problem)
	}
	return problems, err
}

func (a *api) setBranch(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Body client.Branch
}) (*body[client.App], error) {
	if err := checkBranch(in.Body.Branch); err != nil {
		return nil, err
	}
	err := a.DB.UpdateAsLeader(ctx, func(tx *store.Tx) (err error) { // whose repositories count
		if app, err = tx.ActiveApp(ctx, app.ID); err != nil {
			return err
		}
		app.Branch, app.BranchFound = in.Body.Branch, false
		return tx.UpdateApp(ctx, app)
	})
	if err == nil && app.Repository == "" {
		err = a.Acceptor.Remote.SetHead(ctx, app.ID, app.Branch)
	}
	return answer(a.appOf(app), err)
}

// previewsPublic is what clients call landfall.PreviewsPublic.
const previewsPublic = "public"

// previewsOf returns what a client says of previews.
func previewsOf(text string) landfall.Previews {
	if text == previewsPublic {
		return landfall.PreviewsPublic
	}
	return landfall.Previews(text)
}

func (a *api) setPreviews(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Body client.Previews
}) (*body[client.App], error) {
	return a.move(ctx, app, func(tx *store.Tx, app *landfall.App) error {
		app.Previews = previewsOf(in.Body.Previews)
		return tx.UpdateApp(ctx, *app)
	})
}

func (a *api) setKeepFiles(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Body client.KeepFiles
}) (*body[client.App], error) {
	age, err := landfall.ParseAge(string(in.Body.KeepFiles))
	if err != nil {
		return nil, err
	}
	return a.move(ctx, app, func(tx *store.Tx, app *landfall.App) error {
		app.KeepFiles = age
		return tx.UpdateApp(ctx, *app)
	})
}

func (a *api) deleteApp(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Force bool `query:"force" doc:"required: the app's addresses answer 410 from then on, and what it stored is removed"`
}) (*body[client.App], error) {
	if !in.Force {
		return nil, landfall.Errorf("api", landfall.Conflict, "deleting %s ends its runs, closes all its addresses and "+
			"removes what it stored, and the name stays reserved: say --force", app.Name)
	}
	if err := a.Upkeep.DeleteApp(ctx, app, true, caller(ctx).Name); err != nil {
		return nil, err
	}
	if err := a.DB.Update(ctx, func(tx *store.Tx) error {
		a.Acceptor.Hooks.Enqueue(tx, app.ID) // which takes its webhook away at the forge
		return nil
	}); err != nil {
		return nil, err
	}
	app, err := a.DB.App(ctx, app.ID)
	return answer(a.appOf(app), err)
}
