package function_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// saying is the text of a function that answers with a word.
func saying(word string) map[string]any {
	return map[string]any{"literal": []byte("module.exports = async () => ({status: 200, body: '" + word + "'});\n"),
		"name": "hello.js"}
}

// The REST API of the document on function versioning, in its order: a version is a number that never comes again and
// code that never changes.
func TestVersionsByREST(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	const versions = "/functions/hello/versions"
	create := func(body map[string]any) client.Version {
		t.Helper()
		var made client.MadeVersion
		s.Call(http.MethodPost, versions, body, &made)
		if made.Version == nil {
			s.Final(made.Run.ID)
			var newest client.Version
			s.Call(http.MethodGet, versions+"/latest", nil, &newest)
			return newest
		}
		return *made.Version
	}
	answers := func(number string) string {
		t.Helper()
		return strings.TrimSpace(s.Landfall("function", "invoke", "hello"+number))
	}
	first := create(map[string]any{"environment": "nodejs", "code": saying("one"), "description": "The first"})
	// C-002, C-015, C-016, C-021: the answer has the function, the number from 1, the description and the time
	if first.Number != 1 || first.UID == "" || first.Description != "The first" || first.Created.IsZero() ||
		!strings.HasPrefix(first.Metadata.Name, "hello") {
		t.Fatalf("got %+v, want the first version with its number, description and time", first)
	}
	second := create(map[string]any{"code": map[string]any{"name": "hello.js", "literal": []byte(
		"module.exports = () => new Promise((done) => setTimeout(done, 2100, {status: 200, body: 'two'}));\n")},
		"description": "The second, which is slow"})
	// C-003
	testkit.Equal(t, "the next number", second.Number, 2)
	// C-007, C-010: who calls the function by its name gets the new code, and who calls the version gets its own
	testkit.Equal(t, "hello", answers(""), "two")
	// C-001, C-005, C-006, C-009: the code of a version stays what it was
	testkit.Equal(t, "hello:1", answers(":1"), "one")
	third := create(map[string]any{"description": "The same code once more"})
	testkit.Equal(t, "the number of the same code", third.Number, 3)
	// C-012: unchanged code is stored once
	testkit.Equal(t, "what it runs", third.Digest, second.Digest)

	var shown client.Version
	s.Call(http.MethodPut, versions+"/1", map[string]any{"description": "Very first"}, &shown)
	// C-017
	testkit.Equal(t, "the new description", shown.Description, "Very first")
	for _, path := range []string{versions, versions + "/"} {
		// C-011, C-019: with and without the document's slash
		list := site.List[client.Version](s, path)
		if len(list) != 3 || list[0].Number != 1 || list[2].Number != 3 {
			t.Errorf("%s: got %d versions, want 1, 2 and 3", path, len(list))
		}
	}
	for _, path := range []string{"/1", "/1/", "/" + string(first.UID)} {
		s.Call(http.MethodGet, versions+path, nil, &shown)
		// C-020
		testkit.Equal(t, path, shown.Number, 1)
	}
	s.Call(http.MethodGet, versions+"/0", nil, &shown)
	testkit.Equal(t, "0 is the latest", shown.Number, 3)
	archive := s.ReadAs("http://localhost:" + s.Port + "/api/v1" + versions + "/1?download=true")
	testkit.Equal(t, "download", archive.Status, http.StatusOK)
	testkit.Equal(t, "its type", archive.Header.Get("Content-Type"), "application/zip")
	latest := s.ReadAs("http://localhost:" + s.Port + "/api/v1/functions/hello?download=true")
	// C-031: the function's own package is that of the latest version
	testkit.Equal(t, "download of the function", latest.Status, http.StatusOK)
	if latest.Body == archive.Body || !strings.Contains(latest.Header.Get("Content-Disposition"), "hello") {
		t.Errorf("the download of the function is not its latest version's package: %v", latest.Header)
	}

	var execution landfall.Execution
	s.Call(http.MethodPost, "/executions", map[string]any{"function": "hello", "function_version": 1,
		"input": json.RawMessage(`{}`)}, &execution)
	testkit.Equal(t, "version of the execution", execution.Number, 1)
	s.Call(http.MethodDelete, versions+"/2", nil, nil)
	// C-025: the third runs the same package
	testkit.Equal(t, "hello after the second was deleted", answers(""), "two")
	// C-023: an execution that is over holds nothing from the moment of its answer
	s.Call(http.MethodDelete, versions+"/3", nil, nil)
	fourth := create(map[string]any{"code": saying("four")})
	testkit.Equal(t, "no number comes twice", fourth.Number, 4)
	refused := s.Refused(http.MethodGet, versions+"/2", nil)
	testkit.Equal(t, "a deleted version", refused.Kind, landfall.NotFound)

	// C-032: the command line does the same
	testkit.Contains(t, site.Told{s.Landfall("function", "version", "list", "hello")}, "Very first")
	said := s.Landfall("execution", "create", "hello", "--version", "1", "--data", "{}", "-o", "json")
	testkit.Equal(t, "an execution by the command line", testkit.Decode[landfall.Execution](t, []byte(said)).Number, 1)
	create(map[string]any{"code": map[string]any{"name": "hello.js", "literal": []byte(
		"module.exports = () => new Promise((done) => setTimeout(done, 8000, {status: 200, body: 'slow'}));\n")}})
	s.Call(http.MethodPost, "/executions", map[string]any{"function": "hello", "function_version": 5, "sync": false,
		"input": json.RawMessage(`{}`)}, &execution)
	held := s.Refused(http.MethodDelete, versions+"/5", nil)
	// C-023: a version goes only when no execution of it runs
	testkit.Contains(t, site.Told{held.Message}, "function hello no. 5", "execution")
	testkit.Equal(t, "kind", held.Kind, landfall.Conflict)
	// C-035: what the notes of the document say is tested above, and numbers go on
	testkit.Equal(t, "versions at the end", numbers(s, "/functions/hello"), "1 4 5")
	s.WantWhole()
}
