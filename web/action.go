package web

import (
	"net/http"
	"net/url"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// action is something that can be done: it is confirmed on a page of its own, which says what it comes to, and done by
// a POST to the same address.
type action struct {
	confirm func(*request) (*view, error)
	do      func(*request) (to string, err error) // where to go afterwards
}

// actions are all of them, by address.
func actions() map[string]action {
	return map[string]action{
		"/apps/:app/promote":     {confirmPromote, promote},
		"/apps/:app/rollback":    {confirmRollback, rollback},
		"/apps/:app/hold":        {confirmHold(true), hold(true)},
		"/apps/:app/resume":      {confirmHold(false), hold(false)},
		"/apps/:app/stop-canary": {confirmStopCanary, stopCanary},
		"/runs/:id/retry": {confirmRun("Run again", "The commit goes through all steps again, under a new run."),
			doRun("/retry")},
		"/runs/:id/cancel": {confirmRun("Cancel the run", "It ends where it is, and makes no release."), doRun("/cancel")},
		"/runs/:id/approve": {confirmRun("Approve the commit", "The fork's commit is built without secrets and without a "+
			"network, and gets a release that never becomes live. Read what it changes before: its code will run here."),
			doRun("/approve?via=page")},
		"/runs/:id/decline": {confirmDecline, decline},
		newAppPath:          {askNewApp, makeApp},
	}
}

// notices are what a page says after something was done.
func notices() map[string]string {
	return map[string]string{
		"made":     "The app is there. Its releases stand here once its repository is pushed to.",
		"promoted": "The release is live now.",
		"rollback": "Live went back, and is held there.",
		"held":     "Live is held where it is.",
		"resumed":  "Live follows pushes again.",
		"stopped":  "The canary is over. All visitors get the live release.",
	}
}

// doing does what was confirmed.
func (s *site) doing(a action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		in, err := s.enter(r)
		if err != nil {
			s.fail(w, r, nil, err)
			return
		}
		to, err := a.do(in)
		if err != nil {
			s.fail(w, r, in, err)
			return
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// confirmation is what a page asks.
type confirmation struct {
	Title   string
	Text    string
	Button  string
	Back    string // where who does not want it goes
	Release landfall.UID
	Live    landfall.UID // as it is now: what is confirmed is the move from here
	From    *client.Release
	To      *client.Release
	Reason  bool // one can be given
	Diff    *difference
}

// confirmMove asks whether live goes to a release.
func confirmMove(r *request, name string, c confirmation) (*view, error) {
	path := appPath(r)
	app, err := changeable(r, path)
	if err != nil {
		return nil, err
	}
	c.Live, c.Back, c.Reason = app.Live, appURL(app.Name), true
	if name == "" { // a rollback to what was live before
		if name = string(app.Previous); name == "" {
			return nil, landfall.Errorf("web", landfall.Conflict,
				"%s has no earlier live release that can be reached. Promote a release instead.", app.Name)
		}
	}
	c.To = &client.Release{}
	if err := r.get(path+"/releases/"+url.PathEscape(name), c.To); err != nil {
		return nil, err
	}
	c.Release = c.To.ID
	if app.Live != "" {
		c.From = &client.Release{}
		if err := r.get(path+"/releases/"+string(app.Live), c.From); err != nil {
			return nil, err
		}
		d, err := between(r, path, string(app.Live), string(c.Release), "")
		if err != nil {
			return nil, err
		}
		c.Diff = &d
	}
	return c.view(r, app), nil
}

// view is the page that asks it of an app.
func (c confirmation) view(r *request, app client.App) *view {
	return &view{page: "confirm", title: c.Title + ": " + app.Name,
		crumbs: append(appCrumbs(app.Name), crumb{c.Title, r.URL.RequestURI()}), data: c}
}

// changeable returns the app at a path. Forbidden when the token may not change it.
func changeable(r *request, path string) (app client.App, err error) {
	if err = r.get(path, &app); err == nil && !r.may(app) {
		err = landfall.Errorf("web", landfall.Forbidden, "Your token may look at %s, and not change it.", app.Name)
	}
	return app, err
}

func confirmPromote(r *request) (*view, error) {
	release := r.URL.Query().Get("release")
	if release == "" {
		release = landfall.Latest
	}
	return confirmMove(r, release, confirmation{Title: "Promote", Button: "Make it live",
		Text: "It becomes live for everybody at once, and pushes to the production branch move live again."})
}

func confirmRollback(r *request) (*view, error) {
	return confirmMove(r, r.URL.Query().Get("release"), confirmation{Title: "Roll back", Button: "Roll back",
		Text: "It becomes live for everybody at once, and is held there: the next push makes a release, and does not move " +
			"live."})
}

// move is what the API is asked for.
type move struct {
	Release string `json:"release,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// moveLive does what was confirmed, unless live moved since.
func moveLive(r *request, operation, done string) (string, error) {
	var app client.App
	if err := r.get(appPath(r), &app); err != nil {
		return "", err
	}
	if live := r.PostFormValue("live"); live != string(app.Live) {
		return "", landfall.Errorf("web", landfall.Conflict,
			"Somebody moved live meanwhile, to %s: nothing was done. Look again.", app.Live)
	}
	release := r.PostFormValue("release")
	if release == "" {
		return "", landfall.Errorf("web", landfall.Invalid, "No release was named.")
	}
	err := r.api.Do(r.Context(), http.MethodPost, appPath(r)+operation, move{release, r.PostFormValue("reason")}, nil)
	return appURL(app.Name) + "?done=" + done, err
}

func promote(r *request) (string, error)  { return moveLive(r, "/live", "promoted") }
func rollback(r *request) (string, error) { return moveLive(r, "/rollback", "rollback") }

// confirmHold asks whether live is held, or let go.
func confirmHold(held bool) func(*request) (*view, error) {
	return func(r *request) (*view, error) {
		c := confirmation{Title: "Hold live", Button: "Hold live",
			Text: "Live stays where it is: pushes make releases, and do not move it."}
		if !held {
			c = confirmation{Title: "Resume", Button: "Let live follow pushes",
				Text: "The next push to the production branch moves live again. Nothing moves now."}
		}
		app, err := changeable(r, appPath(r))
		if err != nil {
			return nil, err
		}
		c.Live, c.Back = app.Live, appURL(app.Name)
		return c.view(r, app), nil
	}
}

func hold(held bool) func(*request) (string, error) {
	return func(r *request) (string, error) {
		var app client.App
		err := r.api.Do(r.Context(), http.MethodPut, appPath(r)+"/hold", map[string]bool{"held": held}, &app)
		if held {
			return appURL(app.Name) + "?done=held", err
		}
		return appURL(app.Name) + "?done=resumed", err
	}
}

// confirmRun asks whether something is done with a run.
func confirmRun(title, text string) func(*request) (*view, error) {
	return func(r *request) (*view, error) {
		var run client.Run
		if err := r.get("/runs/"+url.PathEscape(r.PathValue("id")), &run); err != nil {
			return nil, err
		}
		app, err := changeable(r, "/apps/"+url.PathEscape(run.App))
		if err != nil {
			return nil, err
		}
		return &view{page: "confirm", title: title,
			crumbs: append(appCrumbs(app.Name), crumb{"Run of " + run.Commit.Short(), runURL(run)},
				crumb{title, r.URL.Path}), data: confirmation{Title: title, Button: title, Text: text, Back: runURL(run)}}, nil
	}
}
