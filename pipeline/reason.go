package pipeline

import (
	"regexp"
	"strings"
	"unicode"

	"landfall.dev/landfall"
)

// errorFinder finds the line that a person would point at, among the lines that a failed command printed: the line that
// names the error, not the stack trace, hints or exit messages after it.
type errorFinder struct {
	line string
	kind *errorLine // of line; nil: the line says something, and nothing better was found
	file string     // the last line that is only the path of a file, for kinds that stand below one
	next *errorLine // the kind of the next line that says something; nil: its form decides
}

// errorLine is a kind of lines that name an error.
type errorLine struct {
	rank    int
	pattern *regexp.Regexp // of a line without the prefixes of loggers
	last    bool           // of several lines of this kind the last one counts; else the first one
	header  bool           // the line says only that an error follows
	below   string         // it stands below the file to which it belongs: the text that joins both; empty: it does not
}

//nolint:gochecknoglobals // a table that is never written: compiled once, not for each line of a build
var kindsOfErrorLines = []*errorLine{
	{rank: 6, header: true, pattern: regexp.MustCompile(`^● (Test suite failed to run|Validation Error:)$`)}, // Jest
	{rank: 6, pattern: regexp.MustCompile(`^● [^█]+$`)},
	// Maven and pip say here only that something else is wrong.
	{rank: 2,
		pattern: regexp.MustCompile(
			`^COMPILATION ERROR ?:?$|^error: (subprocess-exited-with-error|metadata-generation-failed)$`)},
	{rank: 5, pattern: regexp.MustCompile(`^gyp ERR! stack Error: \S`)},
	{rank: 5, below: ": ", pattern: regexp.MustCompile(`^(Module not found|Type error): \S`)}, // Next.js
	{rank: 6,
		pattern: regexp.MustCompile(
			`No matching distribution found|JavaScript heap out of memory|^ERESOLVE |^Missing script:`)},
	{rank: 5, header: true, pattern: regexp.MustCompile(`^(error during build|build error|ERROR in .*)[:!]?$`)},
	{rank: 4, header: true, pattern: regexp.MustCompile(`(?i)\bbuild failed\b[^:]*:?$`)},
	// file.go:3:8: message, file.ts(1,7): message, file.ts:1:7 - message, file.java:[1,7] message
	{rank: 5,
		pattern: regexp.MustCompile(`^[^\s:()"']+\.[A-Za-z]\w*((:\d+(:\d+)?|\(\d+(,\d+)?\))(:| -)|:\[\d+,\d+\]) \S`)},
	{rank: 5, below: ":", pattern: regexp.MustCompile(`^\d+:\d+ (error|Error:) \S`)}, // ESLint
	// TypeError: message, json.decoder.JSONDecodeError: message, Error [ERR_CODE]: message
	{rank: 5, last: true,
		pattern: regexp.MustCompile(
			`^(Uncaught )?([A-Za-z_]\w*\.)*[A-Z]\w*(Error|Exception)( \[\w+\])?: \S|^Error( \[\w+\])?: \S`)},
	{rank: 5,
		pattern: regexp.MustCompile(`(?i)^\[error\] \S|^(fatal |parse |syntax )?error(\[\w+\])?: \S|^fatal: \S|^panic: \S`)},
	{rank: 4, last: true, pattern: regexp.MustCompile(`^(/bin/)?(ba|da)?sh: |^make(\[\d+\])?: \*{3} No rule|^go: `)},
	{rank: 3, last: true,
		pattern: regexp.MustCompile(`^[\w./-]+: .*(No such file or directory|[Pp]ermission denied|not found|cannot )`)},
	{rank: 1, last: true, pattern: regexp.MustCompile(`^make(\[\d+\])?: \*{3} `)},
}

