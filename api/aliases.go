package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/versioning"
)

func (a *api) registerAliases(h huma.API) {
	u := units{a, landfall.FunctionUnit}
	const all, one = "/functions/{name}/aliases", "/functions/{name}/aliases/{alias}"
	registerOn(u, h, reading("list-aliases", all, "The aliases of a function: latest, and then by name"), u.aliases)
	register(h, deploying("create-alias", http.MethodPost, all,
		"Make an alias of a function").answering(http.StatusCreated).making("{name}"), u.createAlias)
	registerOn(u, h, reading("show-alias", one, "One alias"), u.alias)
	register(h, deploying("update-alias", http.MethodPut, one,
		"Let an alias point to another version, or to two with weights"), u.updateAlias)
	registerOn(u, h, deploying("delete-alias", http.MethodDelete, one,
		"Remove an alias; its versions stay").answering(http.StatusNoContent), u.deleteAlias)
	registerOn(u, h, reading("list-moves-of-alias", one+"/moves", "Every move of an alias, newest first"), u.aliasMoves)
}

// AliasPath names an alias of a function.
type AliasPath struct {
	UnitPath
	Alias string `path:"alias"`
}

// Pointing is where an alias is to point: a version, or weights.
type Pointing struct {
	Version string         `json:"version,omitempty" doc:"uid, number, label, alias, latest or live"`
	Weights map[string]int `json:"weights,omitempty" doc:"in place of version: two versions, and how many percent of the calls each gets"`
	Reason  string         `json:"reason,omitempty" maxLength:"500" doc:"kept in the history"`
	Sticky  *string        `json:"sticky,omitempty" doc:"what keeps a client on one of the two: cookie, cookie:NAME or header:NAME; empty: each call is drawn by itself; absent: as it is"`
}

// weights returns what the body of a request says, the version with the larger share first.
func (p Pointing) weights() ([]versioning.Weight, error) {
	const all = 100
	switch {
	case p.Version != "" && len(p.Weights) > 0:
		return nil, landfall.Errorf("api", landfall.Invalid, "an alias has a version or weights, not both")
	case p.Version != "":
		return []versioning.Weight{{Selector: p.Version, Percent: all}}, nil
	}
	var weights []versioning.Weight
	for selector, percent := range p.Weights {
		weights = append(weights, versioning.Weight{Selector: selector, Percent: percent})
	}
	slices.SortFunc(weights, func(x, y versioning.Weight) int {
		return cmp.Or(y.Percent-x.Percent, strings.Compare(x.Selector, y.Selector))
	})
	return weights, nil
}

func (u units) aliases(ctx context.Context, row store.Unit, _ *UnitPath) (*body[page[client.Alias]], error) {
	var all []landfall.Alias
	latest, err := u.latestAlias(ctx, row)
	if err == nil {
		all = append(all, latest)
	} else if !landfall.Is(err, landfall.NotFound) {
		return nil, err
	}
	aliases, err := u.DB.Aliases(ctx, row.ID)
	all = append(all, aliases...)
	return answer(pageOf(all, len(all), nil), err)
}

// latestAlias returns "latest" as an alias: it moved when its version was made. NotFound when there is no version.
func (u units) latestAlias(ctx context.Context, row store.Unit) (landfall.Alias, error) {
	const all = 100
	v, err := u.selected(ctx, row, landfall.Latest)
	return landfall.Alias{Name: landfall.Latest, Moved: v.Created,
		Shares: []landfall.AliasShare{{UID: v.UID, Number: v.Number, Percent: all}}}, err
}

func (u units) alias(ctx context.Context, row store.Unit, in *AliasPath) (*body[client.Alias], error) {
	if in.Alias == landfall.Latest {
		return answer(u.latestAlias(ctx, row))
	}
	return answer(versioning.AliasOf(ctx, u.DB, row, in.Alias))
}

func (u units) createAlias(ctx context.Context, in *struct {
	UnitPath
	Body struct {
		Pointing

		Alias string `json:"alias"`
	}
}) (*body[client.Alias], error) {
	return u.setAlias(ctx, in.UnitPath, in.Body.Pointing, versioning.NewAlias{Name: in.Body.Alias, Create: true})
}

func (u units) updateAlias(ctx context.Context, in *struct {
	AliasPath
	Body Pointing
}) (*body[client.Alias], error) {
	return u.setAlias(ctx, in.UnitPath, in.Body, versioning.NewAlias{Name: in.Alias})
}

