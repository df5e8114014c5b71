package cli_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"landfall.dev/landfall/cli"
)

// Where the App is installed is said when GitHub told it, and a list without a repository says what to do.
func TestGitHubInstalledNowhere(t *testing.T) {
	t.Parallel()
	const app = `{"token":false,"installations":[],"app":{"slug":"landfall","install_url":"https://github.com/install"},`
	for _, c := range []struct{ command, answer, want, not string }{
		{"github show", app + `"problems":[]}`, "nowhere; open https://github.com/install", ""},
		{"github show", app + `"problems":[{"repository":"harbor/shop","problem":"It is suspended."}]}`, "nowhere", ""},
		{"github show", app + `"problems":[{"problem":"GitHub did not answer"}]}`, "GitHub did not answer", "nowhere"},
		{"github repositories", `{"items":[],"found":0,"more":false,"problems":[]}`, "landfall github show", ""},
		{"github repositories --filter x", `{"items":[],"found":0,"more":false,"problems":[]}`, "REPOSITORY", "Note"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, c.answer)
		}))
		var said bytes.Buffer
		call := &cli.Call{Stdout: &said, Stderr: &said, Getenv: func(name string) string {
			return map[string]string{"LANDFALL_SERVER": server.URL, "LANDFALL_TOKEN": "token"}[name]
		}}
		code := call.Run(t.Context(), strings.Fields(c.command))
		server.Close()
		if got := said.String(); code != 0 || !strings.Contains(got, c.want) || c.not != "" && strings.Contains(got, c.not) {
			t.Errorf("%s: got the exit code %d and %q, want %q and no %q", c.command, code, got, c.want, c.not)
		}
	}
}
