package route_test

import (
	"fmt"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/route"
)

// A path with regular expressions matches as with gorilla's router, and gives its values by their names.
func TestExpressions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, asked, values string }{
		{`/chat/{html:[a-zA-Z0-9\.\/]+}`, "/chat/app.html", "map[html:app.html]"},
		{`/chat/{html:[a-zA-Z0-9\.\/]+}`, "/chat/a/b/c.js", "map[html:a/b/c.js]"},
		{`/chat/{html:[a-zA-Z0-9\.\/]+}`, "/chat/", ""},
		{`/chat/{html:[a-zA-Z0-9\.\/]+}`, "/chat/a_b", ""},
		{`/chat/{html:[a-zA-Z0-9\.\/]+}`, "/x/chat/app.html", ""},
		{`/r/{id:[0-9]{2,3}}`, "/r/123", "map[id:123]"},
		{`/r/{id:[0-9]{2,3}}`, "/r/1234", ""},
		{`/{year:\d{4}}-{month:\d\d}/{title}`, "/2024-05/spring", "map[month:05 title:spring year:2024]"},
		{`/{a:(x|y)(z)}/{b:one|two}`, "/xz/two", "map[a:xz b:two]"},
		{`/file-{name}.txt`, "/file-a b.txt", "map[name:a b]"},
		{`/file-{name}.txt`, "/file-a/b.txt", ""},
		{`/{file-name}`, "/x", "map[file-name:x]"},
		{`/a.b/{n:\d+}`, "/aXb/1", ""},
		{`/{any:(?i)abc}`, "/ABC", "map[any:ABC]"},
		{route.Below(`/v/{n:\d+}`), "/v/7", "map[n:7]"},
		{route.Below(`/v/{n:\d+}`), "/v/7/a/b", "map[n:7]"},
		{route.Below(`/v/{n:\d+}`), "/v/7a", ""},
	} {
		e, err := route.Parse(c.path)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		values, matches := e.Match(c.asked)
		if got := fmt.Sprint(values); matches != (c.values != "") || matches && got != c.values {
			t.Errorf("%s, %s: got %s, %t, want %q", c.path, c.asked, got, matches, c.values)
		}
	}
}

// What no expression can be is refused with a reason.
func TestWrongExpressions(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		`/{id:[0-9}`:                  "cannot be read",
		`/{id:a)(b}`:                  "cannot be read",
		`/{id:a`:                      "braces",
		`/id:a}`:                      "braces",
		`/{}x`:                        "braces",
		`/{:a}`:                       "no name",
		`/{a b:x}`:                    "no name",
		`/{id:(?=a)}`:                 "cannot be read",
		`/{a:x}/{a:y}`:                "two values",
		`/{a:x}/{A:y}`:                "two values",
		`/{id:a{1,1000}}`:             "too large",
		`/{id:(a{1,100}){1,100}}`:     "cannot be read",
		`/{id:a}?x=1`:                 "clean path",
		`/{id:a}/../b`:                "clean path",
		`{id:a}`:                      "begin with /",
		`/a/{b:x}//` + `{c:y}`:        "clean path",
		`/` + strings.Repeat("{", 20): "braces",
	} {
		if _, err := route.Parse(path); landfall.KindOf(err) != landfall.Invalid ||
			!strings.Contains(landfall.MessageOf(err), want) {
			t.Errorf("%s: got %v, want a refusal with %q", path, err, want)
		}
	}
}

// Only what http.ServeMux cannot match is an expression.
func TestNeeded(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/a": false, "/a/{id}": false, "/a/{id}/b": false, "/a/{rest...}": false, "/a/{$}": false,
		"/a/{id:[0-9]+}": true, "/a/x{id}": true, "/a/{id}.html": true, "/{file-name}": true, "/{a:x{2}}": true,
	} {
		if got := route.Needed(path); got != want {
			t.Errorf("%s: got %t, want %t", path, got, want)
		}
	}
}

// No path makes the reader panic, and what it takes can be asked for anything.
func FuzzParse(f *testing.F) {
	f.Add(`/chat/{html:[a-z]+}`, "/chat/x")
	f.Add(`/{a:(x|y)(z)}{b}`, "/xz")
	f.Fuzz(func(_ *testing.T, path, asked string) {
		if e, err := route.Parse(path); err == nil {
			e.Match(asked)
		}
	})
}
