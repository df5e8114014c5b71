package main

import (
	"crypto/subtle"
	"net/http"
	"strings"

	"landfall.dev/landfall"
	"landfall.dev/landfall/store"
)

// measured answers with the metrics, to who has the token for them, or one that reads everything. The administrator's is known
// here: metrics are wanted most when the database is away.
func (s *server) measured() http.Handler {
	metrics := s.metrics.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || token == "" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="landfall"`)
			answer(w, http.StatusUnauthorized, "Send a token: Authorization: Bearer TOKEN. LANDFALL_METRICS_TOKEN sets one for metrics alone.")
			return
		}
		if equal(token, s.config.MetricsToken) || equal(token, s.config.Token) {
			metrics.ServeHTTP(w, r)
			return
		}
		if s.db == nil { // it knows of no tokens but the roles' own, which reads
			if equal(token, s.config.RoleSecret) {
				metrics.ServeHTTP(w, r)
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="landfall"`)
			answer(w, http.StatusUnauthorized, "The token is not known here: LANDFALL_METRICS_TOKEN sets one, and LANDFALL_ROLE_SECRET reads, too.")
			return
		}
		known, err := s.db.Token(r.Context(), token)
		switch {
		case err == nil && known.Allows(store.ScopeRead, ""):
			metrics.ServeHTTP(w, r)
		case err == nil:
			answer(w, http.StatusForbidden, "The token lacks the scope read for the whole installation.")
		case landfall.KindOf(err) == landfall.NotFound:
			w.Header().Set("WWW-Authenticate", `Bearer realm="landfall"`)
			answer(w, http.StatusUnauthorized, "The token is not known.")
		default:
			answer(w, http.StatusServiceUnavailable, "The token cannot be checked now.")
		}
	})
}

// equal compares a token with what it should be, in a time that tells nothing; nothing equals an empty one.
func equal(token, want string) bool {
	return want != "" && subtle.ConstantTimeCompare([]byte(token), []byte(want)) == 1
}
