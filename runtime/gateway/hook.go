package gateway

import (
	"net/http"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/gateway/functions"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
)

// Hook answers at landfall.HookPath + KEY of the control host: by what the function of the webhook of that key answers,
// to every method, and to everybody who knows the key. What an Authorization header says is for the control host, and
// no function gets it.
func (g *Gateway) Hook(w http.ResponseWriter, r *http.Request) {
	g.count(w, r, (*Gateway).hook)
}

// hook answers as Hook, and returns the app that it was for; none when there is no such webhook.
func (g *Gateway) hook(w *page.Writer, r *http.Request, _ *registry.Table) (app string) {
	key, _ := strings.CutPrefix(r.URL.Path, landfall.HookPath)
	if g.hooks == nil || key == "" {
		page.Write(w, r, pageNoHook())
		return ""
	}
	t, err := g.hooks(r.Context(), strings.TrimSuffix(key, "/"))
	switch {
	case err == nil:
		g.functions.Serve(w, r, t, landfall.AccessPublic, functions.AsHTTP)
		return t.AppName
	case r.Context().Err() != nil: // nobody waits for the answer
	case landfall.Is(err, landfall.NotFound):
		page.Write(w, r, pageNoHook())
	default:
		g.log.WarnContext(r.Context(), "where a webhook leads is not known", "error", err)
		w.Header().Set("Retry-After", "1")
		page.Write(w, r, pageUnsure())
	}
	return ""
}
