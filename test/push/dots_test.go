package push_test

import (
	"io"
	"net/http"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A name of dots is a name that is not there, and nothing above it: least of all when it is to be deleted.
func TestNamesOfDots(t *testing.T) {
	t.Parallel()
	s := site.Numbered(t, 2)
	before := s.ShowApp("shop").Live
	for _, args := range [][]string{
		{"function", "alias", "delete", "hello", ".."}, {"secret", "delete", "shop", ".."},
		{"release", "untag", "shop", ".."}, {"release", "expire", "shop", ".."}, {"execution", "delete", ".."},
		{"app", "delete", ".", "--force"}, {"app", "show", ".."},
	} {
		out, code := s.Run(t.TempDir(), args...)
		testkit.Equal(t, "exit code of "+args[0]+" "+args[1], code, 3)
		testkit.Contains(t, site.Told{out}, "nothing has the name")
	}
	// The last two turn the text around, and are seen by nobody.
	for _, alias := range []string{".", "..", "a\u202eb", "a\u200bb"} {
		if out, code := s.Run(t.TempDir(), "function", "alias", "create", "hello", alias, "1"); code != 2 {
			t.Errorf("the alias %q: got %d %s", alias, code, out)
		}
	}
	// A client that sends it all the same, with a query that another operation takes for a yes, is sent on nowhere: there is
	// no such name, or no such query.
	for _, path := range []string{"/tags/..", "/secrets/..", "/releases/.", "/tags/../", "/../shop", "//"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, s.URL+"/api/v1/apps/shop"+path+"?force=true",
			http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+s.Token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusNotFound && answer.StatusCode != http.StatusBadRequest {
			t.Errorf("status of %s: got %d", path, answer.StatusCode)
		}
	}
	testkit.Equal(t, "what is live", s.ShowApp("shop").Live, before)
	site.WantRefused(t, s.Refused(http.MethodDelete, "/apps/shop/tags/none", nil), landfall.NotFound, "none")
}
