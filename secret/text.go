// Package secret keeps the secrets of apps: it seals them at rest, shows them to nobody, and removes them from all text
// that leaves the server.
package secret

import (
	"fmt"
	"log/slog"
)

// Text is a secret, a password or a token. Only Reveal shows it.
type Text string

const hidden = "[hidden]"

// StandIn is the value of each secret of a function that is being tested, because the results of tests are shown.
const StandIn Text = "test"

// Reveal returns the secret.
func (s Text) Reveal() string { return string(s) }

// String hides the secret.
func (s Text) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the secret from %#v.
func (s Text) GoString() string { return s.String() }

// Format hides the secret from every verb.
func (s Text) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

// MarshalText hides the secret from encoders.
func (s Text) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret from logs.
func (s Text) LogValue() slog.Value { return slog.StringValue(s.String()) }
