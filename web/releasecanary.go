package web

import (
	"net/http"
	"net/url"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// shownCanary is for how long the page of an app shows a canary that is over.
const shownCanary = 24 * time.Hour

// canary returns the canary of a release that the page of an app at a path shows; nil when there is none.
func canary(r *request, path string) (*client.ReleaseCanary, error) {
	var c client.ReleaseCanary
	err := r.get(path+"/canary", &c)
	switch {
	case landfall.Is(err, landfall.NotFound):
		return nil, nil //nolint:nilnil // there is none, which is no error
	case err != nil:
		return nil, err
	case !c.Ended.IsZero() && r.now.Sub(c.Ended) > shownCanary:
		return nil, nil //nolint:nilnil // as above
	}
	return &c, nil
}

// confirmStopCanary asks whether the canary of a release ends.
func confirmStopCanary(r *request) (*view, error) {
	app, err := changeable(r, appPath(r))
	if err != nil {
		return nil, err
	}
	c := confirmation{Title: "Stop the canary", Button: "Stop it", Back: appURL(app.Name), Live: app.Live, Reason: true,
		Text: "All visitors get the live release again."}
	return c.view(r, app), nil
}

func stopCanary(r *request) (string, error) {
	reason := url.Values{}
	if said := r.PostFormValue("reason"); said != "" {
		reason.Set("reason", said)
	}
	var c client.ReleaseCanary
	err := r.api.Do(r.Context(), http.MethodDelete, appPath(r)+"/canary?"+reason.Encode(), nil, &c)
	return appURL(r.PathValue("app")) + "?done=stopped", err
}
