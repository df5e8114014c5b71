package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

func (a *api) registerFunctionTags(h huma.API) {
	const all, one = "/function-tags", "/function-tags/{tag}"
	register(h, reading("list-function-tags", all, "The function tags of a namespace, by name"), a.functionTags)
	register(h, deploying("create-function-tag", http.MethodPost, all,
		"Name versions of functions together").answering(http.StatusCreated).making("{name}?namespace={namespace}"),
		a.createFunctionTag)
	registerOn(a, h, reading("show-function-tag", one, "One function tag"), a.functionTag)
	registerOn(a, h, deploying("update-function-tag", http.MethodPut, one,
		"Let a function tag name other versions, and no others"), a.updateFunctionTag)
	register(h, reading("list-moves-of-function-tag", one+"/moves",
		"Every move of what a function tag names, newest first"), a.functionTagMoves)
	registerOn(a, h, deploying("delete-function-tag", http.MethodDelete, one,
		"Remove a function tag; the versions stay").answering(http.StatusNoContent), a.deleteFunctionTag)
}

// FunctionTagPath names a function tag.
type FunctionTagPath struct {
	Tag       string `path:"tag"`
	Namespace string `query:"namespace" default:"default"`
}

// find returns a function tag as a token sees it. Who may read none of its functions is told that there is no such tag.
// Whether they may change it, is asked in the transaction that does.
func (p FunctionTagPath) find(ctx context.Context, a *api, _ landfall.Scope) (client.FunctionTag, error) {
	t, err := versioning.FunctionTagOf(ctx, a.DB, p.Namespace, p.Tag)
	if err != nil {
		return t, err
	}
	shown, there := seen(ctx, t)
	if !there {
		return t, landfall.Errorf("api", landfall.NotFound, "there is no function tag %q in the namespace %q", p.Tag,
			p.Namespace)
	}
	return shown, nil
}

// seen returns a function tag with the functions that the request's token may read, and whether there is one of them. A
// tag without functions is seen by who may read all.
func seen(ctx context.Context, t landfall.FunctionTag) (shown client.FunctionTag, there bool) {
	whole := len(t.Functions) == 0 && caller(ctx).Allows(landfall.ScopeRead, "")
	t.Functions = slices.DeleteFunc(slices.Clone(t.Functions), func(f landfall.TaggedFunction) bool {
		return !caller(ctx).Allows(landfall.ScopeRead, f.App)
	})
	if t.Functions == nil {
		t.Functions = []landfall.TaggedFunction{}
	}
	return t, whole || len(t.Functions) > 0
}

// mayTag says whether the request's token may let tags name the functions of an app.
func mayTag(ctx context.Context) func(app string) error {
	return func(app string) error {
		if !caller(ctx).Allows(landfall.ScopeDeploy, app) {
			return forbidden(landfall.ScopeDeploy, "each function of the tag")
		}
		return nil
	}
}

func (a *api) functionTags(ctx context.Context, in *struct {
	Paging
	Namespace string `query:"namespace" default:"default"`
}) (*body[page[client.FunctionTag]], error) {
	names, err := a.DB.FunctionTagNames(ctx, in.Namespace)
	if err != nil {
		return nil, err
	}
	return paged(in.Paging, names, func(name string) string { return name },
		func(name string) (client.FunctionTag, bool, error) {
			t, err := a.DB.FunctionTag(ctx, in.Namespace, name)
			shown, there := seen(ctx, t)
			return shown, there, err
		})
}

func (a *api) functionTag(_ context.Context, t client.FunctionTag,
	_ *FunctionTagPath) (*body[client.FunctionTag], error) {
	return answer(t, nil)
}

// Tagging is what a function tag is to name.
type Tagging struct {
	Functions []string `json:"functions" minItems:"1" doc:"NAME or NAME:VERSION of each function; without a version the latest"`
	Reason    string   `json:"reason,omitempty" maxLength:"500" doc:"kept in the history"`
}

func (a *api) createFunctionTag(ctx context.Context, in *struct {
	Namespace string `query:"namespace" default:"default"`
	Body      struct {
		Tagging

		Name string `json:"name"`
	}
}) (*body[client.FunctionTag], error) {
	return a.setFunctionTag(ctx, in.Body.Tagging,
		versioning.NewFunctionTag{Namespace: in.Namespace, Name: in.Body.Name, Create: true})
}

func (a *api) updateFunctionTag(ctx context.Context, _ client.FunctionTag, in *struct {
	FunctionTagPath
	Body Tagging
}) (*body[client.FunctionTag], error) {
	return a.setFunctionTag(ctx, in.Body, versioning.NewFunctionTag{Namespace: in.Namespace, Name: in.Tag})
}

func (a *api) setFunctionTag(ctx context.Context, to Tagging,
	n versioning.NewFunctionTag) (*body[client.FunctionTag], error) {
	u := units{a, landfall.FunctionUnit}
	for _, written := range to.Functions {
		ref, err := landfall.ParseReference(written)
		if err != nil {
			return nil, err
		}
		if _, _, err := u.row(ctx, n.Namespace, ref.Name); err != nil { // also for who may not read it
			return nil, err
		}
		n.Functions = append(n.Functions, ref)
	}
	if n.Create && mayBeMade(ctx) {
		there, err := FunctionTagPath{n.Name, n.Namespace}.find(ctx, a, landfall.ScopeDeploy)
		if err == nil && isOurs(ctx, there.Actor, there.Moved) {
			return answer(there, nil)
		}
	}
	n.Actor, n.Reason = caller(ctx).Name, to.Reason
	return answer(a.Editor.SetFunctionTag(ctx, n, mayTag(ctx)))
}

func (a *api) deleteFunctionTag(ctx context.Context, _ client.FunctionTag, in *struct {
	FunctionTagPath
	MoveReason
}) (*struct{}, error) {
	return nil, a.Editor.DeleteFunctionTag(ctx, in.Namespace, in.Tag, a.mover(ctx, in.Reason, ""), mayTag(ctx))
}

// functionTagMoves lists the moves of a function tag, also of one that is gone, of the functions that the request's
// token may read.
func (a *api) functionTagMoves(ctx context.Context, in *struct {
	FunctionTagPath
	Paging
}) (*body[page[client.FunctionTagMove]], error) {
	before, err := numberCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	moves, err := a.DB.FunctionTagMoves(ctx, in.Namespace, in.Tag, before, in.Limit+1)
	part := pageOf(moves, in.Limit, func(m store.FunctionTagMove) string { return strconv.FormatInt(m.ID, 10) })
	part.Items = slices.DeleteFunc(part.Items, func(m store.FunctionTagMove) bool {
		return !caller(ctx).Allows(landfall.ScopeRead, m.App)
	})
	shown := listOf(part.Items, func(m store.FunctionTagMove) client.FunctionTagMove {
		return client.FunctionTagMove{Function: m.Function, AliasMove: client.AliasMove{From: m.From, To: m.To,
			Actor: m.Actor, Reason: reasonOf(m.AliasMove), At: m.At}}
	})
	shown.Next = part.Next
	return answer(shown, err)
}
