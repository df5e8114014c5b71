package cli_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/test/testkit"
)

// What makes a version shows that one, also when somebody else has made another one since.
func TestMadeVersionIsShown(t *testing.T) {
	t.Parallel()
	run := client.Run{ID: "run1", UID: "owf2k7qa", State: landfall.RunQueued}
	answers := http.NewServeMux()
	answer := func(pattern string, status int, value any) {
		answers.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(value)
		})
	}
	const versions = "/api/v1/functions/hello/versions"
	answer("POST /api/v1/uploads", http.StatusCreated, client.Upload{ID: "upload1", Size: 2})
	answer("PATCH /api/v1/uploads/upload1", http.StatusOK, client.Upload{ID: "upload1", Size: 2, Offset: 2})
	answer("POST "+versions, http.StatusAccepted, client.MadeVersion{Run: &run})
	run.State = landfall.RunSucceeded
	answer("GET /api/v1/runs/run1", http.StatusOK, run)
	answers.HandleFunc("GET /api/v1/runs/run1/log", func(http.ResponseWriter, *http.Request) {})
	for selector, name := range map[string]string{"owf2k7qa": "hello-owf2k7qa", "latest": "hello-another2"} {
		answer("GET "+versions+"/"+selector, http.StatusOK, client.Version{Metadata: client.Metadata{Name: name}})
	}
	server := httptest.NewServer(answers)
	defer server.Close()
	code := filepath.Join(t.TempDir(), "hello.js")
	if err := os.WriteFile(code, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	c := &cli.Call{Stdout: &stdout, Stderr: &stderr, Getenv: func(name string) string {
		return map[string]string{"LANDFALL_SERVER": server.URL, "LANDFALL_TOKEN": "token"}[name]
	}}
	if code := c.Run(t.Context(), strings.Fields("function version create hello --code "+code)); code != 0 {
		t.Errorf("got the exit code %d and %q", code, &stderr)
	}
	testkit.Contains(t, &stdout, "hello-owf2k7qa")
}
