package function_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A function is a program that takes an event: it answers the same whoever calls it, in whichever app it lies, with
// triggers and without.
func TestNativeEvents(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	const names = "def main(event):\n    return ' '.join(sorted(event)) + '|' + event['specversion'] + ' ' + " +
		"event['type']\n"
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "names names.main"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", "page", "names/names.py", names)
	s.Pushed(r, "shop", "A function")
	visited := s.Get(s.At("shop", "/api/names"))
	testkit.Equal(t, "status", visited.Status, http.StatusOK)
	got, kind, _ := strings.Cut(visited.Body, "|")
	// P-011: the runner gives the function an event of CloudEvents, though the visitor knows nothing of events
	testkit.Equal(t, "what the function was given", kind, "1.0 dev.landfall.http.request")
	// E-007: what an event says has the names that CloudEvents gives it; the others are named as extensions are
	testkit.Equal(t, "names of attributes", got,
		"config eventtypeversion execution function id protocol source specversion time trigger type")

	other := s.Repository(s.App("zoo"))
	alone, _, _ := strings.Cut(site.FunctionsSpec("python-env", "animals names.main"),
		"---\napiVersion: fission.io/v1\nkind: HTTPTrigger")
	other.Write("specs/functions.yaml", alone, "specs/app.yaml", site.AppSpec("zoo"), "site/index.html", "page",
		"animals/names.py", names)
	s.Pushed(other, "zoo", "The same function")
	const event = `{"specversion":"1.0","id":"7","source":"/me","type":"greet"}`
	mine := s.Post(s.URL+"/functions/default/names:latest", site.OneEvent, event)
	shared := s.Post(s.URL+"/functions/default/animals:latest", site.OneEvent, event)
	answer := func(p site.Page) string { return testkit.Decode[struct{ Data string }](t, []byte(p.Body)).Data }
	testkit.Equal(t, "answer by name", answer(mine),
		"config execution function id source specversion trigger type|1.0 greet")
	// E-046: the same program is shared with another app, and needs no trigger nor anything else there
	testkit.Equal(t, "answer of the one in another app", answer(shared), answer(mine))
}

// A program that answers one event and ends gives its answer a status and headers as docs/functions.md says.
func TestProgramOfOneEventAnswersAStatus(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/functions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "event and end, too:\n\n```sh\n")
	if !found {
		t.Fatal("docs/functions.md has no program that ends any more")
	}
	program, _, _ := strings.Cut(after, "```\n")
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("binary-env", "find find.sh"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", "page", "find/find.sh", program)
	if err := os.Chmod(filepath.Join(r.Dir, "find", "find.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.Pushed(r, "shop", "A program that ends")
	for range 2 {
		answer := s.Get(s.At("shop", "/api/find"))
		testkit.Equal(t, "status", answer.Status, http.StatusNotFound)
		testkit.Equal(t, "header", answer.Header.Get("Cache-Control"), "no-store")
		testkit.Equal(t, "answer", answer.Body, "There is none.")
	}
}
