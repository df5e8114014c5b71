package server

import (
	"net/http"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
)

// measured answers with the metrics, to who has the token for them, or one that reads everything. The administrator's
// is known here: metrics are wanted most when the database is away.
func (s *control) measured() http.Handler {
	metrics := s.serving.metrics.Handler()
	challenge := func(w http.ResponseWriter, text string) {
		w.Header().Set(auth.Challenge())
		answer(w, http.StatusUnauthorized, text)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := auth.BearerOf(r)
		if token == "" {
			challenge(w, "Send a token: Authorization: Bearer TOKEN. LANDFALL_METRICS_TOKEN sets one for metrics alone.")
			return
		}
		if auth.Equal(token, s.config.MetricsToken) || auth.Equal(token, s.config.Token) {
			metrics.ServeHTTP(w, r)
			return
		}
		if s.db == nil { // it knows of no tokens but the roles' own, which reads
			if auth.Equal(token, s.config.RoleSecret) {
				metrics.ServeHTTP(w, r)
				return
			}
			challenge(w, "The token is not known here: LANDFALL_METRICS_TOKEN sets one, and LANDFALL_ROLE_SECRET reads, too.")
			return
		}
		known, err := auth.Token(r.Context(), s.db, token)
		switch {
		case err == nil && known.Allows(landfall.ScopeRead, ""):
			metrics.ServeHTTP(w, r)
		case err == nil:
			answer(w, http.StatusForbidden, "The token lacks the scope read for the whole installation.")
		case landfall.Is(err, landfall.Unauthorized):
			challenge(w, landfall.MessageOf(err))
		default:
			answer(w, http.StatusServiceUnavailable, "The token cannot be checked now.")
		}
	})
}
