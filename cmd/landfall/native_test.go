package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A function is a program that takes an event: it answers the same whoever calls it, in whichever app it lies, with triggers and
// without.
func TestNativeEvents(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const names = "def main(event):\n    return ' '.join(sorted(event)) + '|' + event['specversion'] + ' ' + event['type']\n"
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("python-env", "names names.main"), "specs/app.yaml", appSpec("shop"), "site/index.html", "page",
		"names/names.py", names)
	s.pushed(r, "shop", "A function")
	visited := s.get(s.at("shop", "/api/names"))
	wantEqual(t, "status", visited.status, http.StatusOK)
	got, kind, _ := strings.Cut(visited.body, "|")
	// P-011: the runner gives the function an event of CloudEvents, though the visitor knows nothing of events
	wantEqual(t, "what the function was given", kind, "1.0 dev.landfall.http.request")
	// E-007: what an event says has the names that CloudEvents gives it; the others are named as extensions are
	wantEqual(t, "names of attributes", got, "config eventtypeversion execution function id protocol source specversion time trigger type")

	other := s.repository(s.app("zoo"))
	alone, _, _ := strings.Cut(functionsSpec("python-env", "animals names.main"), "---\napiVersion: fission.io/v1\nkind: HTTPTrigger")
	other.write("specs/functions.yaml", alone, "specs/app.yaml", appSpec("zoo"), "site/index.html", "page", "animals/names.py", names)
	s.pushed(other, "zoo", "The same function")
	const event = `{"specversion":"1.0","id":"7","source":"/me","type":"greet"}`
	mine := s.post(s.URL+"/functions/default/names:latest", oneEvent, event)
	shared := s.post(s.URL+"/functions/default/animals:latest", oneEvent, event)
	answer := func(p page) string { return decode[struct{ Data string }](t, []byte(p.body)).Data }
	wantEqual(t, "answer by name", answer(mine), "config execution function id source specversion trigger type|1.0 greet")
	// E-046: the same program is shared with another app, and needs no trigger nor anything else there
	wantEqual(t, "answer of the one in another app", answer(shared), answer(mine))
}

// A program that answers one event and ends gives its answer a status and headers as docs/functions.md says.
func TestProgramOfOneEventAnswersAStatus(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/functions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "one event and end, too:\n\n```sh\n")
	program, _, _ := strings.Cut(after, "```\n")
	s := newSite(t)
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("binary-env", "find find.sh"), "specs/app.yaml", appSpec("shop"), "site/index.html", "page", "find/find.sh", program)
	if err := os.Chmod(filepath.Join(r.dir, "find", "find.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.pushed(r, "shop", "A program that ends")
	for range 2 {
		answer := s.get(s.at("shop", "/api/find"))
		wantEqual(t, "status", answer.status, http.StatusNotFound)
		wantEqual(t, "header", answer.header.Get("Cache-Control"), "no-store")
		wantEqual(t, "answer", answer.body, "There is none.")
	}
}
