package invoke

import "net/http"

// The headers with which a sender of webhooks asks whether it may send (HTTP 1.1 Web Hooks for Event Delivery, section
// 4).
const (
	requestOrigin = "Webhook-Request-Origin"
	allowedOrigin = "Webhook-Allowed-Origin"
	allowedRate   = "Webhook-Allowed-Rate"
)

// validated answers the question of a sender of webhooks whether it may send, and reports whether a request is one.
// Everybody may, with a token, for each event anew: so the answer needs none, and is the same whether there is
// something to call or not. A callback is not called: this is the answer.
func validated(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodOptions || r.Header.Get(requestOrigin) == "" {
		return false
	}
	h := w.Header()
	h.Set("Allow", http.MethodPost)
	h.Set(allowedOrigin, "*")
	h.Set(allowedRate, "*")
	w.WriteHeader(http.StatusOK)
	return true
}
