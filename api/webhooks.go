package api

import (
	"context"
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store"
)

// registerWebhooks adds the operations on webhooks of functions. Whoever knows the address of one calls its function,
// so only who may make them sees them.
func (a *api) registerWebhooks(h huma.API) {
	const all, one = "/webhooks", "/webhooks/{id}"
	register(h, deploying("list-webhooks", http.MethodGet, all, "Webhooks of functions, newest first"), a.listWebhooks)
	register(h, deploying("create-webhook", http.MethodPost, all,
		"Make an address by which whoever knows it calls a function").answering(http.StatusCreated).making("{id}"),
		a.createWebhook)
	registerOn(a, h, deploying("show-webhook", http.MethodGet, one, "One webhook"), a.showWebhook)
	registerOn(a, h, deploying("update-webhook", http.MethodPut, one,
		"Let a webhook lead to another version, or describe it"), a.updateWebhook)
	registerOn(a, h, deploying("delete-webhook", http.MethodDelete, one,
		"Delete a webhook: its address leads nowhere any more").answering(http.StatusNoContent), a.deleteWebhook)
}

// WebhookPath names a webhook of a function.
type WebhookPath struct {
	ID string `path:"id"`
}

// find returns a webhook.
func (p WebhookPath) find(ctx context.Context, a *api, scope landfall.Scope) (landfall.FunctionHook, error) {
	hook, err := a.DB.FunctionHook(ctx, p.ID)
	if err == nil && !caller(ctx).Allows(scope, hook.App) {
		err = landfall.Errorf("api", landfall.NotFound, "there is no webhook %s", p.ID)
	}
	return hook, err
}

func (a *api) listWebhooks(ctx context.Context, in *UsePaging) (*body[page[client.Webhook]], error) {
	shown, err := a.usesIn(ctx, in, landfall.ScopeDeploy)
	if err != nil {
		return nil, err
	}
	hooks, err := a.DB.FunctionHooks(ctx, shown.unit, shown.apps, shown.before, in.Limit+1)
	return answer(pageOf(listOf(hooks, a.webhookOf).Items, in.Limit, func(h client.Webhook) string {
		return cursorOf(h.Created, h.ID)
	}), err)
}

func (a *api) webhookOf(h landfall.FunctionHook) client.Webhook {
	return client.Webhook{Used: usedOf(h.FunctionUse), Description: h.Description,
		URL: a.URL.JoinPath(landfall.HookPath, h.Key).String()}
}

func (a *api) showWebhook(_ context.Context, hook landfall.FunctionHook, _ *WebhookPath) (*body[client.Webhook],
	error) {
	return answer(a.webhookOf(hook), nil)
}

func (a *api) createWebhook(ctx context.Context, in *struct{ Body client.NewWebhook }) (*body[client.Webhook], error) {
	hook, there, err := made(ctx, a.DB.FunctionHook)
	if err != nil || there {
		return answer(a.webhookOf(hook), err)
	}
	ref, err := a.named(ctx, in.Body.FunctionName, landfall.ScopeDeploy)
	if err != nil {
		return nil, err
	}
	err = a.DB.Update(ctx, func(tx *store.Tx) error {
		u, err := a.use(ctx, tx, ref)
		if err != nil {
			return err
		}
		count, err := tx.CountFunctionHooks(ctx, u.Unit)
		if err := crowded(count, err, "webhook"); err != nil {
			return err
		}
		hook = landfall.FunctionHook{FunctionUse: u, Key: strings.ToLower(rand.Text()), Description: in.Body.Description}
		return tx.PutFunctionHook(ctx, hook)
	})
	return answer(a.webhookOf(hook), err)
}

func (a *api) updateWebhook(ctx context.Context, hook landfall.FunctionHook, in *struct {
	WebhookPath
	Body client.WebhookChange
}) (*body[client.Webhook], error) {
	err := a.DB.Update(ctx, func(tx *store.Tx) (err error) {
		if hook, err = tx.FunctionHook(ctx, hook.ID); err != nil {
			return err
		}
		if in.Body.Number != nil {
			to, err := a.use(ctx, tx, landfall.Reference{Namespace: hook.Namespace, Name: hook.Function,
				Selector: strconv.FormatInt(*in.Body.Number, 10)})
			if err != nil {
				return err
			}
			hook.Number = to.Number
		}
		if in.Body.Description != nil {
			hook.Description = *in.Body.Description
		}
		hook.Updated = a.now()
		return tx.PutFunctionHook(ctx, hook)
	})
	return answer(a.webhookOf(hook), err)
}

func (a *api) deleteWebhook(ctx context.Context, hook landfall.FunctionHook, _ *WebhookPath) (*struct{}, error) {
	return nil, a.DB.Update(ctx, func(tx *store.Tx) error { return tx.DeleteFunctionHook(ctx, hook.ID) })
}
