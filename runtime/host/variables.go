package host

import (
	"regexp"

	"landfall.dev/landfall"
)

// identity tells a function who it is, and an adaptor how the function takes bodies.
func identity(f *landfall.Function) map[string]string {
	env := map[string]string{"LANDFALL_FUNCTION": f.Name, "LANDFALL_VERSION": string(f.Version),
		"LANDFALL_NAMESPACE": f.Namespace}
	if f.Body > 0 {
		env["LANDFALL_STREAM_BODY"] = "true"
	}
	return env
}

// variables returns what a function gets as environment: the app's configuration over what its environment says, and
// who it is.
func variables(f *landfall.Function) map[string]string {
	env := identity(f)
	for name, value := range f.Environment.Env {
		if _, ours := env[name]; !ours {
			env[name] = value
		}
	}
	who := identity(f)
	for name, value := range f.Config {
		if _, ours := who[name]; !ours && variableName.MatchString(name) {
			env[name] = value
		}
	}
	return env
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
