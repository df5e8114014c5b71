package environment

import (
	"path/filepath"
	"regexp"
	"strings"
)

// fastapi is the library that functions may need beside their package.
const fastapi = "fastapi"

// fastapiImport is where a module of Python cannot do without FastAPI. In a block it may be able to.
var fastapiImport = regexp.MustCompile(`(?m)^(?:import|from)\s+` + fastapi + `\b`)

// NeedsFastAPI reports whether the source of an entry point needs FastAPI, and none of the files of its package is that: it imports it, or
// the function takes a request of it.
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
	if function == "" {
		function = "main"
	}
	code := pythonCode(source)
	takesRequest := regexp.MustCompile(`(?m)^(?:async\s+)?def\s+` + regexp.QuoteMeta(function) + `\s*\(\s*\w+\s*(?::[^,()]*)?\)`)
	return fastapiImport.Match(code) || e.name == "python-fastapi" && takesRequest.Match(code)
}

// HasFastAPI reports whether this machine has FastAPI where functions find it.
func HasFastAPI() bool { return hasLibrary(programs, fastapi) }

// hasLibrary reports whether the Python below a folder as /usr is one has a library.
func hasLibrary(below, library string) bool {
	for _, folder := range []string{"lib", "local/lib"} {
		found, _ := filepath.Glob(filepath.Join(below, folder, "python3*", "*-packages", library)) // the pattern is right
		if len(found) > 0 {
			return true
		}
	}
	return false
}
