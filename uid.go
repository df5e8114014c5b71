package landfall

import (
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// UID names one apply: the group version, the release and every version that the apply made. It is 8 characters of
// lower-case base32, the first a letter, so it fits into a host name.
type UID string

// uidBytes is how much of a UUID a UID keeps: 5 bytes are exactly 8 characters of base32.
const uidBytes = 5

// NewUID returns a random UID.
func NewUID() UID { return uidOf(uuid.New()) }

// CommitUID returns the UID of a clean commit in an app's own name space, so the address of a commit is known before it
// is built. n counts the attempts: 0 first, and one more for each UID that was taken.
func CommitUID(space uuid.UUID, commit CommitSHA, n int) UID {
	name := string(commit)
	if n > 0 {
		name = fmt.Sprintf("%s/%d", commit, n)
	}
	return uidOf(uuid.NewSHA1(space, []byte(name)))
}

func uidOf(id uuid.UUID) UID {
	head := [uidBytes]byte(id[:uidBytes])
	// The first character stands for the top five bits, of which 26 to 31 are digits in base32: fold them onto letters.
	if top := head[0] >> 3; top >= 26 {
		head[0] = head[0]&7 | (top-26)<<3
	}
	return UID(strings.ToLower(base32.StdEncoding.EncodeToString(head[:])))
}

// IsUID reports whether s has the form of a UID.
func IsUID(s string) bool {
	if len(s) != base32.StdEncoding.EncodedLen(uidBytes) || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}
