package trigger_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/trigger"
)

// shops returns a manager of the app shop, which has a preview beside the live release, and of the app zoo.
func shops() *trigger.Manager {
	release := func(id landfall.UID, app, namespace string, kinds ...landfall.UnitKind) registry.Release {
		r := registry.Release{ID: id}
		for _, kind := range kinds {
			r.Triggers = append(r.Triggers, &registry.Trigger{Trigger: landfall.Trigger{Kind: kind,
				Queue: landfall.QueueSource{Topic: "t1"}}, Namespace: namespace, AppName: app, Name: "a", Release: id})
		}
		r.Routes = registry.NewRoutes([]registry.Route{{Trigger: r.Triggers[0],
			Patterns: []string{"POST /a/{id}", "GET /b"}}})
		return r
	}
	table := registry.New([]registry.App{
		{ID: "1", Name: "shop", Live: "aaaaaaa2", Releases: []registry.Release{
			release("aaaaaaa2", "shop", "team", landfall.QueueTrigger, landfall.HTTPTrigger, landfall.TimeTrigger),
			release("bbbbbbb2", "shop", "team", landfall.TimeTrigger, landfall.QueueTrigger)}},
		{ID: "2", Name: "zoo", Live: "ccccccc2",
			Releases: []registry.Release{release("ccccccc2", "zoo", "default", landfall.QueueTrigger)}},
	})
	return &trigger.Manager{
		Table: func() *registry.Table { return table },
		Release: func(host string) (app, selector string, joined, known bool) {
			name, known := strings.CutSuffix(host, ".example.com")
			app, selector, _ = strings.Cut(name, ".")
			return app, selector, false, known
		},
	}
}

// An event's source says which triggers it is for.
func TestFind(t *testing.T) {
	t.Parallel()
	const http1, time1, queue1 = "http-trigger aaaaaaa2", "time-trigger aaaaaaa2", "queue-trigger aaaaaaa2"
	for _, c := range []struct{ source, method, want string }{
		{"/r/team/shop/a", "", http1 + "," + time1 + "," + queue1},
		{"/r/team/shop:bbbbbbb2/a", "", "time-trigger bbbbbbb2,queue-trigger bbbbbbb2"},
		{"/r/team/shop:live/a", "", http1 + "," + time1 + "," + queue1},
		{"/r/default/zoo/a", "", "queue-trigger ccccccc2"},
		{"default.zoo.t1", "", "queue-trigger ccccccc2"},
		{"team.shop.t1", "", queue1}, // of the live release alone
		{"http://shop.example.com/a/7?x=y", "", queue1},
		{"https://shop.bbbbbbb2.example.com/b", http.MethodGet, "time-trigger bbbbbbb2"},

		{"http://shop.example.com/a/7", http.MethodGet, ""},
		{"http://shop.example.com/a/../a/7", "", ""},
		{"http://shop.example.com", "", ""},
		{"http://shop.example.org/a/7", "", ""},
		{"http://nobody.example.com/a/7", "", ""},
		{"/r/team/shop/b", "", ""},
		{"/r/default/shop/a", "", ""},
		{"/r/team/shop:ddddddd2/a", "", ""},
		{"/r/team/shop/a/", "", ""},
		{"/r/team/shop", "", ""},
		{"/r/", "", ""},
		{"r/team/shop/a", "", ""},
		{"//", "", ""},
		{"t1", "", ""},
		{"default.shop.t1", "", ""},
		{"team.shop.T1", "", ""},
		{"", "", ""},
	} {
		e := event.New()
		e.SetSource(c.source)
		if c.method != "" {
			event.SetProtocol(&e, event.Protocol{Method: c.method})
		}
		found, err := shops().Find(e)
		var got []string
		for _, trigger := range found {
			got = append(got, string(trigger.Kind)+" "+string(trigger.Release))
		}
		// E-025: triggers are looked up by the source of the event
		if err != nil || strings.Join(got, ",") != c.want {
			t.Errorf("%s %s: got %v, %v, want %s", c.method, c.source, got, err, c.want)
		}
	}
}

