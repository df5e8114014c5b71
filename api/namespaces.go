package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
)

// registerNamespaces adds the resources of the Fn document. What of them is part of an app's versions is as production
// applied it last, and a change of it makes a version and a release, as a push does.
func (a *api) registerNamespaces(h huma.API) {
	const all, one, apps, app = "/ns", "/ns/{ns}", "/ns/{ns}/apps", "/ns/{ns}/apps/{app}"
	register(h, reading("list-namespaces", all, "The namespaces, by name"), a.listNamespaces)
	register(h, reading("show-namespace", one, "One namespace"), a.showNamespace)
	registerPut(h, administering("put-namespace", http.MethodPut, one, "Make a namespace, unless it is there"),
		a.putNamespace)
	register(h, administering("delete-namespace", http.MethodDelete, one,
		"Delete a namespace without apps").answering(http.StatusNoContent), a.deleteNamespace)
	register(h, reading("list-fn-apps", apps, "The apps of a namespace, by name"), a.listFnApps)
	registerOn(a, h, reading("show-fn-app", app, "One app, with its configuration"), a.showFnApp)
	registerPut(h, deploying("put-fn-app", http.MethodPut, app,
		"Make an app (scope admin), or set its configuration and release it with that"), a.putFnApp)
	registerOn(a, h, administering("delete-fn-app", http.MethodDelete, app,
		"Delete an app that has no releases").answering(http.StatusNoContent), a.deleteFnApp)
	a.registerFnTriggers(h)
	a.registerFnFunctions(h)
}

// NamespacePath names a namespace.
type NamespacePath struct {
	Namespace string `path:"ns" doc:"name of the namespace"`
}

// FnAppPath names an app in its namespace.
type FnAppPath struct {
	NamespacePath
	AppPath
}

