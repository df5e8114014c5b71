package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"landfall.dev/landfall"
)

// signatureOf returns the bytes of X-Hub-Signature-256, or says what is wrong with it. X-Hub-Signature, which is SHA-1, is not
// looked at.
func signatureOf(header http.Header) (signature []byte, wrong string) {
	value := header.Get("X-Hub-Signature-256")
	if value == "" {
		return nil, "there is no X-Hub-Signature-256: give the webhook a secret"
	}
	digits, ok := strings.CutPrefix(value, "sha256=")
	signature, err := hex.DecodeString(digits)
	if !ok || err != nil || len(signature) != sha256.Size {
		return nil, "X-Hub-Signature-256 is malformed: it is sha256= and the 64 hexadecimal digits of the body's HMAC"
	}
	return signature, ""
}

// verify returns the raw body that was read into hold when its signature is good. A hook that does not exist, or has
// no secret, is refused after the same work and in the same words as a wrong signature.
func (h *Handler) verify(ctx context.Context, hook string, hold *hold, signature []byte) ([]byte, error) {
	secret, err := h.Store.Secret(ctx, hook)
	if err != nil && landfall.KindOf(err) != landfall.NotFound {
		return nil, storeDown(err)
	}
	key := make([]byte, sha256.Size)
	rand.Read(key) // never fails
	known := err == nil && secret != ""
	if known {
		key = []byte(secret)
	} else if err == nil {
		err = errors.New("the hook has no secret")
	}
	mac := hmac.New(sha256.New, key)
	hold.writeTo(mac)
	if !hmac.Equal(mac.Sum(nil), signature) || !known {
		return nil, &refusal{
			status: http.StatusUnauthorized, detail: "the signature does not match the webhook's secret", cause: err,
		}
	}
	var body bytes.Buffer
	body.Grow(hold.size())
	hold.writeTo(&body)
	return body.Bytes(), nil
}
