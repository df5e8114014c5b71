package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/secret"
)

func newKey(t *testing.T) secret.Text {
	t.Helper()
	key, err := secret.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keeper(t *testing.T, keys ...secret.Text) *secret.Keeper {
	t.Helper()
	var lines strings.Builder
	for _, key := range keys {
		lines.WriteString("# a comment\n  " + key.Reveal() + " \n")
	}
	k, err := secret.ParseKey(secret.Text(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The first key seals, all open; nobody else does, and nothing opens for another owner.
func TestSeal(t *testing.T) {
	t.Parallel()
	before, after := newKey(t), newKey(t)
	owner := secret.Owner{App: "1", Name: "KEY"}
	const value = "a value <&> \u2028 of \"some\" sort\n"
	old, err := keeper(t, before).Seal(owner, value)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(old, []byte("value")) {
		t.Error("what is sealed shows its value")
	}
	rotated := keeper(t, after, before)
	if got, err := rotated.Open(owner, old); err != nil || got.Reveal() != value {
		t.Errorf("after a rotation: got %q and the error %v", got.Reveal(), err)
	}
	sealed, err := rotated.Seal(owner, value)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := keeper(t, after).Open(owner, sealed); err != nil || got.Reveal() != value {
		t.Errorf("sealed under the new key: got %q and the error %v", got.Reveal(), err)
	}
	damaged := bytes.Clone(old)
	damaged[len(damaged)-1] ^= 1
	for what, open := range map[string]func() (secret.Text, error){
		"another key":   func() (secret.Text, error) { return keeper(t, before).Open(owner, sealed) },
		"another app":   func() (secret.Text, error) { return rotated.Open(secret.Owner{App: "2", Name: "KEY"}, sealed) },
		"another name":  func() (secret.Text, error) { return rotated.Open(secret.Owner{App: "1", Name: "KEYS"}, sealed) },
		"a damaged one": func() (secret.Text, error) { return rotated.Open(owner, damaged) },
		"none at all":   func() (secret.Text, error) { return rotated.Open(owner, nil) },
	} {
		if got, err := open(); err == nil || landfall.KindOf(err) != landfall.Conflict || got != "" ||
			!strings.Contains(landfall.MessageOf(err), "KEY") {
			t.Errorf("%s: got the value %q and the error %v", what, got.Reveal(), err)
		}
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	before, after := newKey(t), newKey(t)
	k := keeper(t, before)
	owner := secret.Owner{App: "1", Name: "KEY"}
	mark := k.Fingerprint(owner, "value")
	for what, other := range map[string][]byte{
		"another value":  k.Fingerprint(owner, "valuf"),
		"another name":   k.Fingerprint(secret.Owner{App: "1", Name: "KEYS"}, "value"),
		"another border": k.Fingerprint(secret.Owner{App: "1K", Name: "EY"}, "value"),
		"another key":    keeper(t, after).Fingerprint(owner, "value"),
	} {
		if bytes.Equal(mark, other) {
			t.Errorf("%s has the same fingerprint", what)
		}
	}
	if all := keeper(t, after, before).Fingerprints(owner, "value"); len(all) != 2 || !bytes.Equal(all[1], mark) ||
		bytes.Equal(all[0], mark) {
		t.Error("a rotated keeper does not know the fingerprints of its older key")
	}
}

// Neither a key nor a value shows, whatever prints it.
func TestNothingShows(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	k := keeper(t, key)
	private := key.Reveal()[len("AGE-SECRET-KEY-1"):]
	var logged bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&logged, nil))
	logger.Info("x", "key", key, "keeper", k, "keepers", []any{*k})
	encoded, err := json.Marshal(map[string]any{"key": key})
	if err != nil {
		t.Fatal(err)
	}
	_, wrong := secret.ParseKey(key + "x")
	_, damaged := secret.ParseKey(secret.Text(strings.Replace(key.Reveal(), "1", "1Q", 1)))
	_, nothing := secret.ParseKey("")
	for _, text := range []string{
		fmt.Sprint(key, k, *k), fmt.Sprintf("%v %+v %#v %s %q %x", key, k, k, key, key, key), fmt.Sprintf("%+v %#v", *k, *k),
		key.GoString(), key.LogValue().String(), string(encoded), logged.String(), wrong.Error(), damaged.Error(),
		nothing.Error(), landfall.MessageOf(secret.CheckValue(secret.Text(strings.Repeat(private, 4000)))),
	} {
		if strings.Contains(text, private[:8]) || strings.Contains(text, fmt.Sprintf("%x", private[:8])) {
			t.Errorf("the key shows in %.300q", text)
		}
	}
	if key.Reveal() == "" || secret.Text("").String() != "" {
		t.Error("a key hides from Reveal, or nothing is hidden")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, right := range map[string]bool{
		"STRIPE_KEY": true, "db-password": true, "tls.key": true, "_": true, "a": true, "a--b": true,
		strings.Repeat("a", 128): true, "": false, "1A": false, "a b": false, "A=B": false, "-a": false, "a-": false,
		"ä": false, "A\n": false, "..": false, "LANDFALL_TOKEN": false, "landfall-version": false, "../x": false,
		strings.Repeat("a", 129): false,
	} {
		if err := secret.CheckName(name); (err == nil) != right {
			t.Errorf("%q: got the error %v", name, err)
		}
	}
	if got := secret.Variable("db-password.v1"); got != "db_password_v1" {
		t.Errorf("the variable is %q", got)
	}
	for _, value := range []secret.Text{"", "a\x00b", "\xff", secret.Text(strings.Repeat("a", secret.MaxValue+1))} {
		if err := secret.CheckValue(value); err == nil || landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("a value of %d bytes: got the error %v", len(value), err)
		}
	}
}

func TestStored(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)
	want := secret.Content{Actor: "ada", Revoked: at, RevokedBy: "bob"}
	stored, err := want.JSON()
	if err != nil {
		t.Fatal(err)
	}
	got, err := secret.ReadContent(stored)
	if err != nil || got.Actor != "ada" || !got.Revoked.Equal(at) || got.RevokedBy != "bob" || got.Sealed != nil {
		t.Errorf("got %+v and the error %v", got, err)
	}
	for _, s := range []secret.Spec{{}, {Preview: true}} {
		if secret.ReadSpec(s.JSON()) != s {
			t.Errorf("%+v is not read as it was written", s)
		}
	}
	if _, err := secret.ReadContent(json.RawMessage("nonsense")); landfall.KindOf(err) != landfall.Invalid {
		t.Errorf("nonsense: got the error %v", err)
	}
}
