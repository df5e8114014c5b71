package web

import (
	"net/http"
	"net/url"

	"landfall.dev/landfall/api/client"
)

// confirmDecline asks whether a fork's commit is declined, and why.
func confirmDecline(r *request) (*view, error) {
	v, err := confirmRun("Decline the commit",
		"The fork's commit is not built. The next push to the pull request asks again.")(r)
	if err != nil {
		return nil, err
	}
	if c, ok := v.data.(confirmation); ok {
		c.Reason = true
		v.data = c
	}
	return v, nil
}

func decline(r *request) (string, error) {
	var after client.Run
	path := "/runs/" + url.PathEscape(r.PathValue("id")) + "/decline"
	err := r.api.Do(r.Context(), http.MethodPost, path, client.Decline{Reason: r.PostFormValue("reason")}, &after)
	return runURL(after), err
}
