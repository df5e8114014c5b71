package push_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
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
	s := site.New(t)
	r := s.Repository(s.App("hello"))
	r.Write("specs/app.yaml", site.AppSpec("hello"), "site/index.html", "page", files[0][1], files[0][2]+"\n", files[1][1],
		files[1][2]+"\n")
	s.Pushed(r, "hello", "A function")
	testkit.Equal(t, "what the function says", s.Get(s.At("hello", curl[1])).Body, curl[2])
	s.Landfall("execution", "list", "--app", "hello")
}
