package host_test

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/host"
	"landfall.dev/landfall/runtime/packages"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/test/testkit"
)

// What a function says is shown without its secrets from its first call on, for as long as it is here.
func TestRedactors(t *testing.T) {
	t.Parallel()
	stored := program(t, "#!/bin/sh\nexec cat\n")
	unpacked, err := packages.New(filepath.Join(t.TempDir(), "functions"), stored, packages.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := secret.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := secret.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	const value = "canary-6f1d2c"
	sealed, err := key.Seal(secret.Owner{App: "shop", Name: "token"}, value)
	if err != nil {
		t.Fatal(err)
	}
	var redactors host.Redactors
	runs := host.New(host.Config{
		Runner: &runner.Runner{Sandbox: sandbox.Detect(t.Context(), sandbox.Off)}, Packages: unpacked, Secrets: key,
		Redactors: &redactors, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(runs.Close)
	f := &landfall.Function{ID: "1", App: "shop", Name: "pay", Environment: landfall.Environment{Name: "binary"},
		Package: landfall.Archive{Key: "stored", Digest: landfall.DigestOf(stored.bytes())},
		Secrets: []landfall.SealedSecret{{Name: "token", Number: 1, Sealed: sealed}}}
	testkit.Equal(t, "a text before the first call", redactors.Redact(f, value), value)
	e := event.New()
	e.SetID("1")
	e.SetSource("/me")
	e.SetType("call")
	if _, err := runs.Call(t.Context(), function.Call{Function: f, Event: e}); err != nil {
		t.Fatal(err)
	}
	hidden := redactors.Redact(f, "it is "+value)
	testkit.Equal(t, "a text after it", hidden, host.Redact(key, f, "it is "+value)) // as elsewhere
	testkit.Equal(t, "whether the secret is in it", hidden == "it is "+value, false)
	now := time.Now()
	for range 2 {
		if err := runs.TidyAt(now, nil); err != nil {
			t.Fatal(err)
		}
		now = now.Add(host.KeepUnneeded)
	}
	testkit.Equal(t, "a text when the function is forgotten", redactors.Redact(f, value), value)
	// Without the key nothing of it is told.
	testkit.Equal(t, "a text as JSON without the key", host.Redact(nil, f, `{"is": "`+value+`"}`), "null")
}
