package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The function on the page for the first day runs as it stands there.
func TestGettingStartedFunction(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/getting-started.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## A function\n")
	section, _, ends := strings.Cut(section, "\n## ")
	files := regexp.MustCompile(`(?s)\$ cat > (\S+) <<'END'\n(.*?)\nEND\n`).FindAllStringSubmatch(section, -1)
	curl := regexp.MustCompile(`\$ curl 'http://hello\.localhost:8080(/\S+)'\n(.*\n)`).FindStringSubmatch(section)
	if !found || !ends || len(files) != 2 || curl == nil {
		t.Fatalf("the page has no such section: %q, %q", files, curl)
	}
	s := newSite(t)
	r := s.repository(s.app("hello"))
	r.write("specs/app.yaml", appSpec("hello"), "site/index.html", "page", files[0][1], files[0][2]+"\n", files[1][1], files[1][2]+"\n")
	s.pushed(r, "hello", "A function")
	wantEqual(t, "what the function says", s.get(s.at("hello", curl[1])).body, curl[2])
	s.landfall("execution", "list", "--app", "hello")
}
