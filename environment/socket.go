package environment

import (
	"bytes"
	"path"
	"regexp"
	"strings"
)

// socketParameters are those of a function that takes a WebSocket, as functions of Fission name them.
const socketParameters = `\(\s*(?:ws|socket|websocket|conn|connection)\s*(?::[^,()]*)?,\s*clients\b`

// These find parts of code of Node.js, the first two where a value begins.
var (
	nodeSocket      = regexp.MustCompile(`^(?:async\s*)?(?:function\b[\s*]*[\w$]*\s*)?` + socketParameters + `\s*\)\s*(?:=>|\{)`)
	nodeName        = regexp.MustCompile(`^([\w$]+)\s*(?:[;,}\n]|$)`)
	nodeDeclaration = regexp.MustCompile(`(?m)^(?:(?:const|let|var)\s+([\w$]+)\s*=\s*|(?:async\s+)?function\s+([\w$]+))`)
)

// Socket looks no further than so many places where something is exported, and at no longer names.
const maxPlaces, maxName = 16, 256

// Source returns the file of a package that an entry point means, by its path; empty where nobody has to look into it. The files of the
// package are known by their paths, and whether they can be executed.
func (e Environment) Source(files map[string]bool, entrypoint string) string {
	p, tried, extension := pack{fileSet: files}, []string{}, ""
	switch e.name {
	case "python", "python-fastapi":
		extension = ".py"
		module, _, named := cutLast(entrypoint)
		module = strings.ReplaceAll(module, ".", "/")
		tried = []string{module + extension, module + "/__init__.py"}
		if !named {
			tried = []string{"main.py", "main/__init__.py", "user.py"}
		}
	case "nodejs":
		extension, tried = ".js", modules(entrypoint)
	}
	for _, name := range tried {
		if p.has(name) {
			return name
		}
	}
	if only := p.top(func(name string) bool { return path.Ext(name) == extension }); len(only) == 1 {
		return only[0]
	}
	return ""
}

// Socket returns the line at which a source has the function of an entry point, if that takes a WebSocket as Fission's environments
// give one: its two parameters are called (ws, clients). 0: it does not, as far as one sees.
func (e Environment) Socket(source []byte, entrypoint string) int {
	_, function, named := cutLast(entrypoint)
	if len(function) > maxName {
		return 0
	}
	switch e.name {
	case "python", "python-fastapi":
		if function == "" {
			function = "main"
		}
		definition := regexp.MustCompile(`(?m)^(?:async\s+)?def\s+` + regexp.QuoteMeta(function) + `\s*` + socketParameters)
		if found := definition.FindIndex(pythonCode(source)); found != nil {
			return lineOf(source, found[0])
		}
	case "nodejs":
		if !named {
			function = ""
		}
		code := nodeCode(source)
		for _, at := range exported(code, function) {
			if nodeSocket.Match(code[at:]) {
				return lineOf(source, at)
			}
		}
	}
	return 0
}

func lineOf(source []byte, at int) int { return 1 + bytes.Count(source[:at], []byte("\n")) }

// exported returns the places at which code of Node.js has what may be the value that a module exports by a name; empty: itself.
func exported(code []byte, name string) []int {
	begins := `\bmodule\.exports\s*=\s*|\bexport\s+default\s+`
	if quoted := regexp.QuoteMeta(name); name != "" {
		begins = `\bexports\.` + quoted + `\s*=\s*|\bexport\s+(?:const|let|var)\s+` + quoted + `\s*=\s*|\bexport\s+((?:async\s+)?function\s+` + quoted +
			`\b)|\bmodule\.exports\s*=\s*\{(?:[^{}]*,)?\s*` + quoted + `\s*(?::\s*|(\())|(?:\bmodule\.exports\s*=|\bexport)\s*\{(?:[^{}]*,)?\s*(` + quoted + `)\s*[,}]`
	}
	var places []int
	names := map[string]bool{} // of values that stand elsewhere
	for _, found := range regexp.MustCompile(begins).FindAllSubmatchIndex(code, maxPlaces) {
		at := found[1]
		for group := 2; group < len(found); group += 2 {
			if found[group] >= 0 { // what is found is a part of the value
				at = found[group]
			}
		}
		places = append(places, at)
		if word := nodeName.FindSubmatch(code[at:]); word != nil {
			names[string(word[1])] = true
		}
	}
	if len(names) == 0 {
		return places
	}
	for _, found := range nodeDeclaration.FindAllSubmatchIndex(code, -1) {
		switch {
		case len(places) == 2*maxPlaces:
			return places
		case found[2] >= 0 && names[string(code[found[2]:found[3]])]:
			places = append(places, found[1])
		case found[4] >= 0 && names[string(code[found[4]:found[5]])]:
			places = append(places, found[0])
		}
	}
	return places
}

// cutLast cuts an entry point around its last dot. Without one, all of it is after.
func cutLast(entrypoint string) (before, after string, found bool) {
	i := strings.LastIndexByte(entrypoint, '.')
	if i < 0 {
		return "", entrypoint, false
	}
	return entrypoint[:i], entrypoint[i+1:], true
}

// modules returns the files that an entry point of Node.js may mean.
func modules(entrypoint string) []string {
	module := strings.TrimPrefix(entrypoint, "event:")
	module = strings.TrimSuffix(module, path.Ext(module))
	if module == "" {
		return []string{"index.js", "index.mjs", "index.cjs"}
	}
	return []string{module, module + ".js", module + ".mjs", module + ".cjs", module + "/index.js", module + "/index.mjs"}
}
