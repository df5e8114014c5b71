package environment

import (
	"bytes"
	"cmp"
	"path"
	"regexp"
	"strings"
)

// socketParameters matches the parameters of a function that takes a WebSocket, as functions of Fission name them.
const socketParameters = `\(\s*(?:ws|socket|websocket|conn|connection)\s*(?::[^,()]*)?,\s*clients\b`

// These match parts of Node.js code, the first two at the beginning of a value.
var (
	nodeSocket = regexp.MustCompile(`^(?:async\s*)?(?:function\b[\s*]*[\w$]*\s*)?` + socketParameters +
		`\s*\)\s*(?:=>|\{)`)
	nodeName        = regexp.MustCompile(`^([\w$]+)\s*(?:[;,}\n]|$)`)
	nodeDeclaration = regexp.MustCompile(`(?m)^(?:(?:const|let|var)\s+([\w$]+)\s*=\s*|(?:async\s+)?function\s+([\w$]+))`)
)

// Socket looks at no more than so many exports, and at no longer names.
const maxPlaces, maxName = 16, 256

// Source returns the file of a package to which an entry point leads, by its path; empty when nobody has to read it.
// files has the paths of the package's files, and whether they are executable.
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

// Socket returns the line of the function of an entry point, if it takes a WebSocket as Fission's environments pass
// one: its two parameters are (ws, clients). 0 means that it does not, as far as the source shows.
func (e Environment) Socket(source []byte, entrypoint string) int {
	_, function, named := cutLast(entrypoint)
	if len(function) > maxName {
		return 0
	}
	switch e.name {
	case "python", "python-fastapi":
		function = cmp.Or(function, "main")
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

// exported returns the positions in Node.js code of possible values of an export; an empty name stands for the module
// itself.
func exported(code []byte, name string) []int {
	begins := `\bmodule\.exports\s*=\s*|\bexport\s+default\s+`
	if quoted := regexp.QuoteMeta(name); name != "" {
		begins = `\bexports\.` + quoted + `\s*=\s*|\bexport\s+(?:const|let|var)\s+` + quoted +
			`\s*=\s*|\bexport\s+((?:async\s+)?function\s+` + quoted +
			`\b)|\bmodule\.exports\s*=\s*\{(?:[^{}]*,)?\s*` + quoted +
			`\s*(?::\s*|(\())|(?:\bmodule\.exports\s*=|\bexport)\s*\{(?:[^{}]*,)?\s*(` + quoted + `)\s*[,}]`
	}
	var places []int
	names := map[string]bool{} // of values that are defined elsewhere
	for _, found := range regexp.MustCompile(begins).FindAllSubmatchIndex(code, maxPlaces) {
		at := found[1]
		for group := 2; group < len(found); group += 2 {
			if found[group] >= 0 { // what it matched is a part of the value
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

// cutLast cuts an entry point at its last dot. Without a dot, after is all of it.
func cutLast(entrypoint string) (before, after string, found bool) {
	i := strings.LastIndexByte(entrypoint, '.')
	if i < 0 {
		return "", entrypoint, false
	}
	return entrypoint[:i], entrypoint[i+1:], true
}

// modules returns the possible files of a Node.js entry point.
func modules(entrypoint string) []string {
	module := strings.TrimPrefix(entrypoint, "event:")
	module = strings.TrimSuffix(module, path.Ext(module))
	if module == "" {
		return []string{"index.js", "index.mjs", "index.cjs"}
	}
	return []string{module, module + ".js", module + ".mjs", module + ".cjs", module + "/index.js", module + "/index.mjs"}
}
