package secret_test

import (
	"maps"
	"testing"

	"landfall.dev/landfall/secret"
)

// A value is found by the keys of its JSON object, else as a whole; each part of it is taken out of text.
func TestKeys(t *testing.T) {
	t.Parallel()
	for value, want := range map[secret.Text]map[string]secret.Text{
		"plain":              {"value": "plain"},
		`["a"]`:              {"value": `["a"]`},
		"null":               {"value": "null"},
		`{"id": "a", "n":7}`: {"id": "a", "n": "7"},
		`{"..": "a", "a/b": "c", "": "d", "tls.crt": {"x": true}}`: {"tls.crt": `{"x": true}`},
		"{}": {},
	} {
		if got := secret.Keys(value); !maps.Equal(got, want) {
			t.Errorf("%s: got %d keys, want %d", value.Reveal(), len(got), len(want))
		}
	}
	r := secret.NewRedactor(map[string]secret.Text{"aws": `{"id": "AKIA0123456789", "short": "eu"}`})
	if got, want := r.String("id AKIA0123456789 in eu"), "id [secret aws] in eu"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