// OnlyNew makes of a PUT a Conflict when what it is to make is there.
type OnlyNew struct {
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"it must be new, else 409"`
}

// put is the answer to a PUT: 201 for what is new.
type put[T any] struct {
	Status int
	Body   T
}

func putting[T any](added bool, v T, err error) (*put[T], error) {
	if err != nil {
		return nil, err
	}
	p := &put[T]{Status: http.StatusOK, Body: v}
	if added {
		p.Status = http.StatusCreated
	}
	return p, nil
}

// registerPut is register for a PUT that makes what it names, or sets what that is. The document has the answers to
// both.
func registerPut[I, T any](h huma.API, op operation, handler func(context.Context, *I) (*put[T], error)) {
	register(h, op, handler)
	alsoCreated(h.OpenAPI().Paths[base+op.path].Put.Responses, http.StatusOK)
}

// alsoCreated adds to the answers of an operation the one that says that something was made.
func alsoCreated(answers map[string]*huma.Response, usual int) {
	made := *answers[strconv.Itoa(usual)]
	made.Description = http.StatusText(http.StatusCreated)
	answers[strconv.Itoa(http.StatusCreated)] = &made
}

// paged returns the page of items, sorted by name, that comes behind the name in the cursor. show is called only for
// its items, and says whether they count.
func paged[T, S any](in Paging, items []T, name func(T) string,
	show func(T) (shown S, counts bool, err error)) (*body[page[S]], error) {
	p := page[S]{Items: []S{}}
	last := ""
	for _, item := range items {
		if name(item) <= in.Cursor {
			continue
		}
		shown, counts, err := show(item)
		if err != nil {
			return nil, err
		}
		if !counts {
			continue
		}
		if len(p.Items) == in.Limit {
			p.Next = last
			break
		}
		p.Items, last = append(p.Items, shown), name(item)
	}
	return answer(p, nil)
}

// appsIn returns the living apps of a namespace, of all for "", that the request's token may read.
func (a *api) appsIn(ctx context.Context, namespace string) ([]landfall.App, error) {
	apps, err := a.DB.Apps(ctx)
	return slices.DeleteFunc(apps, func(app landfall.App) bool {
		return !app.Deleted.IsZero() || app.OfNamespace() || namespace != "" && app.Namespace != namespace ||
			!caller(ctx).Allows(landfall.ScopeRead, app.ID)
	}), err
}

// sees reports whether a token may know of a namespace: one for all apps may, and the others of those of their apps.
func (a *api) sees(ctx context.Context) (func(namespace string) bool, error) {
	if caller(ctx).Allows(landfall.ScopeRead, "") {
		return func(string) bool { return true }, nil
	}
	apps, err := a.appsIn(ctx, "")
	return func(namespace string) bool {
		return namespace != "" && namespace == caller(ctx).Namespace ||
			slices.ContainsFunc(apps, func(app landfall.App) bool { return app.Namespace == namespace })
	}, err
}

// namespace returns a namespace that the request's token may know of.
func (a *api) namespace(ctx context.Context, name string) (store.Namespace, error) {
	sees, err := a.sees(ctx)
	if err != nil {
		return store.Namespace{}, err
	}
	if !sees(name) {
		return store.Namespace{}, landfall.Errorf("api", landfall.NotFound, "there is no namespace %q", name)
	}
	return a.DB.Namespace(ctx, name)
}

func (a *api) listNamespaces(ctx context.Context, in *Paging) (*body[page[client.Namespace]], error) {
	sees, err := a.sees(ctx)
	if err != nil {
		return nil, err
	}
	all, err := a.DB.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	return paged(*in, all, func(n store.Namespace) string {
		return n.Name
	}, func(n store.Namespace) (client.Namespace, bool, error) {
		return client.Namespace(n), sees(n.Name), nil
	})
}

func (a *api) showNamespace(ctx context.Context, in *NamespacePath) (*body[client.Namespace], error) {
	n, err := a.namespace(ctx, in.Namespace)
	return answer(client.Namespace(n), err)
}

func (a *api) putNamespace(ctx context.Context, in *struct {
	NamespacePath
	OnlyNew
}) (*put[client.Namespace], error) {
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return nil, err
	}
	if err := landfall.CheckNamespaceName(in.Namespace); err != nil {
		return nil, err
	}
	var n store.Namespace
	added := false
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.Namespace(ctx, in.Namespace)
		if added = landfall.Is(err, landfall.NotFound); added {
			err = tx.EnsureNamespace(ctx, in.Namespace, a.Now().UnixMicro())
		}
		if !added && in.IfNoneMatch != "" && err == nil {
			err = landfall.Errorf("api", landfall.Conflict, "there is a namespace %q already", in.Namespace)
		}
		if err == nil {
			n, err = tx.Namespace(ctx, in.Namespace)
		}
		return err
	})
	return putting(added, client.Namespace(n), err)
}

func (a *api) deleteNamespace(ctx context.Context, in *NamespacePath) (*struct{}, error) {
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return nil, err
	}
	if in.Namespace == landfall.DefaultNamespace {
		return nil, landfall.Errorf("api", landfall.Conflict,
			"the namespace default is there always: what names no namespace is in it")
	}
	return nil, a.DB.Update(ctx, func(tx *store.Tx) error {
		if _, err := tx.Namespace(ctx, in.Namespace); err != nil {
			return err
		}
		return tx.DeleteNamespace(ctx, in.Namespace, a.Now().UnixMicro())
	})
}

// find returns a living app of a namespace. What the token may not read is not there.
func (in FnAppPath) find(ctx context.Context, a *api, scope landfall.Scope) (landfall.App, error) {
	app, err := in.orNamespace(ctx, a, scope)
	if err == nil && scope != landfall.ScopeRead {
		err = noNamespace(app)
	}
	return app, err
}

// orNamespace is find, also for what a namespace has beside the apps of people.
func (in FnAppPath) orNamespace(ctx context.Context, a *api, scope landfall.Scope) (landfall.App, error) {
	missing := landfall.Errorf("api", landfall.NotFound, "there is no app %q in the namespace %q", in.App, in.Namespace)
	app, err := a.DB.AppByName(ctx, in.App)
	switch {
	case err != nil && landfall.KindOf(err) != landfall.NotFound:
		return app, err
	case err != nil || app.Namespace != in.Namespace || !app.Deleted.IsZero() ||
		!caller(ctx).Allows(landfall.ScopeRead, app.ID):
		return app, missing
	case !caller(ctx).Allows(scope, app.ID):
		return app, forbidden(scope, app.Name)
	}
	return app, nil
}

// inForce returns what production applied last of an app; nothing when that is nothing.
func (a *api) inForce(ctx context.Context, app landfall.App) ([]store.GroupUnit, error) {
	last, err := a.DB.LastApply(ctx, app.ID, "", time.Time{})
	if err != nil {
		return nil, landfall.Ignore(err, landfall.NotFound)
	}
	return a.DB.GroupUnits(ctx, app.ID, last.Group)
}

// config returns the configuration of an app as stored; nil when it has none.
func (a *api) config(ctx context.Context, app landfall.App) (json.RawMessage, error) {
	units, err := a.inForce(ctx, app)
	if err != nil {
		return nil, err
	}
	for _, u := range units {
		if u.Unit.Kind == landfall.ConfigUnit {
			v, err := a.DB.VersionByNumber(ctx, u.UnitID, u.Number)
			return v.Spec, err
		}
	}
	return nil, nil
}

func (a *api) fnAppOf(ctx context.Context, app landfall.App) (client.FnApp, error) {
	shown := client.FnApp{ID: app.ID, Name: app.Name, Config: map[string]any{}}
	config, err := a.config(ctx, app)
	if err != nil {
		return shown, err
	}
	if config != nil {
		if err := spec.DecodeNumbers(config, &shown.Config); err != nil {
			return shown, err
		}
	}
	annotations, err := a.DB.AppAnnotations(ctx, app.ID)
	if err == nil {
		shown.Annotations, err = annotationsOf(annotations)
	}
	return shown, err
}

func annotationsOf(stored string) (annotations map[string]any, err error) {
	if stored != "" {
		err = spec.DecodeNumbers([]byte(stored), &annotations)
	}
	return annotations, err
}

// maxAnnotations bounds the annotations of one thing, as JSON.
const maxAnnotations = 64 << 10

// storedAnnotations returns annotations as they are stored.
func storedAnnotations(annotations map[string]any) (string, error) {
	if len(annotations) == 0 {
		return "", nil
	}
	data, err := json.Marshal(annotations)
	if err == nil && len(data) > maxAnnotations {
		err = landfall.Errorf("api", landfall.Invalid, "the annotations have %d bytes; at most %d are kept", len(data),
			maxAnnotations)
	}
	return string(data), err
}

func (a *api) listFnApps(ctx context.Context, in *struct {
	NamespacePath
	Paging
}) (*body[page[client.FnApp]], error) {
	if _, err := a.namespace(ctx, in.Namespace); err != nil {
		return nil, err
	}
	apps, err := a.appsIn(ctx, in.Namespace)
	if err != nil {
		return nil, err
	}
	return paged(in.Paging, apps, func(app landfall.App) string {
		return app.Name
	}, func(app landfall.App) (client.FnApp, bool, error) {
		shown, err := a.fnAppOf(ctx, app)
		return shown, true, err
	})
}

func (a *api) showFnApp(ctx context.Context, app landfall.App, _ *FnAppPath) (*body[client.FnApp], error) {
	return answer(a.fnAppOf(ctx, app))
}

func (a *api) putFnApp(ctx context.Context, in *struct {
	FnAppPath
	Body client.FnApp
}) (*put[client.FnApp], error) {
	if err := landfall.CheckAppName(in.App); err != nil {
		return nil, err
	}
	if err := same("name", in.Body.Name, in.App); err != nil {
		return nil, err
	}
	annotations, err := storedAnnotations(in.Body.Annotations)
	if err != nil {
		return nil, err
	}
	app, err := in.find(ctx, a, landfall.ScopeDeploy)
	added := landfall.Is(err, landfall.NotFound)
	if added {
		app, err = a.addFnApp(ctx, in.FnAppPath, in.Body, annotations)
	}
	if err != nil {
		return nil, err
	}
	var made deploy.EditResult
	if !added {
		if made, err = a.putConfig(ctx, app, in.Body.Config, annotations); err != nil {
			return nil, err
		}
	}
	shown, err := a.fnAppOf(ctx, app)
	shown.Made = client.Made{Release: made.Release, Note: made.Note}
	return putting(added, shown, err)
}

// same fails with Invalid when a body names something else than the path; a body may name nothing.
func same(field, given, path string) error {
	if given != "" && given != path {
		return landfall.Errorf("api", landfall.Invalid, "%s is %q in the body and %q in the path: a name does not change",
			field, given, path)
	}
	return nil
}

// addFnApp makes an app whose repository is the built-in remote.
func (a *api) addFnApp(ctx context.Context, in FnAppPath, body client.FnApp, annotations string) (landfall.App, error) {
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return landfall.App{}, err
	}
	if _, err := a.namespace(ctx, in.Namespace); err != nil {
		return landfall.App{}, err
	}
	if len(body.Config) > 0 {
		return landfall.App{}, landfall.Errorf("api", landfall.Conflict, "configuration is a part of an app's versions, and "+
			"%s has none yet: make it without config, push it, and set config then", in.App)
	}
	if _, err := a.makeApp(ctx, client.NewApp{Name: in.App, Namespace: in.Namespace}, annotations, false); err != nil {
		return landfall.App{}, err
	}
	return a.DB.AppByName(ctx, in.App)
}

// putConfig sets the configuration of an app, unless it is that, and its annotations.
func (a *api) putConfig(ctx context.Context, app landfall.App, config map[string]any,
	annotations string) (deploy.EditResult, error) {
	now, err := a.config(ctx, app)
	if err != nil {
		return deploy.EditResult{}, err
	}
	if len(config) == 0 && now == nil {
		return deploy.EditResult{}, a.DB.Update(ctx, func(tx *store.Tx) error {
			return tx.AnnotateApp(ctx, app.ID, annotations)
		})
	}
	var data json.RawMessage
	if len(config) > 0 {
		if data, err = spec.Canonical(config); err != nil {
			return deploy.EditResult{}, err
		}
	}
	return a.Editor.PutConfig(ctx, app, data, annotations, caller(ctx).Name)
}

func (a *api) deleteFnApp(ctx context.Context, app landfall.App, _ *FnAppPath) (*struct{}, error) {
	return nil, a.Upkeep.DeleteApp(ctx, app, false, caller(ctx).Name)
}

// resources are resources as functions and triggers show and take them.
func resources(r landfall.Resources) client.ResourceConfig {
	return client.ResourceConfig{
		Memory: r.Memory, CPUs: r.MilliCPU, Disk: r.Disk, Timeout: int32(r.Timeout / time.Second),
		IdleTimeout: int32(r.IdleTimeout / time.Second),
	}
}

func resourcesOf(c client.ResourceConfig) landfall.Resources {
	return landfall.Resources{
		Memory: c.Memory, MilliCPU: c.CPUs, Disk: c.Disk,
		Timeout: time.Duration(c.Timeout) * time.Second, IdleTimeout: time.Duration(c.IdleTimeout) * time.Second,
	}
}

// qualified is the name of a function's version with the server before it, by which standard tools pull it.
func (a *api) qualified(namespace string, ref landfall.Reference) string {
	return a.URL.Host + "/" + namespace + "/" + ref.Name + ":" + ref.Selector
}

// reference reads the name of a function of a namespace, as qualified writes it or without what stands before it.
func (a *api) reference(namespace, written string) (landfall.Reference, error) {
	ref, err := landfall.ParseReference(strings.TrimPrefix(written, a.URL.Host+"/"))
	switch {
	case err == nil && ref.Namespace != "" && ref.Namespace != namespace:
		err = &landfall.Error{Kind: landfall.Invalid, Message: fmt.Sprintf("it is in another namespace than %s", namespace)}
	case strings.Contains(ref.Selector, "/"):
		err = &landfall.Error{Kind: landfall.Invalid, Message: "it is of another server"}
	case err == nil:
		err = spec.CheckName(ref.Name)
	}
	if err != nil {
		err = landfall.Wrapf("api", landfall.Invalid, err, "%q is no function that can be named here: %s; right would be %s",
			written, landfall.MessageOf(err), a.qualified(namespace, landfall.Reference{Name: "NAME", Selector: "VERSION"}))
	}
	ref.Namespace = ""
	return ref, err
}
