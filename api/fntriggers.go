package api

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/canary"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
)

func (a *api) registerFnTriggers(h huma.API) {
	const all, one = "/ns/{ns}/apps/{app}/triggers", "/ns/{ns}/apps/{app}/triggers/{trigger}"
	registerOn(a, h, reading("list-fn-triggers", all, "The triggers of an app, by name"), a.listFnTriggers)
	registerOn(a, h, reading("show-fn-trigger", one, "One trigger"), a.showFnTrigger)
	registerPut(h, deploying("put-fn-trigger", http.MethodPut, one,
		"Make a trigger, or set what it is, and release the app with it"), a.putFnTrigger)
	registerOn(a, h, deploying("delete-fn-trigger", http.MethodDelete, one,
		"Release the app without a trigger").answering(http.StatusNoContent), a.deleteFnTrigger)
}

// FnTriggerPath names a trigger of an app.
type FnTriggerPath struct {
	FnAppPath
	Trigger string `path:"trigger" doc:"name of the trigger"`
}

func (in FnTriggerPath) find(ctx context.Context, a *api, scope landfall.Scope) (landfall.App, error) {
	return in.orNamespace(ctx, a, scope)
}

// Unreleased asks for a version of an app alone.
type Unreleased struct {
	NoRelease bool `query:"no_release" doc:"make a version of the app, and no release: the next one has it"`
}

// triggerUnits returns the triggers in force of an app by name, and of one name in the order in which they are fired by
// it.
func (a *api) triggerUnits(ctx context.Context, app landfall.App) ([]store.GroupUnit, error) {
	units, err := a.inForce(ctx, app)
	if err == nil && app.OfNamespace() {
		if app, err = a.DB.App(ctx, app.ID); err == nil {
			units, err = a.DB.GroupUnits(ctx, app.ID, app.Live)
		}
	}
	units = slices.DeleteFunc(units, func(u store.GroupUnit) bool { return !u.Unit.Kind.IsTrigger() })
	slices.SortStableFunc(units, func(x, y store.GroupUnit) int { return cmp.Compare(x.Unit.Name, y.Unit.Name) })
	return units, err
}

func (a *api) listFnTriggers(ctx context.Context, app landfall.App, in *struct {
	FnAppPath
	Paging
}) (*body[page[client.FnTrigger]], error) {
	units, err := a.triggerUnits(ctx, app)
	if err != nil {
		return nil, err
	}
	// Triggers of different kinds may share a name, and a page must not end between them.
	name := func(u store.GroupUnit) string { return u.Unit.Name + " " + string(u.Unit.Kind) }
	slices.SortFunc(units, func(x, y store.GroupUnit) int { return cmp.Compare(name(x), name(y)) })
	return paged(in.Paging, units, name, func(u store.GroupUnit) (client.FnTrigger, bool, error) {
		shown, err := a.fnTriggerOf(ctx, app, u)
		return shown, true, err
	})
}

func (a *api) showFnTrigger(ctx context.Context, app landfall.App, in *FnTriggerPath) (*body[client.FnTrigger], error) {
	return answer(a.fnTrigger(ctx, app, in.Trigger))
}

// fnTrigger returns a trigger by its name: as at /r/, the HTTP trigger of that name, else the time trigger, else the
// queue trigger.
func (a *api) fnTrigger(ctx context.Context, app landfall.App, name string) (client.FnTrigger, error) {
	units, err := a.triggerUnits(ctx, app)
	if err != nil {
		return client.FnTrigger{}, err
	}
	i := slices.IndexFunc(units, func(u store.GroupUnit) bool { return u.Unit.Name == name })
	if i < 0 {
		return client.FnTrigger{}, landfall.Errorf("api", landfall.NotFound,
			"%s has no trigger %q; there are: landfall trigger list %[1]s", app.Name, name)
	}
	return a.fnTriggerOf(ctx, app, units[i])
}

