package deploy

import (
	"context"
	"encoding/json"
	"fmt"

	"landfall.dev/landfall"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
)

// planReader is what is needed to compare a plan with what is used; the database and its transactions have it.
type planReader interface {
	Plan(ctx context.Context, namespace string) (landfall.Plan, error)
	Counts(ctx context.Context, namespace string) (landfall.Usage, error)
	LiveFunctionSpecs(ctx context.Context, namespace, without string) ([]json.RawMessage, error)
}

// Usage returns what the apps of a namespace use of their plan.
func Usage(ctx context.Context, r planReader, namespace string) (landfall.Usage, error) {
	u, err := r.Counts(ctx, namespace)
	if err != nil {
		return u, err
	}
	specs, err := r.LiveFunctionSpecs(ctx, namespace, "")
	if err != nil {
		return u, err
	}
	err = addFunctions(&u, specs)
	return u, err
}

func addFunctions(u *landfall.Usage, specs []json.RawMessage) error {
	for _, stored := range specs {
		f, err := spec.ReadFunctionVersion(stored)
		if err != nil {
			return err
		}
		u.Add(f.Resources)
	}
	return nil
}

// CheckFunctions fails with Conflict when functions with these specs, in place of what is live of the app, and all
// other apps of its namespace together ask for more than the plan has, and for more than what is live. A plan that is
// lowered takes nothing away.
func CheckFunctions(ctx context.Context, r planReader, app landfall.App, what string, specs []json.RawMessage) error {
	plan, err := r.Plan(ctx, app.Namespace)
	if err != nil || plan.Memory == nil && plan.MilliCPU == nil && plan.Executions == nil {
		return err
	}
	var asked landfall.Usage
	if err := addFunctions(&asked, specs); err != nil || asked == (landfall.Usage{}) {
		return err // what has no functions asks for nothing
	}
	others, err := r.LiveFunctionSpecs(ctx, app.Namespace, app.ID)
	if err != nil {
		return err
	}
	if err := addFunctions(&asked, others); err != nil {
		return err
	}
	live, err := r.LiveFunctionSpecs(ctx, app.Namespace, "")
	if err != nil {
		return err
	}
	var before landfall.Usage
	if err := addFunctions(&before, live); err != nil {
		return err
	}
	return plan.Refusal(app.Namespace, what, before, asked)
}

// CheckRelease is CheckFunctions for a release that becomes accessible or live.
func CheckRelease(ctx context.Context, tx *store.Tx, app landfall.App, uid landfall.UID) error {
	specs, err := tx.FunctionSpecs(ctx, app.ID, uid)
	if err != nil {
		return err
	}
	return CheckFunctions(ctx, tx, app, fmt.Sprintf("release %s of %s", uid, app.Name), specs)
}

// CheckNewRelease fails with Conflict when an app that is to be made, its release with these functions, and the bytes
// that it stores are more than the plan of its namespace has.
func CheckNewRelease(ctx context.Context, r planReader, app landfall.App, functions []json.RawMessage,
	bytes int64) error {
	plan, err := r.Plan(ctx, app.Namespace)
	if err != nil || plan == (landfall.Plan{}) {
		return err
	}
	before, err := r.Counts(ctx, app.Namespace)
	if err != nil {
		return err
	}
	after := before
	after.Apps++
	after.Releases++
	after.Bytes += bytes
	if err := plan.Refusal(app.Namespace, "the app "+app.Name, before, after); err != nil {
		return err
	}
	return CheckFunctions(ctx, r, app, "the release of "+app.Name, functions)
}

// CheckNewApp fails with Conflict when a namespace has more apps than its plan, in the transaction that made one.
func CheckNewApp(ctx context.Context, tx *store.Tx, app landfall.App) error {
	plan, err := tx.Plan(ctx, app.Namespace)
	if err != nil || plan.Apps == nil {
		return err
	}
	now, err := tx.Counts(ctx, app.Namespace)
	if err != nil {
		return err
	}
	before := now
	before.Apps--
	return plan.Refusal(app.Namespace, "the app "+app.Name, before, now)
}

// Budget is what a namespace used before a change. Check fails when the change lets it grow beyond its plan. What was
// above the plan before may stay, since a plan that is lowered takes nothing away.
type Budget struct {
	tx     *store.Tx
	app    landfall.App
	plan   landfall.Plan
	before landfall.Usage
}

// NewBudget begins a change of an app. It is called before the transaction makes anything.
func NewBudget(ctx context.Context, tx *store.Tx, app landfall.App) (*Budget, error) {
	b := &Budget{tx: tx, app: app}
	var err error
	if b.plan, err = tx.Plan(ctx, app.Namespace); err != nil || b.plan == (landfall.Plan{}) {
		return b, err
	}
	b.before, err = b.used(ctx)
	return b, err
}

// used returns what the namespace uses. What functions ask for is in it for those by hand alone: others are compared
// when a release of theirs becomes accessible or live.
func (b *Budget) used(ctx context.Context) (landfall.Usage, error) {
	if b.app.OfNamespace() {
		return Usage(ctx, b.tx, b.app.Namespace)
	}
	return b.tx.Counts(ctx, b.app.Namespace)
}

// Check fails with Conflict when the change asks for more than the plan has.
func (b *Budget) Check(ctx context.Context) error {
	if b == nil || b.plan == (landfall.Plan{}) {
		return nil
	}
	now, err := b.used(ctx)
	if err != nil {
		return err
	}
	return b.plan.Refusal(b.app.Namespace, b.app.Name, b.before, now)
}
