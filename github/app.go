package github

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"time"

	"landfall.dev/landfall"
)

// App is a GitHub App with which we speak to GitHub.
type App struct {
	ID   int64
	Slug string // its name in addresses
	Key  *rsa.PrivateKey

	// Changed is when GitHub last told that an installation changed: tokens that were issued earlier are not used.
	Changed time.Time
}

// Login is the user in whose name an App writes.
func (a App) Login() string { return a.Slug + "[bot]" }

// ParseKey returns the private key that GitHub gave as a PEM block. Its error is Invalid, and shows nothing of the key.
func ParseKey(text string) (*rsa.PrivateKey, error) {
	wrong := landfall.Errorf("github.ParseKey", landfall.Invalid,
		"the private key of the GitHub App is no RSA key in PEM; right would be what GitHub generates for an App")
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, wrong
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	any8, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := any8.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, wrong // the cause may show a part of the key
	}
	return key, nil
}

// sign returns the JSON web token with which the App asks about itself. It is valid for some minutes, and a minute ago
// already, because clocks differ. See
// https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app.
func (a App) sign(now time.Time) (Token, error) {
	encode := base64.RawURLEncoding.EncodeToString
	unsigned := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(fmt.Appendf(nil,
		`{"iat":%d,"exp":%d,"iss":"%d"}`, now.Add(-time.Minute).Unix(), now.Add(5*time.Minute).Unix(), a.ID))
	sum := sha256.Sum256([]byte(unsigned))
	signature, err := rsa.SignPKCS1v15(rand.Reader, a.Key, crypto.SHA256, sum[:])
	return Token(unsigned + "." + encode(signature)), err
}
