package sandbox

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"landfall.dev/landfall"
)

// variables returns an environment in the form of the kernel. Invalid when a name or value cannot be a variable.
func variables(env map[string]string) ([]string, error) {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(env[name], "\x00") {
			return nil, &landfall.Error{Op: "sandbox.environment", Kind: landfall.Invalid, Message: "the environment variable " +
				strconv.Quote(name) + " cannot be given to a process: a name is not empty and has no \"=\", and neither a name " +
				"nor a value has a zero byte"}
		}
		all = append(all, name+"="+env[name])
	}
	return all, nil
}
