package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/api/client"
)

func (a *api) registerDeliveries(h huma.API) {
	register(h, deploying("list-deliveries", http.MethodGet, "/deliveries",
		"The newest webhook deliveries: what was well signed"), a.deliveries)
	register(h, deploying("show-delivery", http.MethodGet, "/deliveries/{id}",
		"One webhook delivery, and what has to be done so that it is acted on"), a.delivery)
	register(h, deploying("replay-delivery", http.MethodPost, "/deliveries/{id}/replay",
		"Judge a webhook delivery again, as if it came now"), a.replayDelivery)
}

func (a *api) deliveries(ctx context.Context, in *struct {
	Paging

	App string `query:"app" doc:"name of an app: those to its own webhook, and to that of the installation those that were for it when they came; empty: all, which is for admin"`
}) (*body[page[client.Delivery]], error) {
	var last landfall.Delivery
	received, key, err := readCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	last.Received = received
	last.Hook, last.ID, _ = strings.Cut(key, "/")
	cursor := func(d landfall.Delivery) string { return cursorOf(d.Received, d.Hook+"/"+d.ID) }
	if in.App == "" {
		if err := installation(ctx, landfall.ScopeAdmin); err != nil {
			return nil, err
		}
		all, err := a.DB.Deliveries(ctx, last, in.Limit+1)
		return answer(pageOf(all, in.Limit, cursor), err)
	}
	app, err := a.app(ctx, in.App, landfall.ScopeDeploy)
	if err != nil {
		return nil, err
	}
	hook, err := a.hook(ctx, app)
	if err != nil {
		return nil, err
	}
	all, err := a.DB.DeliveriesOf(ctx, app.ID, hook.ID, last, in.Limit+1)
	return answer(pageOf(all, in.Limit, cursor), err)
}

// DeliveryPath names a webhook delivery.
type DeliveryPath struct {
	ID   string `path:"id"`
	Hook string `query:"hook" doc:"the webhook to which it came; empty: that of the installation, else any"`
}

// find returns a delivery that the caller may see: one that concerns an app that the caller may deploy, and any for who
// may deploy all. NotFound otherwise.
func (p DeliveryPath) find(ctx context.Context, a *api) (landfall.Delivery, error) {
	all, err := a.DB.DeliveriesNamed(ctx, p.ID)
	if err != nil {
		return landfall.Delivery{}, err
	}
	everything := installation(ctx, landfall.ScopeDeploy) == nil
	for _, d := range all {
		if p.Hook != "" && d.Hook != p.Hook {
			continue
		}
		apps, err := a.DB.AppsOfDelivery(ctx, d)
		if err != nil {
			return landfall.Delivery{}, err
		}
		if everything || slices.ContainsFunc(apps, func(app string) bool {
			return caller(ctx).Allows(landfall.ScopeDeploy, app)
		}) {
			return d, nil
		}
	}
	return landfall.Delivery{}, landfall.Errorf("api", landfall.NotFound, "there is no delivery %q", p.ID)
}

func (a *api) delivery(ctx context.Context, in *DeliveryPath) (*body[client.Delivery], error) {
	d, err := in.find(ctx, a)
	if err != nil {
		return nil, err
	}
	d.Needed, err = a.Acceptor.Explain(ctx, d)
	return answer(d, err)
}

func (a *api) replayDelivery(ctx context.Context, in *DeliveryPath) (*body[client.Delivery], error) {
	d, err := in.find(ctx, a)
	if err != nil {
		return nil, err
	}
	d, err = accept.WebhookReceiver{Acceptor: a.Acceptor}.Replay(ctx, d.Hook, d.ID, caller(ctx).Name)
	if err == nil {
		d.Needed, err = a.Acceptor.Explain(ctx, d)
	}
	return answer(d, err)
}
