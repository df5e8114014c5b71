package web

import (
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// statePage is what was in force of an app at a commit or a time.
type statePage struct {
	App     client.App
	At      string        // as it was asked for; empty: now
	State   *client.State // nil: see Problem
	Problem string
}

// state shows what was in force of an app.
func state(r *request) (*view, error) {
	p := statePage{At: r.URL.Query().Get("at")}
	path := appPath(r)
	if err := r.get(path, &p.App); err != nil {
		return nil, err
	}
	at := client.StateAt(p.At, time.UTC)
	if at == "" {
		at = r.now.UTC().Format(time.RFC3339Nano)
	}
	v := &view{page: "state", title: "What was in force of " + p.App.Name, crumbs: append(appCrumbs(p.App.Name),
		crumb{"In force", appURL(p.App.Name) + "/state"})}
	var found client.State
	err := r.get(path+"/state?"+query("at", at), &found)
	switch {
	case err == nil:
		p.State = &found
	case p.At == "" && landfall.Is(err, landfall.NotFound):
		p.Problem = "Nothing was applied to production yet."
	case landfall.Is(err, landfall.NotFound, landfall.Invalid):
		p.Problem, v.status = landfall.MessageOf(err), landfall.KindOf(err).HTTPStatus()
	default:
		return nil, err
	}
	v.data = p
	return v, nil
}
