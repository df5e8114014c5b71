package cli_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"landfall.dev/landfall/cli"
)

// A server that breaks off in what changes something leaves open whether it was done, and that is what a person reads:
// a rollback that is typed twice goes back twice.
func TestServerThatBreaksOff(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	}))
	defer server.Close()
	for command, want := range map[string]string{
		"release rollback shop": "broke off; what you asked for may be done, or be done yet: look before you ask again",
		"namespace create team": "broke off; what you asked for may be done, or be done yet: look before you ask again",
		"app show shop":         "cannot be reached",
	} {
		var stdout, stderr bytes.Buffer
		c := &cli.Call{Stdout: &stdout, Stderr: &stderr, Getenv: func(name string) string {
			return map[string]string{"LANDFALL_SERVER": server.URL, "LANDFALL_TOKEN": "token"}[name]
		}}
		const unavailable = 6
		if code := c.Run(t.Context(), strings.Fields(command)); code != unavailable || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: got the exit code %d and %q, want %d and %q", command, code, &stderr, unavailable, want)
		}
	}
}
