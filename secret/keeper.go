package secret

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"

	"landfall.dev/landfall"
)

// Keeper seals secrets, and opens them. It is safe for concurrent use.
type Keeper struct {
	identities []age.Identity
	recipient  age.Recipient // of the first identity
	marks      [][]byte      // keys for fingerprints, one for each identity
}

// Format hides the key from every verb.
func (*Keeper) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, hidden) }

// NewKey returns a key for ParseKey.
func NewKey() (Text, error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return "", &landfall.Error{Op: "secret.NewKey", Err: err}
	}
	return Text(identity.String()), nil
}

// ParseKey returns the keeper with a key: identities of age, one on each line. The first one seals, all of them open.
// Invalid, without showing the key, when it is malformed.
func ParseKey(key Text) (*Keeper, error) {
	const op landfall.Op = "secret.ParseKey"
	wrong := landfall.Errorf(op, landfall.Invalid,
		"the key is not one of age; right would be lines that begin with AGE-SECRET-KEY-1, as age-keygen makes them")
	var lines []string
	for line := range strings.Lines(key.Reveal()) {
		lines = append(lines, strings.TrimSpace(line))
	}
	identities, err := age.ParseIdentities(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		return nil, wrong // the cause may show a part of the key
	}
	k := &Keeper{identities: identities}
	for i, identity := range identities {
		var private string
		var recipient age.Recipient
		switch identity := identity.(type) {
		case *age.X25519Identity:
			private, recipient = identity.String(), identity.Recipient()
		case *age.HybridIdentity:
			private, recipient = identity.String(), identity.Recipient()
		default:
			return nil, wrong
		}
		if i == 0 {
			k.recipient = recipient
		}
		mark, err := hkdf.Key(sha256.New, []byte(private), nil, "landfall: fingerprints of secrets", sha256.Size)
		if err != nil {
			return nil, &landfall.Error{Op: op, Err: err}
		}
		k.marks = append(k.marks, mark)
	}
	return k, nil
}

// Owner says to which app and name a sealed value belongs. It cannot be opened for another owner.
type Owner struct {
	App  string // its id
	Name string
}

// envelope is what is encrypted.
type envelope struct {
	App   string `json:"app"`
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Seal encrypts a value.
func (k *Keeper) Seal(owner Owner, value Text) ([]byte, error) {
	var out bytes.Buffer
	w, err := age.Encrypt(&out, k.recipient)
	if err == nil {
		err = json.NewEncoder(w).Encode(envelope{owner.App, owner.Name, value.Reveal()})
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, &landfall.Error{Op: "secret.Seal", Err: err}
	}
	return out.Bytes(), nil
}

// Open returns a sealed value. Conflict when it was sealed with a key that the keeper does not have, is damaged, or
// belongs to another owner.
func (k *Keeper) Open(owner Owner, data []byte) (Text, error) {
	closed := &landfall.Error{Op: "secret.Open", Kind: landfall.Conflict, Message: "the secret " + owner.Name +
		" cannot be opened: it was sealed under another key than this server has, or is damaged"}
	r, err := age.Decrypt(bytes.NewReader(data), k.identities...)
	if err != nil {
		closed.Err = err
		return "", closed
	}
	const most = 8 * MaxValue // as JSON
	text, err := io.ReadAll(io.LimitReader(r, most))
	var s envelope
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil || s.App != owner.App || s.Name != owner.Name {
		return "", closed // the cause may show a part of the value
	}
	return Text(s.Value), nil
}

// Fingerprint distinguishes values. It needs the keeper's first key, so nobody else can test values.
func (k *Keeper) Fingerprint(owner Owner, value Text) []byte {
	return fingerprint(k.marks[0], owner, value)
}

// Fingerprints returns the fingerprints with all keys of the keeper.
func (k *Keeper) Fingerprints(owner Owner, value Text) [][]byte {
	all := make([][]byte, 0, len(k.marks))
	for _, mark := range k.marks {
		all = append(all, fingerprint(mark, owner, value))
	}
	return all
}

func fingerprint(key []byte, owner Owner, value Text) []byte {
	mac := hmac.New(sha256.New, key)
	var length [8]byte
	for _, part := range []string{owner.App, owner.Name, value.Reveal()} {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		mac.Write(length[:])
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}
