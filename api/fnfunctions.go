package api

import (
	"context"
	"maps"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
)

func (a *api) registerFnFunctions(h huma.API) {
	f := units{a, landfall.FunctionUnit}
	const all, one = "/ns/{ns}/functions", "/ns/{ns}/functions/{function}"
	register(h, reading("list-fn-functions", all, "The functions of a namespace, by name"), f.listFn)
	registerOn(f, h, reading("show-fn-function", one, "One function"), f.showFn)
	registerPut(h, deploying("put-fn-function", http.MethodPut, one,
		"Set a function's resources, or make one like another, and release its app with it"), f.putFn)
	registerOn(f, h, deploying("delete-fn-function", http.MethodDelete, one,
		"Release a function's app without it").answering(http.StatusNoContent), f.deleteFn)
}

// FnFunctionPath names a function.
type FnFunctionPath struct {
	NamespacePath
	Function string `path:"function" doc:"name of the function"`
}

func (u units) listFn(ctx context.Context, in *struct {
	NamespacePath
	Paging
}) (*body[page[client.FnFunction]], error) {
	if _, err := u.namespace(ctx, in.Namespace); err != nil {
		return nil, err
	}
	rows, err := u.DB.UnitsInNamespace(ctx, in.Namespace, u.kind)
	if err != nil {
		return nil, err
	}
	return paged(in.Paging, rows, func(row store.Unit) string {
		return row.Unit.Name
	}, func(row store.Unit) (client.FnFunction, bool, error) {
		if !caller(ctx).Allows(landfall.ScopeRead, row.App) {
			return client.FnFunction{}, false, nil
		}
		return u.fnFunctionOf(ctx, row)
	})
}

func (u units) showFn(ctx context.Context, row store.Unit, _ *FnFunctionPath) (*body[client.FnFunction], error) {
	return answer(u.fnFunction(ctx, row))
}

// find returns the row of a function that production has.
func (in FnFunctionPath) find(ctx context.Context, u units, scope landfall.Scope) (store.Unit, error) {
	row, tracked, err := u.row(ctx, in.Namespace, in.Function)
	switch {
	case err != nil:
		return row, err
	case !tracked:
		return row, u.missing(row)
	case !caller(ctx).Allows(scope, row.App):
		return row, forbidden(scope, row.Unit.String())
	}
	return row, nil
}

func (u units) missing(row store.Unit) error {
	return landfall.Errorf("api", landfall.NotFound, "production has no %s in the namespace %q", row.Unit, row.Namespace)
}

func (u units) fnFunction(ctx context.Context, row store.Unit) (client.FnFunction, error) {
	f, there, err := u.fnFunctionOf(ctx, row)
	if err == nil && !there {
		err = u.missing(row)
	}
	return f, err
}

// fnFunctionOf returns a function as production has it, and whether it has it.
func (u units) fnFunctionOf(ctx context.Context, row store.Unit) (f client.FnFunction, there bool, err error) {
	latest, err := u.number(u.DB.LatestNumber(ctx, row.ID))
	if err != nil || latest == 0 {
		return f, false, err
	}
	v, err := u.DB.VersionByNumber(ctx, row.ID, latest)
	if err != nil {
		return f, false, err
	}
	stored, err := spec.ReadFunctionVersion(v.Spec)
	if err != nil {
		return f, false, err
	}
	app, err := u.DB.App(ctx, row.App)
	if err != nil {
		return f, false, err
	}
	notes, err := u.DB.UnitNotes(ctx, row.ID)
	if err != nil {
		return f, false, err
	}
	f = client.FnFunction{
		ID: row.ID, Namespace: row.Namespace, Name: row.Unit.Name, Resources: resources(stored.Resources),
		Created: notes.Created, Updated: v.Created,
		Image: u.qualified(row.Namespace, landfall.Reference{Name: row.Unit.Name, Selector: string(v.UID)}),
	}
	config, err := u.config(ctx, app)
	if err != nil {
		return f, false, err
	}
	if f.Config, err = spec.ReadConfigVersion(config); err != nil {
		return f, false, err
	}
	f.Annotations, err = annotationsOf(notes.Annotations)
	return f, true, err
}