// Filters say which events of its source a trigger takes.
func TestFindPasses(t *testing.T) {
	t.Parallel()
	var triggers []*registry.Trigger
	for kind, filters := range map[landfall.UnitKind]string{
		landfall.HTTPTrigger: `[{"exact":{"type":"order"}}]`, landfall.TimeTrigger: `[{"prefix":{"subject":"eu."}}]`,
		landfall.QueueTrigger: `[7]`,
	} {
		triggers = append(triggers, &registry.Trigger{Trigger: landfall.Trigger{Kind: kind,
			Filters: json.RawMessage(filters)}, Namespace: "team", AppName: "shop", Name: "a"})
	}
	triggers = append(triggers, &registry.Trigger{Trigger: landfall.Trigger{Kind: landfall.QueueTrigger,
		Queue: landfall.QueueSource{Topic: "orders.>"}}, Namespace: "team", AppName: "shop", Name: "b"})
	table := registry.New([]registry.App{{ID: "1", Name: "shop", Live: "aaaaaaa2",
		Releases: []registry.Release{{ID: "aaaaaaa2", Triggers: triggers}}}})
	m := &trigger.Manager{Table: func() *registry.Table {
		return table
	}, Address: func(*landfall.Function) string { return "" }}
	for _, c := range []struct{ source, kind, subject, want string }{
		{"/r/team/shop/a", "order", "", "http-trigger"},
		{"/r/team/shop/a", "order", "eu.1", "http-trigger,time-trigger"},
		{"/r/team/shop/a", "bill", "eu.1", "time-trigger"},
		{"/r/team/shop/a", "bill", "us.1", ""},
		{"team.shop.orders.new", "bill", "", "queue-trigger"},
		{"team.shop.orders", "bill", "", ""},
		{"team.shop.>", "bill", "", ""},
		{"team.shop.", "bill", "", ""},
	} {
		e := event.New()
		e.SetSource(c.source)
		e.SetType(c.kind)
		e.SetSubject(c.subject)
		found, err := m.Find(e)
		var got []string
		for _, trigger := range found {
			got = append(got, string(trigger.Kind))
		}
		if err != nil || strings.Join(got, ",") != c.want {
			t.Errorf("%+v: got %v, %v", c, got, err)
		}
	}
}

// What cannot be looked up is an error, and not nothing.
func TestFindFails(t *testing.T) {
	t.Parallel()
	e := event.New()
	e.SetSource("http://shop.example.com/a/7")
	e.SetExtension("protocol", "7")
	if _, err := shops().Find(e); landfall.KindOf(err) != landfall.Invalid {
		t.Errorf("got %v of a protocol that is none, want invalid", err)
	}
	m := &trigger.Manager{Table: func() *registry.Table { return nil }}
	if _, err := m.Find(e); landfall.KindOf(err) != landfall.Unavailable {
		t.Errorf("got %v before there is a table, want unavailable", err)
	}
}

// The event of a schedule stands for a request.
func TestNewEvent(t *testing.T) {
	t.Parallel()
	e := trigger.NewEvent(&registry.Trigger{Trigger: landfall.Trigger{Kind: landfall.TimeTrigger,
		Time: landfall.TimeSource{Method: http.MethodPut, Subpath: "/report"}}, Namespace: "team", AppName: "shop",
		Name: "a"})
	p, err := event.ProtocolOf(e)
	if err != nil || p.Method != http.MethodPut || p.RequestURL != "/report" || e.Subject() != "a" ||
		e.Source() != "/r/team/shop/a" || e.Type() != landfall.ScheduleEvent || e.Validate() != nil {
		t.Errorf("got %v, %v", e, err)
	}
	e = trigger.NewEvent(&registry.Trigger{Trigger: landfall.Trigger{Kind: landfall.QueueTrigger,
		Queue: landfall.QueueSource{Topic: "orders"}}, Namespace: "team", AppName: "shop", Name: "a"})
	if _, there := e.Extensions()["protocol"]; there || e.Type() != landfall.MessageEvent || e.Subject() != "orders" {
		t.Errorf("got %v, want a message", e)
	}
}
