package sandbox

import (
	"bytes"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"landfall.dev/landfall"
)

// environmentFile returns a file with the variables, from which readEnvironment reads them in another process. It has no name,
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

// readEnvironment reads variables from the file of that number, and closes it.
func readEnvironment(number string) ([]string, error) {
	fd, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "environment")
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil || len(data) == 0 {
		return []string{}, err
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"), nil
}
