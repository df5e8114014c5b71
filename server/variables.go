package server

import (
	"regexp"
	"slices"
	"strings"

	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/spec"
)

// checkEnvironment refuses variables that begin like ours and are none: who mistypes a setting would run without it.
func checkEnvironment(environ []string) error {
	known := map[string]bool{envPrefix + "SERVER": true} // of the other commands
	for _, s := range settings() {
		known[envPrefix+s.name] = true
		if s.mayBeFile() {
			known[envPrefix+s.name+fileSuffix] = true
		}
	}
	slices.Sort(environ)
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || known[name] || ofOurTests(name) || ofKubernetes(name, value) {
			continue
		}
		return cli.Invalid("there is no setting %s; %s", name, spec.Suggest(name, known))
	}
	return nil
}

// ofOurTests reports whether a variable is for tests and measurements of this program, or for the program that they
// build.
func ofOurTests(name string) bool {
	return regexp.MustCompile(`^LANDFALL_(CRASH|OPENAPI_GITHUB|(TEST|BENCH|SOAK)_.*|[A-Z]+_ROUNDS)$`).MatchString(name)
}

// ofKubernetes reports whether a variable is one that Kubernetes makes for each service, in every container beside it;
// such a service may be called landfall.
func ofKubernetes(name, value string) bool {
	return regexp.MustCompile(`_SERVICE_(HOST|PORT(_.*)?)$`).MatchString(name) ||
		regexp.MustCompile(`_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`).MatchString(name) &&
			(strings.Contains(name, "_PORT_") || regexp.MustCompile(`^(tcp|udp|sctp)://`).MatchString(value))
}
