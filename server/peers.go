package server

import (
	"net/http"

	"landfall.dev/landfall"
	"landfall.dev/landfall/mux"
	"landfall.dev/landfall/runtime/host"
	"landfall.dev/landfall/runtime/images"
	"landfall.dev/landfall/runtime/invoke"
	"landfall.dev/landfall/runtime/rpc"
	"landfall.dev/landfall/secret"
)

// routeRun serves /run: to other processes, what runs or sends on events here; to everybody else, the trigger manager.
func (s *serving) routeRun(control *mux.Mux, events http.Handler) {
	var peers http.Handler
	switch {
	case s.runs != nil:
		peers = s.runs
	case s.config.has(roleRouter):
		peers = s.router
	}
	switch {
	case peers == nil && events == nil:
		control.Mount(invoke.RunPath, invoke.Elsewhere(string(roleTrigger)))
	case peers == nil:
		control.Mount(invoke.RunPath, events)
	case events == nil:
		control.Mount(invoke.RunPath, peers)
	default:
		control.Mount(invoke.RunPath, rpc.Roles(secret.Text(s.config.RoleSecret), peers, events))
	}
}

// functionHandler is where functions are called by their names and described: to runners, with all that they need.
func (s *serving) functionHandler(named http.Handler) http.Handler {
	if !s.config.has(roleRegistry) || s.config.RoleSecret == "" {
		return named
	}
	live := func() []*landfall.Function { return host.MadeReady(s.registry.Table()) }
	return &rpc.RegistryHandler{Find: s.source().FunctionInGroup, Live: live, Secret: secret.Text(s.config.RoleSecret),
		Next: named}
}

// imageHandler is where functions are pulled as images.
func (s *serving) imageHandler() http.Handler {
	source := s.source()
	return &images.Handler{Find: source.Image, Names: source.ImageNames, Admit: images.Admission(s.db), Builder: s.images,
		Logger: s.logger}
}
