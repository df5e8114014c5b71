package githubtest

import "slices"

// addAppHook adds the webhook of the App, in place of that of an earlier one.
func (s *Server) addAppHook() {
	s.removeAppHook()
	m := s.apps.app.Manifest
	if m.HookAttributes.URL == "" {
		return
	}
	s.addHook(Hook{URL: m.HookAttributes.URL, Secret: s.apps.app.WebhookSecret, ContentType: "json", InsecureSSL: "0",
		Active: m.HookAttributes.Active, Events: append([]string{"installation", "installation_repositories"}, m.Events...)})
}

func (s *Server) removeAppHook() {
	s.hooks.list = slices.DeleteFunc(s.hooks.list, func(h *Hook) bool { return h.Repository == "" })
}

// tellsApp reports whether the App is told of what happens in a repository: where it is installed, and not suspended.
// Without an App, its webhook is told of everything.
func (s *Server) tellsApp(repository string) bool {
	return s.apps.app == nil || slices.ContainsFunc(s.apps.installations, func(i *Installation) bool {
		return i.has(repository) && !i.Suspended
	})
}
