package site

import (
	"html"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/testkit"
)

// Attempt pushes what an app cannot release, looks at what the person is told, and returns the run.
func (s *Site) Attempt(r *Repository, app string, parts ...string) client.Run {
	s.T.Helper()
	r.Commit("Cannot be released")
	WantFailed(s.T, s, app, r, r.Push("HEAD"), parts...)
	return s.Finished(app, r.Head())
}

// atOnce is how many servers are tried at a time: much of a try is waiting.
const atOnce = 2

// Each runs a test for every name, some at a time whatever -parallel says.
func Each(t *testing.T, names []string, test func(t *testing.T, name string)) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, name := range names {
		group.Go(func() error {
			t.Run(name, func(t *testing.T) { test(t, name) })
			return nil
		})
	}
	_ = group.Wait()
}

// WantFiles fails the test unless a row of a table begins with the words and ends with the counts.
func WantFiles(t testing.TB, out, begins, counts string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if row := strings.Join(strings.Fields(line), " "); strings.HasPrefix(row, begins) && strings.HasSuffix(row, counts) {
			return
		}
	}
	t.Errorf("got no row %q … %q in:\n%s", begins, counts, out)
}

// Added returns what is in after and not in before.
func Added(before, after []string) []string {
	fresh := []string{}
	for _, key := range after {
		if !slices.Contains(before, key) {
			fresh = append(fresh, key)
		}
	}
	return fresh
}

// WantLine fails the test unless a line is exactly want.
func WantLine(t testing.TB, o Told, want string) {
	t.Helper()
	if !slices.Contains(o, want) {
		t.Errorf("got no line %q in:\n%s", want, o)
	}
}

// WantRefused fails the test unless a refusal has the kind and says every part.
func WantRefused(t testing.TB, err *landfall.Error, kind landfall.Kind, parts ...string) {
	t.Helper()
	if err.Kind != kind {
		t.Errorf("got a refusal of kind %s (%s), want %s", err.Kind, err.Message, kind)
	}
	for _, part := range parts {
		if !strings.Contains(err.Message, part) {
			t.Errorf("got %q, which does not say %q", err.Message, part)
		}
	}
}

// WantServed fails the test unless the host answers the path with exactly this body.
func WantServed(t testing.TB, s *Site, host, path, want string) {
	t.Helper()
	p := s.In(t).Get(s.At(host, path))
	if p.Status != http.StatusOK || p.Body != want {
		t.Errorf("%s%s: got %d %.300q, want 200 %.300q", host, path, p.Status, p.Body, want)
	}
}

// WantStatus fails the test unless the host answers / with the status and a page that says every part.
func WantStatus(t testing.TB, s *Site, host string, status int, parts ...string) {
	t.Helper()
	p := s.In(t).Get(s.At(host, "/"))
	if p.Status != status {
		t.Errorf("%s: got %d %.300q, want %d", host, p.Status, p.Body, status)
	}
	for _, part := range parts {
		if !strings.Contains(html.UnescapeString(p.Body), part) {
			t.Errorf("%s: got the page %q, which does not say %q", host, p.Body, part)
		}
	}
}

// WantFailed fails the test unless the push was kept, its run ended as failed, and its output says every part.
func WantFailed(t testing.TB, s *Site, app string, r *Repository, o Told, parts ...string) {
	t.Helper()
	run := s.In(t).Finished(app, r.Head())
	if run.State != landfall.RunFailed || run.Release != "" {
		t.Errorf("got the state %s and the release %q, want %s and none: %s", run.State, run.Release, landfall.RunFailed,
			run.Reason)
	}
	testkit.Contains(t, o, append(parts, "made no release")...)
}

// Attempts fails the test unless a run was tried so often.
func Attempts(t testing.TB, run client.Run, want int64) {
	t.Helper()
	var last int64
	for _, step := range run.Steps {
		last = max(last, step.Attempt)
	}
	testkit.Equal(t, "attempts", last, want)
}
