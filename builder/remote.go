package builder

import (
	"crypto/sha256"
	"encoding/hex"

	"landfall.dev/landfall/secret"
)

// Remote is a repository to read from.
type Remote struct {
	Namespace string      // apps of one namespace share the mirror of an address; those of two never do
	URL       string      // clone address; CheckURL says which are taken
	Username  string      // for Password; empty: x-access-token, which GitHub and GitLab take for tokens
	Password  secret.Text // password or token; empty: none is sent. It goes to the scheme, host and port of URL only
	Local     string      // when set, the bare repository at this path is the mirror: URL is for messages, nothing is fetched
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
