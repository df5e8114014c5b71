package api_test

import (
	"net/http"
	"testing"

	"landfall.dev/landfall"
)

// Who names a repository in a way that is none reads in which ways it can be named.
func repositoryNames(t *testing.T, w *world) {
	t.Helper()
	for _, repository := range []string{"mono", "harbor/", "harbor/mono/tree", "github.com/harbor/mono", "./mono"} {
		a := w.ask(tokenOf(landfall.ScopeAdmin, ""), http.MethodPost, "/api/v1/apps",
			`{"name":"mono","repository":"`+repository+`"}`)
		wantProblem(t, a, http.StatusBadRequest, "invalid", "write it as OWNER/NAME")
	}
}
