package server

import (
	"net/http"
	"net/url"
)

// control is the control host: the API, the pages, git and the webhooks, and what says how this process is. What the
// other parts have endpoints for is reached here, too.
type control struct {
	*shared
	*life

	serving  *serving
	delivery *delivery // nil without a database
	health   health
}

func newControl(s *shared, l *life, v *serving, d *delivery) *control {
	return &control{shared: s, life: l, serving: v, delivery: d, health: s.newHealth()}
}

// logHandler answers GET /log?execution=ID, where the Fn document has the logs of a runner, with the log as text.
func logHandler(rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		id := query.Get("execution")
		if id == "" {
			answer(w, http.StatusBadRequest, "Name an execution: /log?execution=ID")
			return
		}
		const before, behind = "/api/v1/executions/", "/log"
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath = before+id+behind, before+url.PathEscape(id)+behind
		query.Del("execution")
		r.URL.RawQuery = query.Encode()
		r.Header.Set("Accept", "text/plain")
		rest.ServeHTTP(w, r)
	})
}
