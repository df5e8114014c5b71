package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"

	"landfall.dev/landfall"
)

// signatureOf returns the bytes of X-Hub-Signature-256, or what is wrong with it. It ignores X-Hub-Signature, which is
// SHA-1.
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

// verify returns the raw body in the buffer when its signature is good, and the secret of the signature. A hook that
// does not exist, or has no secret, is refused after the same work and in the same words as a wrong signature.
func (h *Handler) verify(ctx context.Context, hook string, buffer *bodyBuffer, signature []byte) (body []byte,
	secret string, err error) {
	value, _ := h.secrets.Load(hook)
	kept, tried := value.(string)
	if tried && isSigned(kept, buffer, signature) {
		return buffer.bytes(), kept, nil
	}
	all, err := h.Store.Secrets(ctx, hook)
	if err != nil && landfall.KindOf(err) != landfall.NotFound {
		return nil, "", storeDown(err)
	}
	all = slices.DeleteFunc(all, func(secret string) bool { return secret == "" })
	if err == nil && len(all) == 0 {
		err = errors.New("the hook has no secret")
	}
	if err != nil {
		all = []string{rand.Text()}
	}
	for _, secret := range all {
		if (!tried || !hmac.Equal([]byte(secret), []byte(kept))) && isSigned(secret, buffer, signature) && err == nil {
			h.secrets.Store(hook, secret) // only for existing hooks, so no stranger can fill the memory
			return buffer.bytes(), secret, nil
		}
	}
	return nil, "", &refusal{
		status: http.StatusUnauthorized, detail: "the signature does not match the webhook's secret", cause: err,
	}
}

// isSigned reports whether a signature is that of the body in the buffer with a secret.
func isSigned(secret string, buffer *bodyBuffer, signature []byte) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	buffer.writeTo(mac)
	return hmac.Equal(mac.Sum(nil), signature)
}
