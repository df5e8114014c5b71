package builder

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
)

// Secret is a password or a token. It shows itself only to Reveal.
type Secret string

const hidden = "[hidden]"

// Reveal returns the secret.
func (s Secret) Reveal() string { return string(s) }

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// Format hides the secret from every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, s.String()) }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret from logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Remote is a repository to read from.
type Remote struct {
	Namespace string // apps of one namespace share the mirror of an address; those of two never do
	URL       string // clone address; CheckURL says which are taken
	Username  string // for Password; empty: x-access-token, which GitHub and GitLab take for tokens
	Password  Secret // password or token; empty: none is sent. It goes to the scheme, host and port of URL only
	Local     string // when set, the bare repository at this path is the mirror: URL is for messages, nothing is fetched
}

// folder returns the name of the mirror's folder: it tells namespaces and addresses apart, and holds no outside text.
func (r Remote) folder() string {
	sum := sha256.Sum256([]byte(r.Namespace + "\x00" + r.URL))
	return hex.EncodeToString(sum[:16]) + ".git"
}

// name returns the repository for messages.
func (r Remote) name() string {
	if r.Local != "" {
		return "the built-in repository"
	}
	return r.URL
}
