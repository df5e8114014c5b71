package sandbox

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"landfall.dev/landfall"
)

// environmentFile returns a file with the variables, from which the init reads them in another process. It has no name,
// and lies in memory only. Invalid when something is no variable.
func environmentFile(env map[string]string) (*os.File, error) {
	var data bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(env[name], "\x00") {
			return nil, &landfall.Error{Op: "sandbox.environment", Kind: landfall.Invalid, Message: "the environment variable " +
				strconv.Quote(name) + " cannot be given to a process: a name is not empty and has no \"=\", and neither a name nor a value has a zero byte"}
		}
		data.WriteString(name + "=" + env[name] + "\x00")
	}
	return dataFile(data.Bytes())
}
