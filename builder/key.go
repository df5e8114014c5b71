package builder

import (
	"crypto/ed25519"
	"crypto/rand"
	_ "embed" // the keys of GitHub's hosts
	"encoding/pem"
	"errors"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
)

// PublicKey is the half of a deploy key that the host of a repository gets.
type PublicKey struct {
	Line        string // as it is pasted: TYPE BASE64 COMMENT
	Fingerprint string // as ssh-keygen and forges show it: SHA256:…
}

// NewKey makes a deploy key. The comment says to people what it is for.
func NewKey(comment string) (private secret.Text, err error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", &landfall.Error{Op: "builder.NewKey", Err: err}
	}
	block, err := ssh.MarshalPrivateKey(key, comment)
	if err != nil {
		return "", &landfall.Error{Op: "builder.NewKey", Err: err}
	}
	return secret.Text(pem.EncodeToMemory(block)), nil
}

// PublicKeyOf returns the public half of a deploy key. Invalid, without showing the key, when it cannot be used.
func PublicKeyOf(private secret.Text, comment string) (PublicKey, error) {
	signer, err := signerOf(private)
	if err != nil {
		return PublicKey{}, err
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	return PublicKey{Line: line + " " + comment, Fingerprint: ssh.FingerprintSHA256(signer.PublicKey())}, nil
}

func signerOf(private secret.Text) (ssh.Signer, error) {
	const op landfall.Op = "builder.key"
	signer, err := ssh.ParsePrivateKey([]byte(private.Reveal()))
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		return nil, landfall.Errorf(op, landfall.Invalid,
			"the private key has a passphrase, which nobody could type for this server: give one without "+
				"(ssh-keygen -t ed25519 -N '' -f FILE)")
	}
	if err != nil { // the cause may show a part of the key
		return nil, landfall.Errorf(op, landfall.Invalid, "this is not a private key as ssh-keygen makes it: right would be "+
			"a file that begins with -----BEGIN OPENSSH PRIVATE KEY-----")
	}
	return signer, nil
}

// gitHubKeys are the keys of GitHub's hosts, as it publishes them at
// https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/githubs-ssh-key-fingerprints and in
// "ssh_keys" of https://api.github.com/meta.
//
//go:embed github_hostkeys
var gitHubKeys string

// publishedKeys returns the keys of a host that are built in; none for most.
func publishedKeys(host string) []string {
	if slices.Contains([]string{"github.com", "ssh.github.com"}, host) {
		return strings.Split(strings.TrimSpace(gitHubKeys), "\n")
	}
	return nil
}

// maxHostKeys is how many keys a host may have here.
const maxHostKeys = 16

// CheckHostKeys returns the keys of a host in one form: TYPE BASE64. Each is given in that form, with or without a
// comment, or as a line of known_hosts, which ssh-keyscan prints. Invalid when one cannot be read.
func CheckHostKeys(given []string) (keys []string, err error) {
	const op landfall.Op = "builder.CheckHostKeys"
	for _, text := range given {
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			key, err := readHostKey(line)
			if err != nil {
				return nil, landfall.Errorf(op, landfall.Invalid, "%.200q is not the key of a host: right would be a line such as "+
					"ssh-ed25519 AAAAC3Nz…, or a line that ssh-keyscan HOST prints", line)
			}
			keys = append(keys, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))))
		}
	}
	if len(keys) > maxHostKeys {
		return nil, landfall.Errorf(op, landfall.Invalid, "a host may have %d keys, and not %d", maxHostKeys, len(keys))
	}
	return keys, nil
}

// readHostKey reads a line of known_hosts, with or without the name of the host. One that is revoked, or of an
// authority, is none.
func readHostKey(line string) (ssh.PublicKey, error) {
	fields := strings.Fields(line)
	if len(fields) > 1 && !strings.HasPrefix(line, "@") {
		for _, rest := range []string{line, strings.Join(fields[1:], " ")} {
			if key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(rest)); err == nil && len(options) == 0 {
				return key, nil
			}
		}
	}
	return nil, errors.New("no key")
}

// HostFingerprints returns the type and the fingerprint of each key that the host of an address for ssh may have: of
// those that were given or, without any, of those that are built in.
func HostFingerprints(address string, given []string) (all []string) {
	if a, err := parseSSH(address); err == nil && len(given) == 0 {
		given = publishedKeys(a.host)
	}
	for _, line := range given {
		if key, err := readHostKey(line); err == nil {
			all = append(all, key.Type()+" "+ssh.FingerprintSHA256(key))
		}
	}
	return all
}
