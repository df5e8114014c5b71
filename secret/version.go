package secret

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"landfall.dev/landfall"
)

// These bound what is kept.
const (
	MaxValue = 64 << 10 // bytes of a value
	MaxCount = 200      // secrets of an app
)

// name matches names that both a variable of the environment and an object of Fission can have.
var name = regexp.MustCompile(`^[A-Za-z_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)

const maxName = 128

// CheckName returns an Invalid error unless a secret can have the name.
func CheckName(s string) error {
	if len(s) <= maxName && name.MatchString(s) && !strings.HasPrefix(strings.ToUpper(Variable(s)), "LANDFALL_") {
		return nil
	}
	return landfall.Errorf("secret.CheckName", landfall.Invalid,
		"%.200q cannot be the name of a secret: "+
			"at most %d letters, digits and _, with - and . between them, not beginning with a digit or LANDFALL_; for "+
			"example STRIPE_KEY", s, maxName)
}

// Variable returns the name of the environment variable in which functions find a secret.
func Variable(name string) string { return strings.NewReplacer("-", "_", ".", "_").Replace(name) }

// CheckValue returns an Invalid error unless a secret can have the value. The error does not show it.
func CheckValue(value Text) error {
	var why string
	switch {
	case value == "":
		why = "it is empty"
	case len(value) > MaxValue:
		why = fmt.Sprintf("it has %d bytes, and may have %d", len(value), MaxValue)
	case strings.ContainsRune(value.Reveal(), 0):
		why = "it has a zero byte, which no environment variable can have; encode it, for example as base64"
	case !utf8.ValidString(value.Reveal()):
		why = "it is no UTF-8 text; encode it, for example as base64"
	default:
		return nil
	}
	return &landfall.Error{Op: "secret.CheckValue", Kind: landfall.Invalid, Message: "the value cannot be kept: " + why}
}

// Content is what a version of a secret keeps beside its spec.
type Content struct {
	Sealed    []byte    `json:"sealed,omitempty"` // empty after it was revoked
	Actor     string    `json:"actor"`            // who set it
	Revoked   time.Time `json:"revoked,omitzero"`
	RevokedBy string    `json:"revoked_by,omitempty"`
}

// ReadContent reads what a version of a secret keeps.
func ReadContent(stored json.RawMessage) (c Content, err error) {
	if err := json.Unmarshal(stored, &c); err != nil {
		return c, landfall.Wrapf("secret.ReadContent", landfall.Invalid, err, "what is stored of the secret cannot be read")
	}
	return c, nil
}

// JSON returns the content as it is stored.
func (c Content) JSON() (json.RawMessage, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, &landfall.Error{Op: "secret.Content", Err: err}
	}
	return data, nil
}

// Spec is the public part of a version of a secret.
type Spec struct {
	Build   bool `json:"build,omitempty"`   // build commands get it, and no function does
	Preview bool `json:"preview,omitempty"` // every branch except production uses it
}

// Specs returns all possible specs.
func Specs() []Spec { return []Spec{{}, {Preview: true}, {Build: true}, {Build: true, Preview: true}} }

// JSON returns the spec as it is stored. Versions are found by this text.
func (s Spec) JSON() json.RawMessage {
	switch s {
	case Spec{Build: true, Preview: true}:
		return json.RawMessage(`{"build":true,"preview":true}`)
	case Spec{Build: true}:
		return json.RawMessage(`{"build":true}`)
	case Spec{Preview: true}:
		return json.RawMessage(`{"preview":true}`)
	}
	return json.RawMessage(`{}`)
}

// ReadSpec reads the spec of a version.
func ReadSpec(stored json.RawMessage) Spec {
	for _, s := range Specs() {
		if string(stored) == string(s.JSON()) {
			return s
		}
	}
	return Spec{}
}