func (a *api) fnTriggerOf(ctx context.Context, app landfall.App, u store.GroupUnit) (client.FnTrigger, error) {
	v, err := a.DB.VersionByNumber(ctx, u.UnitID, u.Number)
	if err != nil {
		return client.FnTrigger{}, err
	}
	t, err := spec.ReadTriggerVersion(u.Unit, v.Spec)
	if err != nil {
		return client.FnTrigger{}, err
	}
	moved, err := a.DB.TriggerWeights(ctx, app.ID)
	if err != nil {
		return client.FnTrigger{}, err
	}
	canary.MoveWeights(&t, v.UID, moved)
	notes, err := a.DB.UnitNotes(ctx, u.UnitID)
	if err != nil {
		return client.FnTrigger{}, err
	}
	shown := client.FnTrigger{
		AppID: app.ID, Name: t.Name, Kind: t.Kind, Config: t.Config, Resources: resources(t.Resources),
		Created: notes.Created, Updated: v.Created, Methods: t.HTTP.Methods, URL: t.HTTP.URL, Prefix: t.HTTP.Prefix,
		Host: t.HTTP.Host, Access: string(t.HTTP.Access), Sticky: string(t.HTTP.Sticky),
		Cron: t.Time.Cron, TimeZone: t.Time.TimeZone, Method: t.Time.Method,
		Subpath: t.Time.Subpath, Topic: t.Queue.Topic, RespTopic: t.Queue.RespTopic, ErrorTopic: t.Queue.ErrorTopic,
		MaxRetries: t.Queue.MaxRetries, ContentType: t.Queue.ContentType,
	}
	if shown.Tag = t.Tag; t.Tag != "" {
		shown.Function = ""
	} else if len(t.Weights) == 0 {
		shown.Function = a.qualified(app.Namespace, t.Function)
	} else {
		shown.Weights = map[string]int{}
	}
	for _, w := range t.Weights {
		shown.Weights[w.Function.String()] = w.Percent
	}
	if t.Filters != nil {
		if err := spec.DecodeNumbers(t.Filters, &shown.Filters); err != nil {
			return shown, err
		}
	}
	shown.Annotations, err = annotationsOf(notes.Annotations)
	return shown, err
}

func (a *api) putFnTrigger(ctx context.Context, in *struct {
	FnTriggerPath
	OnlyNew
	Unreleased
	Body client.FnTrigger
}) (*put[client.FnTrigger], error) {
	app, err := in.find(ctx, a, landfall.ScopeDeploy)
	if err != nil {
		return nil, err
	}
	if err := same("name", in.Body.Name, in.Trigger); err != nil {
		return nil, err
	}
	if err := same("app_id", in.Body.AppID, app.ID); err != nil {
		return nil, err
	}
	annotations, err := storedAnnotations(in.Body.Annotations)
	if err != nil {
		return nil, err
	}
	id := landfall.UnitID{Kind: kindOfTrigger(in.Body), Name: in.Trigger}
	fields, err := a.triggerFields(app, id.Kind, in.Body)
	if err != nil {
		return nil, err
	}
	made, err := a.Editor.PutTrigger(ctx, app, deploy.NewTrigger{
		ID: id, Fields: fields, Annotations: annotations, Add: in.IfNoneMatch != "", Unreleased: in.NoRelease,
	}, caller(ctx).Name)
	if err != nil {
		return nil, err
	}
	shown, err := a.fnTrigger(ctx, app, in.Trigger)
	shown.Made = client.Made{Release: made.Release, Note: made.Note}
	return putting(made.Added, shown, err)
}

// kindOfTrigger returns the kind of a trigger, which what fires it says, too.
func kindOfTrigger(t client.FnTrigger) landfall.UnitKind {
	switch {
	case t.Kind != "":
		return t.Kind
	case t.Cron != "":
		return landfall.TimeTrigger
	case t.Topic != "":
		return landfall.QueueTrigger
	}
	return landfall.HTTPTrigger
}

