package server

import (
	"net/http"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/runtime/images"
)

// imageDoor is where functions are pulled as images.
func (s *server) imageDoor() http.Handler {
	source := s.source()
	return &images.Handler{
		Find: source.Image, Names: source.ImageNames, Builder: s.images, Logger: s.logger,
		Admit: func(r *http.Request, app *string) error {
			secret := auth.Password(r)
			if secret == "" {
				return &landfall.Error{Op: "images", Kind: landfall.Unauthorized, Message: "log in with any name and a token as the password"}
			}
			var f *landfall.Function
			if app != nil {
				f = &landfall.Function{App: *app}
			}
			return auth.MayUse(r.Context(), s.db, secret, landfall.ScopeRead, f)
		},
	}
}
