package environment

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// compiler is what the program is called that a compile command runs.
const compiler = "compile.py"

// Compile returns a command for a shell that looks whether sources, without running any of them, are of the environment's language, and
// the files that it wants in its folder, by their names. CompileErrors reads what it prints. It prints nothing where the machine has no
// interpreter. Empty: nobody looks at sources of this language.
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

// CompileErrors returns why sources are not of their language, by their places among those that Compile took: LINE: MESSAGE.
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