func (u units) setAlias(ctx context.Context, path UnitPath, to Pointing,
	p versioning.NewAlias) (*body[client.Alias], error) {
	var err error
	if p.To, err = to.weights(); err != nil {
		return nil, err
	}
	if to.Sticky != nil {
		p.Sticky = new(landfall.Sticky(*to.Sticky))
	}
	row, err := path.find(ctx, u, landfall.ScopeDeploy)
	if err != nil {
		return nil, err
	}
	p.Actor, p.Reason, p.At = caller(ctx).Name, to.Reason, u.now()
	if p.Create && mayBeMade(ctx) {
		if there, err := u.DB.Alias(ctx, row.ID, p.Name); err == nil && isOurs(ctx, p.Actor, there.Moved) {
			return answer(there, nil)
		}
	}
	var alias landfall.Alias
	err = u.moveAlias(ctx, row, func(tx *store.Tx, row store.Unit) error {
		alias, err = versioning.SetAlias(ctx, tx, row, p)
		return err
	})
	return answer(alias, err)
}

func (u units) deleteAlias(ctx context.Context, row store.Unit, in *struct {
	AliasPath
	MoveReason
}) (*struct{}, error) {
	if in.Alias == landfall.Latest {
		return nil, landfall.Errorf("api", landfall.Invalid,
			"latest is the version that was made last, and cannot be deleted")
	}
	return nil, u.moveAlias(ctx, row, func(tx *store.Tx, row store.Unit) error {
		a, err := versioning.AliasOf(ctx, tx, row, in.Alias)
		if err == nil {
			err = versioning.CheckUndeclaredAlias(row, a)
		}
		if err == nil {
			err = needlessLive(ctx, tx, row, in.Alias)
		}
		if err != nil {
			return err
		}
		return versioning.RemoveAlias(ctx, tx, row, in.Alias,
			store.AliasMove{Actor: caller(ctx).Name, Reason: in.Reason, At: u.Now()})
	})
}

// needlessLive fails with Conflict while a trigger of the live release names an alias: it would lead nowhere.
func needlessLive(ctx context.Context, tx *store.Tx, row store.Unit, alias string) error {
	if row.App == "" {
		return nil
	}
	app, err := tx.App(ctx, row.App)
	if err != nil {
		return err
	}
	for _, kind := range landfall.TriggerKinds() {
		served, err := tx.ServedUnits(ctx, app.ID, kind)
		if err != nil {
			return err
		}
		for _, s := range served {
			if s.Release == app.Live && leadsTo(s, landfall.Reference{Name: row.Unit.Name, Selector: alias}) {
				return landfall.Errorf("api", landfall.Conflict, "the %s of the live release %s leads to %s:%s: let it name "+
					"another version first, in the specs of %s and with a push, or move the alias (landfall function alias update)",
					s.Unit, app.Live, row.Unit.Name, alias, app.Name)
			}
		}
	}
	return nil
}

// leadsTo reports whether a trigger names a function by that selector. What cannot be read of one leads nowhere.
func leadsTo(trigger store.ServedUnit, ref landfall.Reference) bool {
	t, _ := spec.ReadTriggerVersion(trigger.Unit, trigger.Spec)
	return slices.ContainsFunc(t.References(), func(to landfall.Reference) bool {
		return to.Name == ref.Name && to.Selector == ref.Selector
	})
}

// moveAlias changes an alias of a function in a transaction, and gives gateways the result.
func (u units) moveAlias(ctx context.Context, row store.Unit, move func(tx *store.Tx, row store.Unit) error) error {
	err := u.DB.Update(ctx, func(tx *store.Tx) (err error) {
		if row, err = versioning.Again(ctx, tx, row); err != nil {
			return err
		}
		if err := move(tx, row); err != nil || row.App == "" {
			return err
		}
		_, err = tx.Changed(ctx, row.App)
		return err
	})
	if err != nil || row.App == "" {
		return err
	}
	app, err := u.DB.App(ctx, row.App)
	if err == nil {
		u.Rollout.Show(ctx, app)
	}
	return err
}

func (u units) aliasMoves(ctx context.Context, row store.Unit, in *struct {
	AliasPath
	Paging
}) (*body[page[client.AliasMove]], error) {
	before, err := numberCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	moves, err := u.DB.AliasMoves(ctx, row.ID, in.Alias, before, in.Limit+1)
	part := pageOf(moves, in.Limit, func(m store.AliasMove) string { return strconv.FormatInt(m.ID, 10) })
	shown := listOf(part.Items, func(m store.AliasMove) client.AliasMove {
		return client.AliasMove{From: m.From, To: m.To, Actor: m.Actor, Reason: reasonOf(m), At: m.At}
	})
	shown.Next = part.Next
	return answer(shown, err)
}

// MoveReason says why a pointer is removed.
type MoveReason struct {
	Reason string `query:"reason" maxLength:"500" doc:"kept in the history"`
}

// reasonOf returns why an alias or a function tag moved; who did it, where nobody said why.
func reasonOf(m store.AliasMove) string {
	done := "set by "
	if m.To == "" {
		done = "removed by "
	}
	return cmp.Or(m.Reason, done+m.Actor)
}