// triggerFields returns what a trigger is as the spec of a document has it, with a nil for each field that the trigger
// could have. Invalid when it has what its kind does not have.
func (a *api) triggerFields(app landfall.App, kind landfall.UnitKind, t client.FnTrigger) (map[string]any, error) {
	ref, err := a.functionRef(app, t)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{"resources": nil, "functionTimeout": nil, "idletimeout": nil}
	maps.Copy(fields, spec.ResourceFields(resourcesOf(t.Resources)))
	fields["functionref"] = ref
	set := func(of landfall.UnitKind, name string, value any, given bool) {
		if given && of != "" && of != kind && err == nil {
			err = landfall.Errorf("api", landfall.Invalid, "a trigger of the kind %s has no %s, which is for the kind %s", kind,
				name, of)
		}
		if !given {
			value = nil
		}
		fields[name] = value
	}
	set("", "config", t.Config, len(t.Config) > 0)
	set("", "filters", t.Filters, len(t.Filters) > 0)
	set(landfall.HTTPTrigger, "methods", t.Methods, len(t.Methods) > 0)
	set(landfall.HTTPTrigger, "relativeurl", t.URL, t.URL != "" && !t.Prefix)
	set(landfall.HTTPTrigger, "prefix", t.URL, t.Prefix)
	set(landfall.HTTPTrigger, "host", t.Host, t.Host != "")
	set(landfall.HTTPTrigger, "access", t.Access, t.Access != "")
	set(landfall.HTTPTrigger, "sticky", t.Sticky, t.Sticky != "")
	set(landfall.TimeTrigger, "cron", t.Cron, t.Cron != "")
	set(landfall.TimeTrigger, "timeZone", t.TimeZone, t.TimeZone != "")
	set(landfall.TimeTrigger, "method", t.Method, t.Method != "")
	set(landfall.TimeTrigger, "subpath", t.Subpath, t.Subpath != "")
	set(landfall.QueueTrigger, "topic", t.Topic, t.Topic != "")
	set(landfall.QueueTrigger, "respTopic", t.RespTopic, t.RespTopic != "")
	set(landfall.QueueTrigger, "errorTopic", t.ErrorTopic, t.ErrorTopic != "")
	set(landfall.QueueTrigger, "maxRetries", t.MaxRetries, t.MaxRetries != 0)
	set(landfall.QueueTrigger, "contentType", t.ContentType, t.ContentType != "")
	return fields, err
}

// functionRef returns which function a trigger names, or which by weights, as specs have it.
func (a *api) functionRef(app landfall.App, t client.FnTrigger) (map[string]any, error) {
	if t.Tag != "" && t.Function == "" && len(t.Weights) == 0 {
		return map[string]any{"type": "tag", "name": t.Tag}, nil
	}
	if len(t.Weights) > 0 && t.Function == "" && t.Tag == "" {
		weights := map[string]any{}
		for written, percent := range t.Weights {
			ref, err := a.reference(app.Namespace, written)
			if err != nil {
				return nil, err
			}
			weights[ref.String()] = percent
		}
		return map[string]any{"functionweights": weights}, nil
	}
	if len(t.Weights) > 0 || t.Function == "" || t.Tag != "" {
		return nil, landfall.Errorf("api", landfall.Invalid, "a trigger has a function, weights or a tag: function is NAME "+
			"or NAME:VERSION, weights are for example {\"hello:1\": 90, \"hello:2\": 10}")
	}
	ref, err := a.reference(app.Namespace, t.Function)
	return map[string]any{"name": ref.Name, "version": ref.Selector}, err
}

func (a *api) deleteFnTrigger(ctx context.Context, app landfall.App, in *struct {
	FnTriggerPath
	Unreleased
}) (*struct{}, error) {
	_, err := a.Editor.DropTrigger(ctx, app, in.Trigger, caller(ctx).Name, in.NoRelease)
	return nil, err
}