var (
	// Loggers put this before a line: a time, names in brackets, a mark.
	logPrefix = regexp.MustCompile(`^(\d\d:\d\d:\d\d )?((\[[^\]]*\]|✘|✖|✗|×|x|⨯)[: ]+)*`)
	errorTag  = regexp.MustCompile(`(?i)\[error\] .*$`)
	npmPrefix = regexp.MustCompile(`^npm (error|ERR!) ?`)
	// npm says this in addition to the error.
	npmAside = regexp.MustCompile("^(code|errno|syscall|path|signal|cwd|workspace|location|command|dest|file|A " +
		"complete log|Exit status|Failed at the|" +
		"This is probably not|Lifecycle script|Note:|\\S+@\\S+ \\S+: `|$)")
	// This follows an error, or is no part of one.
	aside = regexp.MustCompile(
		`^(at |Node\.js v\d|npm (warn|WARN|notice)|Require stack:|Stack trace:|code: |requireStack: |- /|file: |\[cause\]|` +
			`go: (downloading|finding|found|added|upgraded|downgraded) |Emitted 'error' event)|^(.*: )?([Ww]arning|WARN(ING)?|DeprecationWarning|note):|` +
			`^\[(DEBUG|INFO|WARN|WARNING)\] |^gyp (info|verb|http|WARN|ERR! [^s]|ERR! s[^t])|^● (Console|Deprecation Warning:?)$`)
	// This is a file above the errors that belong to it.
	fileLine = regexp.MustCompile(`^[^\s:()"']*[^\s:()"'.]\.[A-Za-z]\w*(:\d+:\d+)?$`)
	// npm begins another script here, so the earlier lines belong to a script that succeeded.
	npmScript = regexp.MustCompile(`^> \S+@\S+ \S+`)
)

// add looks at a printed line.
func (e *errorFinder) add(text string) {
	line := landfall.Plain(text)
	if npmScript.MatchString(line) {
		*e = errorFinder{}
		return
	}
	if !strings.ContainsFunc(line, unicode.IsLetter) || aside.MatchString(line) {
		return
	}
	bare, fromNpm := line, npmPrefix.MatchString(line)
	if fromNpm {
		if bare = npmPrefix.ReplaceAllString(line, ""); npmAside.MatchString(bare) {
			return
		}
	}
	if fromNpm && aside.MatchString(bare) {
		return
	}
	if fileLine.MatchString(bare) {
		e.file = bare
	}
	kind := kindOf(bare)
	if kind == nil && fromNpm {
		kind = npmLine
	}
	if kind != nil && kind.header {
		e.next = kind
		return
	}
	if e.next != nil && (kind == nil || kind.rank < e.next.rank) {
		kind = e.next
	}
	e.next = nil
	if e.isBetter(kind) {
		e.line, e.kind = line, kind
		if kind != nil && kind.below != "" && e.file != "" {
			e.line = e.file + kind.below + line
		}
	}
}

var (
	// networkFailure is what tools say when a host does not answer.
	networkFailure = regexp.MustCompile(
		`No matching distribution|Could not (find a version|fetch|resolve|connect)|unable to access|` +
			`\bE(NOTFOUND|CONN\w+|TIMEDOUT|AI_AGAIN)\b|[Cc]onnection (refused|reset|error)|fetch failed|dial tcp|CONNECT tunnel|` +
			`[Nn]etwork is unreachable|returned error: \d{3}|status code:? \d{3}|\b(403 Forbidden|407 Proxy|502 Bad Gateway)|npm error.* E?(403|407|502)\b`)
	// codePlace is a place in a file that a compiler names, so the error is in the code.
	codePlace = regexp.MustCompile(`^[^\s:()"']+\.[A-Za-z]\w*(:\d+|\(\d+)`)
)

// reasonOf returns the reason of a failed build: the line that names the error, or else the line about the host that it
// could not reach. Lines about hosts begin with their names.
func reasonOf(line string, notReached []string) string {
	if len(notReached) == 0 || codePlace.MatchString(logPrefix.ReplaceAllString(line, "")) {
		return line
	}
	for _, missed := range notReached {
		host, _, _ := strings.Cut(missed, " ")
		if host != "" && regexp.MustCompile(`(^|[^\w.-])`+regexp.QuoteMeta(host)+`($|[^\w-])`).MatchString(line) {
			return missed
		}
	}
	if line == "" || networkFailure.MatchString(line) {
		return notReached[len(notReached)-1]
	}
	return line
}

// npmLine is the kind for errors of npm without a kind of their own.
//
//nolint:gochecknoglobals // a constant in all but its type: kinds are compared by their addresses
var npmLine = &errorLine{rank: 4}

// kindOf returns the kind of a line; nil when it names no error.
func kindOf(line string) *errorLine {
	bare := logPrefix.ReplaceAllString(line, "")
	tagged := errorTag.FindString(line)
	for _, kind := range kindsOfErrorLines {
		if kind.pattern.MatchString(bare) || tagged != "" && kind.pattern.MatchString(tagged) {
			return kind
		}
	}
	return nil
}

// isBetter reports whether a line of a kind is better than what was found before.
func (e *errorFinder) isBetter(kind *errorLine) bool {
	switch {
	case kind == nil:
		return e.kind == nil // the last line that says something
	case e.kind == nil || kind.rank > e.kind.rank:
		return true
	}
	return kind == e.kind && kind.last
}
