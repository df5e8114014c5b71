package accept_test

import (
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/webhook"
)

// When a repository is made private, what its branches hold is not for everybody any more; when it is public again, a
// person decides.
func TestPrivatizedRepository(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	in := s.Hooked()
	s.follow("zoo", "zoo")
	const payload = `{"action": "privatized", "repository": {"id": 1, "name": "shop", "owner": {"login": "harbor"},
		"clone_url": "https://github.com/harbor/shop.git"}}`
	for i, want := range []struct {
		action, decision string
		previews         landfall.Previews
	}{
		{"archived", "not one that Landfall acts on", landfall.PreviewsPublic},
		{"privatized", "The repository is private now", landfall.PreviewsSignedIn},
		{"publicized", "not one that Landfall acts on", landfall.PreviewsSignedIn},
	} {
		d := landfall.Delivery{ID: string(rune('a' + i)), Event: "repository"}
		event := testkit.Must(webhook.EventOf(d, []byte(strings.Replace(payload, "privatized", want.action, 1))))(t)
		stored, _, err := in.Accept(t.Context(), event)
		if err != nil {
			t.Fatal(err)
		}
		testkit.Contains(t, said(stored.Decision), want.decision)
		app := testkit.Must(in.DB.App(t.Context(), "hooked"))(t)
		// S35: a preview of what is private now is not for everybody
		testkit.Equal(t, "previews after "+want.action, app.Previews, want.previews)
	}
	testkit.Equal(t, "previews of another repository's app", testkit.Must(in.DB.App(t.Context(), "zoo"))(t).Previews,
		landfall.PreviewsPublic)
}