func (u units) putFn(ctx context.Context, in *struct {
	FnFunctionPath
	Body client.FnFunction
}) (*put[client.FnFunction], error) {
	if err := spec.CheckName(in.Function); err != nil {
		return nil, err
	}
	for _, given := range [][3]string{{"name", in.Body.Name, in.Function},
		{"namespace", in.Body.Namespace, in.Namespace}} {
		if err := same(given[0], given[1], given[2]); err != nil {
			return nil, err
		}
	}
	annotations, err := storedAnnotations(in.Body.Annotations)
	if err != nil {
		return nil, err
	}
	f := deploy.NewFunction{Name: in.Function, Resources: resourcesOf(in.Body.Resources), Annotations: annotations}
	if in.Body.Image != "" {
		if f.Like, err = u.reference(in.Namespace, in.Body.Image); err != nil {
			return nil, err
		}
	}
	app, err := u.appOfFunction(ctx, in.FnFunctionPath, f.Like)
	if err != nil {
		return nil, err
	}
	if err := u.checkConfig(ctx, app, in.Body.Config); err != nil {
		return nil, err
	}
	made, err := u.Editor.PutFunction(ctx, app, f, caller(ctx).Name)
	if err != nil {
		return nil, err
	}
	row, err := u.DB.Unit(ctx, app, landfall.UnitID{Kind: u.kind, Name: in.Function})
	if err != nil {
		return nil, err
	}
	shown, err := u.fnFunction(ctx, row)
	shown.Made = client.Made{Release: made.Release, Note: made.Note}
	return putting(made.Added, shown, err)
}

// appOfFunction returns the app that has a function, or that a new one is to be in: that of the one that it is to be
// like.
func (u units) appOfFunction(ctx context.Context, in FnFunctionPath, like landfall.Reference) (landfall.App, error) {
	row, err := in.find(ctx, u, landfall.ScopeDeploy)
	if landfall.Is(err, landfall.NotFound) {
		if err := u.free(ctx, in); err != nil {
			return landfall.App{}, err
		}
		if like.Name == "" {
			return landfall.App{}, landfall.Errorf("api", landfall.NotFound,
				"there is no function %s in the namespace %q: a push makes it, or give in image the one that it is to be like",
				in.Function, in.Namespace)
		}
		row, err = FnFunctionPath{in.NamespacePath, like.Name}.find(ctx, u, landfall.ScopeDeploy)
	}
	if err != nil {
		return landfall.App{}, err
	}
	return u.DB.App(ctx, row.App)
}

// free fails with Conflict when an app that the request's token does not reach has a function's name.
func (u units) free(ctx context.Context, in FnFunctionPath) error {
	row, err := u.DB.UnitInNamespace(ctx, in.Namespace, landfall.UnitID{Kind: u.kind, Name: in.Function})
	if err != nil || caller(ctx).Allows(landfall.ScopeRead, row.App) {
		return landfall.Ignore(err, landfall.NotFound)
	}
	_, held, err := u.DB.HasVersions(ctx, row.ID)
	if err == nil && held {
		err = landfall.Errorf("api", landfall.Conflict, "the name %s is taken in the namespace %q", in.Function, in.Namespace)
	}
	return err
}

// checkConfig fails with Invalid when a function is to have another configuration than it has: that is its app's.
func (u units) checkConfig(ctx context.Context, app landfall.App, given map[string]string) error {
	if len(given) == 0 {
		return nil
	}
	stored, err := u.config(ctx, app)
	if err != nil {
		return err
	}
	config, err := spec.ReadConfigVersion(stored)
	if err == nil && !maps.Equal(config, given) {
		err = landfall.Errorf("api", landfall.Invalid,
			"the configuration of a function is its app's: set it with PUT /ns/%s/apps/%s, or in a trigger", app.Namespace,
			app.Name)
	}
	return err
}

func (u units) deleteFn(ctx context.Context, row store.Unit, in *FnFunctionPath) (*struct{}, error) {
	app, err := u.DB.App(ctx, row.App)
	if err != nil {
		return nil, err
	}
	if app.OfNamespace() { // it is in no release that would go on without it
		u.flush(ctx)
		_, err = u.Editor.DeleteFunction(ctx, row, caller(ctx).Name, false, false)
		return nil, err
	}
	_, err = u.Editor.DropFunction(ctx, app, in.Function, caller(ctx).Name)
	return nil, err
}
