package environment_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/runner"
)

// echoes are functions that hand back what they got, in each style.
func echoes() []struct {
	name, language string
	content        files
} {
	return []struct {
		name, language string
		content        files
	}{
		{"python/event", "python", files{"main.py": "def main(event): return event['data']"}},
		{"python/request", "python", files{"main.py": "from flask import request\ndef main(): return request.get_json()"}},
		{"nodejs/event", "nodejs", files{"index.js": "exports.handler = (event) => event.data"}},
		{"nodejs/request", "nodejs", files{"index.js": "module.exports = async ({ request }) => ({ body: request.body })"}},
		{"shell/event", "binary", files{"main*": "#!/bin/sh\nwhile read -r e; do printf '%s\\n' " +
			"'{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/s\",\"type\":\"t\"}'; done"}},
	}
}

// A call of a function that is hot, by one caller.
func BenchmarkHot(b *testing.B) {
	for _, echo := range echoes() {
		b.Run(echo.name, func(b *testing.B) {
			r, _ := start(b, "confined")
			f := runnable(b, echo.language, "", echo.content)
			e := call(b)
			run(b, r, f, e)
			for b.Loop() {
				run(b, r, f, e)
			}
		})
	}
}

// The first call of a function, which starts its process.
func BenchmarkFirst(b *testing.B) {
	for _, echo := range echoes() {
		b.Run(echo.name, func(b *testing.B) {
			r, _ := start(b, "confined")
			f := runnable(b, echo.language, "", echo.content)
			e := call(b)
			for b.Loop() {
				first(b, r, f, e)
			}
		})
	}
}

// first calls a function and ends its processes.
func first(b *testing.B, r *runner.Runner, f runner.Function, e event.Event) {
	b.Helper()
	run(b, r, f, e)
	r.Forget(f.ID)
}

// call returns an event that is a small request.
func call(b *testing.B) event.Event {
	b.Helper()
	e := request(b, "", event.Protocol{
		Method: "POST", RequestURL: "http://shop.localhost/api/cart?x=1",
		Headers: map[string][]string{"Host": {"shop.localhost"}, "Accept": {"*/*"}, "User-Agent": {"curl/8"}},
	}, "application/json", `{"heron-mug":2,"alder-mug":1}`)
	return e
}

// A form of 260 kB whose fields a function reads one by one, with the stand-in and with Flask itself.
func BenchmarkFlaskForm(b *testing.B) {
	content := files{"main.py": "from flask import request\ndef main(): return str(sum(len(request.form[name]) for " +
		"name in request.form))"}
	body := &strings.Builder{}
	for i := range 9_999 {
		fmt.Fprintf(body, "field%06d=%012d&", i, i)
	}
	for _, kind := range []string{"stand-in", "Flask"} {
		b.Run(kind, func(b *testing.B) {
			r, _ := start(b, "confined")
			f := runnable(b, "python", "", content)
			if kind == "Flask" {
				if err := os.CopyFS(f.Dir, os.DirFS(flaskFolder)); err != nil {
					b.Fatal(err)
				}
			}
			e := request(b, "", event.Protocol{Method: "POST", RequestURL: "/"}, "application/x-www-form-urlencoded",
				body.String())
			run(b, r, f, e)
			for b.Loop() {
				run(b, r, f, e)
			}
		})
	}
}
