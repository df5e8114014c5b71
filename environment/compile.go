package environment

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// compiler is the name of the program that a compile command runs.
const compiler = "compile.py"

// Compile returns a shell command that checks, without running them, whether sources are of the environment's language,
// and the files that the command needs in its folder, by name. CompileErrors reads what the command prints. It prints
// nothing when the machine has no interpreter. An empty command means that sources of this language are not checked.
func (e Environment) Compile(sources [][]byte) (command string, files map[string][]byte) {
	if e.name != "python" && e.name != "python-fastapi" {
		return "", nil
	}
	program, _ := adaptors.ReadFile("python/" + compiler) // it is a part of the program
	files = map[string][]byte{compiler: program}
	words := []string{"command -v python3 > /dev/null || exit 0; exec python3 -I -B -W ignore", compiler}
	for i, source := range sources {
		name := strconv.Itoa(i)
		files[name] = source
		words = append(words, name)
	}
	return strings.Join(words, " "), files
}

// CompileErrors returns the errors of sources, by their index in the argument of Compile: LINE: MESSAGE.
func CompileErrors(printed string) map[int]string {
	broken := map[int]string{}
	for line := range strings.Lines(printed) {
		var said struct {
			File    string `json:"file"`
			Line    int    `json:"line"`
			Message string `json:"message"`
		}
		if json.Unmarshal([]byte(line), &said) != nil {
			continue // a warning
		}
		if at, err := strconv.Atoi(said.File); err == nil {
			broken[at] = fmt.Sprintf("%d: %s", said.Line, said.Message)
		}
	}
	return broken
}
