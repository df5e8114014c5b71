package trigger

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/registry"
)

// Find returns the triggers that an event is for. Its source says which: it is
//
//   - the address of a trigger, /r/NAMESPACE/APP/TRIGGER, or /r/NAMESPACE/APP:RELEASE/TRIGGER for another release
//     than the live one. It means all triggers of that name, one of each kind;
//   - the URL of a route of a release, for the method in the event's protocol, or else POST;
//   - NAMESPACE.APP.TOPIC, which means the triggers of the live release that listen to the app's topic.
//
// Of those it returns the ones whose filters let the event pass.
//
// Invalid when the event's protocol cannot be read, Unavailable before the first table.
func (m *Manager) Find(e event.Event) ([]*registry.Trigger, error) {
	table := m.Table()
	if table == nil {
		return nil, landfall.Errorf("trigger.Find", landfall.Unavailable,
			"the triggers are not read yet; try again in a moment")
	}
	found, err := m.bySource(table, e)
	return slices.DeleteFunc(found, func(t *registry.Trigger) bool { return !m.prepared(t).pass(e) }), err
}

// bySource returns the triggers that the source of an event means.
func (m *Manager) bySource(table *registry.Table, e event.Event) ([]*registry.Trigger, error) {
	source := e.Source()
	if address, ok := strings.CutPrefix(source, registry.TriggerPath); ok {
		return named(table, address)
	}
	if u, err := url.Parse(source); err == nil && u.Host != "" {
		return m.routed(table, u, e)
	}
	return listening(table, source)
}

// resolve returns the release that an app's name and a selector mean; nil for none. Unavailable while the app cannot be
// read.
func resolve(table *registry.Table, app, selector string, joined bool) (*registry.Release, error) {
	found := table.Resolve(app, selector, joined)
	if found.Outcome == registry.Found {
		return found.Release, nil
	}
	if found.Outcome == registry.UnreadApp {
		return nil, &landfall.Error{Op: "trigger.Find", Kind: landfall.Unavailable,
			Message: "what is stored of the app " + app + " cannot be read now; the server's log says why"}
	}
	return nil, nil //nolint:nilnil // such an event is for nobody
}

// listening returns the triggers that listen to NAMESPACE.APP.TOPIC.
func listening(table *registry.Table, subject string) (all []*registry.Trigger, err error) {
	namespace, rest, _ := strings.Cut(subject, ".")
	app, topic, _ := strings.Cut(rest, ".")
	release, err := resolve(table, app, "", false)
	if release == nil || landfall.CheckTopic(topic) != nil {
		return nil, err
	}
	for _, t := range release.Triggers {
		if t.Kind == landfall.QueueTrigger && t.Namespace == namespace && landfall.TopicCovers(t.Queue.Topic, topic) {
			all = append(all, t)
		}
	}
	return all, nil
}

// named returns the triggers at NAMESPACE/APP/TRIGGER or NAMESPACE/APP:RELEASE/TRIGGER.
func named(table *registry.Table, address string) ([]*registry.Trigger, error) {
	namespace, rest, _ := strings.Cut(address, "/")
	app, name, _ := strings.Cut(rest, "/")
	app, selector, _ := strings.Cut(app, ":")
	release, err := resolve(table, app, selector, false)
	if release == nil {
		return nil, err
	}
	triggers := release.Named(name)
	if len(triggers) > 0 && triggers[0].Namespace != namespace {
		return nil, nil
	}
	return triggers, nil
}

// routed returns the trigger of the route at a URL, if there is one.
func (m *Manager) routed(table *registry.Table, u *url.URL, e event.Event) ([]*registry.Trigger, error) {
	app, selector, joined, known := m.Release(u.Host)
	if !known {
		return nil, nil
	}
	release, err := resolve(table, app, selector, joined)
	if release == nil {
		return nil, err
	}
	p, err := event.ProtocolOf(e)
	if err != nil {
		return nil, err
	}
	r := &http.Request{Method: cmp.Or(p.Method, http.MethodPost), URL: u, Host: u.Host, RequestURI: u.RequestURI()}
	route, _ := release.Routes.Find(r)
	if route == nil {
		return nil, nil
	}
	return []*registry.Trigger{route.Trigger}, nil
}
