package builder

import (
	"crypto/sha256"
	"encoding/hex"

	"landfall.dev/landfall/secret"
)

// Remote is a repository to read from.
type Remote struct {
	Credential

	Namespace string // apps of one namespace share the mirror of an address; apps of two never do
	URL       string // clone address, see CheckRepository
	// when set, the bare repository at this path is the mirror: URL is only for messages, and nothing is fetched
	Local string
}

// Credential is what a repository asks for before it gives anything. The zero value is none. It is sent only to the
// scheme, host and port of the repository's address, and stands in no message.
type Credential struct {
	Username string      // for Password; empty: x-access-token, which GitHub and GitLab take with tokens
	Password secret.Text // password or token; empty: none is sent
	Key      secret.Text // deploy key for an address for ssh: the private half, as ssh-keygen writes it
	HostKeys string      // lines of CheckHostKeys: that the host for ssh may have; empty: those that are built in
}

// folder returns the name of the mirror's folder. It is different for different namespaces and addresses, and contains
// no text from outside.
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
