package client

import "time"

// DeployKey is the key by which an app's repository is read by ssh. Its private half is never shown.
type DeployKey struct {
	PublicKey   string    `json:"public_key,omitempty" doc:"to be added to the repository at the forge, to read only; empty: there is no key"`
	Fingerprint string    `json:"fingerprint,omitempty"`
	Set         time.Time `json:"set,omitzero" doc:"when the key was made or stored"`
	Page        string    `json:"page,omitempty" doc:"where the forge takes the public key; empty: not known"`
	HostKeys    []string  `json:"host_keys" doc:"type and fingerprint of each key that the host may have"`
}

// NewDeployKey is an app's deploy key from now on.
type NewDeployKey struct {
	PrivateKey string `json:"private_key,omitempty" doc:"as ssh-keygen makes it, without a passphrase; empty: a new key is made"`
}

// HostKeys are the keys that the host of an app's repository may have from now on.
type HostKeys struct {
	HostKeys []string `json:"host_keys" doc:"lines as ssh-keyscan prints them; none: those that are built in"`
}
