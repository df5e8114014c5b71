package environment

import (
	"cmp"
	"path/filepath"
	"regexp"
	"strings"
)

// fastapi is a library that functions may need in addition to their package.
const fastapi = "fastapi"

// fastapiImport matches an import without which a Python module cannot work. An indented import may be optional.
var fastapiImport = regexp.MustCompile(`(?m)^(?:import|from)\s+` + fastapi + `\b`)

// NeedsFastAPI reports whether the source of an entry point needs FastAPI and its package does not contain it: the
// source imports it, or the function takes a request of it.
func (e Environment) NeedsFastAPI(files map[string]bool, source []byte, entrypoint string) bool {
	if e.name != "python" && e.name != "python-fastapi" {
		return false
	}
	for name := range files {
		if name == fastapi+".py" || strings.HasSuffix("/"+name, "/"+fastapi+"/__init__.py") {
			return false
		}
	}
	_, function, _ := cutLast(entrypoint)
	function = cmp.Or(function, "main")
	code := pythonCode(source)
	takesRequest := regexp.MustCompile(`(?m)^(?:async\s+)?def\s+` + regexp.QuoteMeta(function) +
		`\s*\(\s*\w+\s*(?::[^,()]*)?\)`)
	return fastapiImport.Match(code) || e.name == "python-fastapi" && takesRequest.Match(code)
}

// HasFastAPI reports whether FastAPI is installed where functions of this machine find it.
func HasFastAPI() bool { return hasLibrary(programs, fastapi) }

// hasLibrary reports whether the Python below a folder like /usr has a library.
func hasLibrary(below, library string) bool {
	for _, folder := range []string{"lib", "local/lib"} {
		found, _ := filepath.Glob(filepath.Join(below, folder, "python3*", "*-packages", library)) // the pattern is valid
		if len(found) > 0 {
			return true
		}
	}
	return false
}
