package store

import (
	"context"
	"encoding/json"
	"time"
)

// Credentials are how an app's repository is reached.
type Credentials struct {
	Username string    `json:"username,omitempty"`
	Password string    `json:"password,omitempty"` // as earlier versions of Landfall stored it: not sealed
	Token    []byte    `json:"token,omitempty"`    // password or token, sealed
	TokenSet time.Time `json:"token_set,omitzero"` // when it was stored
	App      bool      `json:"app,omitempty"`      // without a token: as the GitHub App that is connected

	Key         []byte    `json:"key,omitempty"`         // private half of the deploy key for ssh, sealed
	PublicKey   string    `json:"public_key,omitempty"`  // as it is pasted at the forge
	Fingerprint string    `json:"fingerprint,omitempty"` // of the public half
	KeySet      time.Time `json:"key_set,omitzero"`      // when it was stored
	HostKeys    []string  `json:"host_keys,omitempty"`   // that the host for ssh may have; none: those that are built in
}

// SetCredentials stores how an app's repository is reached.
func (tx *Tx) SetCredentials(ctx context.Context, app string, c Credentials) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return tx.exec(ctx, "store.SetCredentials", `UPDATE apps SET credentials = $2 WHERE id = $1`, app, string(data))
}

// Credentials returns how an app's repository is reached; the zero value when it needs none.
func (q queries) Credentials(ctx context.Context, app string) (Credentials, error) {
	return one(ctx, q, "store.Credentials", func(row scanner) (Credentials, error) {
		var c Credentials
		var data string
		err := row.Scan(&data)
		if err == nil && data != "" {
			err = json.Unmarshal([]byte(data), &c)
		}
		return c, err
	}, `SELECT credentials FROM apps WHERE id = $1`, app)
}

// OpenCredentials returns the ids of the apps whose password is stored as it is.
func (q queries) OpenCredentials(ctx context.Context) ([]string, error) {
	return list(ctx, q, "store.OpenCredentials", scanValue[string],
		`SELECT id FROM apps WHERE credentials LIKE '%"password":%'`)
}
