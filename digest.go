package landfall

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
)

// Digest is a SHA-256 in the form "sha256:" and 64 lower-case hexadecimal digits.
type Digest string

const digestPrefix = "sha256:"

// DigestOf returns the digest of data.
func DigestOf(data []byte) Digest {
	sum := sha256.Sum256(data)
	return DigestFromSum(sum[:])
}

// DigestFromSum returns the digest whose 32 raw bytes are sum.
func DigestFromSum(sum []byte) Digest { return Digest(digestPrefix + hex.EncodeToString(sum)) }

// ParseDigest returns s as a Digest, or an Invalid error.
func ParseDigest(s string) (Digest, error) {
	digits, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(digits) != hex.EncodedLen(sha256.Size) || !isHex(digits) {
		return "", &Error{Kind: Invalid, Message: "a digest is sha256: and 64 hexadecimal digits"}
	}
	return Digest(s), nil
}

// Hex returns the digits without the "sha256:".
func (d Digest) Hex() string { return strings.TrimPrefix(string(d), digestPrefix) }

// isHex reports whether s consists of lower-case hexadecimal digits only.
func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// DigestOfReader returns the digest of all bytes of a reader.
func DigestOfReader(r io.Reader) (Digest, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, r); err != nil {
		return "", err
	}
	return DigestFromSum(hash.Sum(nil)), nil
}
