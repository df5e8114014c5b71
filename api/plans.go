package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/store"
)

func (a *api) registerPlans(h huma.API) {
	register(h, administering("list-plans", http.MethodGet, "/plans", "What each namespace may use, and what it uses"),
		a.listPlans)
	register(h, administering("show-plan", http.MethodGet, "/plans/{ns}", "What one namespace may use, and what it uses"),
		a.showPlan)
	register(h, administering("set-plan", http.MethodPut, "/plans/{ns}",
		"Set what a namespace may use; what is absent is not bounded"), a.setPlan)
}

func (a *api) planOf(ctx context.Context, namespace string) (client.NamespacePlan, error) {
	p := client.NamespacePlan{Namespace: namespace}
	var err error
	if p.Limits, err = a.DB.Plan(ctx, namespace); err == nil {
		p.Used, err = deploy.Usage(ctx, a.DB, namespace)
	}
	return p, err
}

func (a *api) listPlans(ctx context.Context, in *Paging) (*body[page[client.NamespacePlan]], error) {
	sees, err := a.sees(ctx)
	if err != nil {
		return nil, err
	}
	all, err := a.DB.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	return paged(*in, all, func(n store.Namespace) string { return n.Name },
		func(n store.Namespace) (client.NamespacePlan, bool, error) {
			if !sees(n.Name) {
				return client.NamespacePlan{}, false, nil
			}
			p, err := a.planOf(ctx, n.Name)
			return p, true, err
		})
}

func (a *api) showPlan(ctx context.Context, in *NamespacePath) (*body[client.NamespacePlan], error) {
	n, err := a.namespace(ctx, in.Namespace)
	if err != nil {
		return nil, err
	}
	return answer(a.planOf(ctx, n.Name))
}

// setPlan is for tokens of the whole installation: who has a namespace does not say how much of it there is.
func (a *api) setPlan(ctx context.Context, in *struct {
	NamespacePath
	Body landfall.Plan
}) (*body[client.NamespacePlan], error) {
	if err := installation(ctx, landfall.ScopeAdmin); err != nil {
		return nil, err
	}
	err := a.DB.Update(ctx, func(tx *store.Tx) error {
		if _, err := tx.Namespace(ctx, in.Namespace); err != nil {
			return err
		}
		return tx.SetPlan(ctx, in.Namespace, in.Body)
	})
	if err != nil {
		return nil, err
	}
	return answer(a.planOf(ctx, in.Namespace))
}
