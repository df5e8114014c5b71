package environment_test

import (
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"landfall.dev/landfall/event"
)

// echoing are functions that answer a request with its body, or fail when they are asked to.
func echoing(t testing.TB) map[string]struct {
	entry   string
	content files
} {
	t.Helper()
	return map[string]struct {
		entry   string
		content files
	}{
		"python": {"echo.main", files{"echo.py": `from flask import request


def main():
    if request.args.get("fail"):
        raise ValueError("it broke")
    return request.get_data(), 201, {"Content-Type": request.content_type}
`}},
		"nodejs": {"echo", files{"echo.js": `module.exports = async ({ request }) => {
  if (request.query.fail) throw new Error("it broke");
  return { status: 201, body: request.rawBody, headers: { "Content-Type": request.headers["content-type"] } };
};
`}},
		"go": {"Handler", files{"main*": goProgram(t, fstest.MapFS{"echo.go": {Data: []byte(`package main

import (
	"io"
	"net/http"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("fail") != "" {
		panic("it broke")
	}
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	w.WriteHeader(http.StatusCreated)
	_, _ = io.Copy(w, r.Body)
}
`)}})}},
	}
}

// In a shell an event of 0.1 is understood as one of 1.0 is, and its answer is of 0.1.
func TestShellOfDraft(t *testing.T) {
	t.Parallel()
	for language, echo := range echoing(t) {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			f := runnable(t, language, echo.entry, echo.content)
			const (
				fields = `"event-id":"1","source":"/me","event-type":"order","event-type-version":"v2","event-time":"2018-04-01T23:12:34Z"`
				begin  = `{"cloud-events-version":"0.1",` + fields + `,"content-type":`
				more   = `"execution":"x1","note":"mine","protocol":{"type":"http","method":"PUT","request_url":"http://shop.localhost/echo`
			)
			sent := []struct{ line, kind, data string }{
				{begin + `"text/plain","data":"café","extensions":{` + more + `"}}}`, "text/plain", "café"},
				{begin + `"application/json","data":{"a":[1]},"extensions":{` + more + `"}}}`, "application/json", `{"a":[1]}`},
				{begin + `"image/png","data":"iVBORw==","extensions":{"encoding":"base64",` + more + `"}}}`, "image/png",
					"\x89PNG"},
				{begin + `"text/plain","data":"x","extensions":{` + more + `?fail=1"}}}`, "", ""},
				{
					`{"specversion":"1.0","extensions":"my own","id":"1","source":"/me","type":"order","datacontenttype":"text/plain","data":"now"}`, "text/plain", "now"},
			}
			shell := exec.CommandContext(t.Context(), f.Args[0], f.Args[1:]...)
			var lines strings.Builder
			for _, one := range sent {
				lines.WriteString(one.line + "\n")
			}
			shell.Dir, shell.Stdin = f.Dir, strings.NewReader(lines.String())
			out, err := shell.Output()
			if err != nil {
				t.Fatal(err)
			}
			answers := strings.Split(strings.TrimSpace(string(out)), "\n")
			if len(answers) != len(sent) {
				t.Fatalf("it prints %d lines, want %d: %s", len(answers), len(sent), out)
			}
			for i, line := range answers {
				answer, form, err := event.Parse([]byte(line))
				if err != nil {
					t.Fatalf("it prints %s: %v", line, err)
				}
				draft := i < len(answers)-1
				if (form == event.Draft) != draft || answer.Source() != "/me" || answer.Type() != "order" {
					t.Errorf("it prints %s, want an answer of the version of its event", line)
				}
				if got := answer.Extensions()["eventtypeversion"]; draft && (got != "v2" || event.ExecutionOf(answer) != "x1") {
					t.Errorf("it prints %s, want the event's type version and execution", line)
				}
				fault, failed, err := event.ErrorOf(answer)
				if failed != (sent[i].kind == "") || err != nil ||
					failed && (!strings.Contains(fault.Message, "it broke") || protocol(t, answer).Status != 500) {
					t.Errorf("it prints %s, %v", line, err)
				}
				if failed {
					headers := map[string][]string{"Content-Type": {"application/json"}}
					// E-019, E-020: a function's error has a time, a content type and headers of its own
					if answer.Time().IsZero() || answer.DataContentType() != "application/json" || len(answer.Data()) > 0 ||
						!cmp.Equal(protocol(t, answer).Headers, headers) {
						t.Errorf("it prints %s, want an error with all fields of the document", line)
					}
					continue
				}
				if p := protocol(t, answer); string(answer.Data()) != sent[i].data || answer.DataContentType() != sent[i].kind ||
					p.Status != 201 {
					t.Errorf("it prints %s, want the status 201 and %s with %q", line, sent[i].kind, sent[i].data)
				}
			}
		})
	}
}
