package images

import (
	"net/http"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
)

// Admission returns an Admit of a Handler: it lets those in whose token reads functions.
func Admission(tokens auth.Tokens) func(r *http.Request, app *string) error {
	return func(r *http.Request, app *string) error {
		secret := auth.Password(r)
		if secret == "" {
			return landfall.Errorf("images", landfall.Unauthorized, "log in with any name and a token as the password")
		}
		var f *landfall.Function
		if app != nil {
			f = &landfall.Function{App: *app}
		}
		return auth.MayUse(r.Context(), tokens, secret, landfall.ScopeRead, f)
	}
}
