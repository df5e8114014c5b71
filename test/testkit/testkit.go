package testkit

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-cmp/cmp"

	"landfall.dev/landfall"
)

// TB is a test, a benchmark or a property of one.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Patience is how long a test waits for what must come: far longer than it takes, so that a slow machine is no failure.
const Patience = 2 * time.Minute

// Eventually waits until a condition holds that nothing signals, and ends the test when it does not hold within
// Patience.
func Eventually(t TB, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); {
		waited := time.Since(began)
		if waited > Patience {
			t.Fatalf("waited %s in vain until %s", Patience, what)
		}
		const share, soonest, latest = 8, time.Millisecond, 100 * time.Millisecond
		<-time.After(max(soonest, min(waited/share, latest))) // asking without a pause slows down all other tests
	}
}

// Program writes a file that is run afterwards. No other process is started meanwhile: it would hold the file open for
// writing until it has become its own program, and the system runs no file that is open for writing (ETXTBSY).
func Program(t TB, path string, content []byte) {
	t.Helper()
	const executable = 0o755
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, content, executable); err != nil {
		t.Fatalf("%v", err)
	}
}

// Must returns a function that returns the value, or ends the test.
func Must[T any](v T, err error) func(TB) T {
	return func(t TB) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%v", err)
		}
		return v
	}
}

// Equal fails the test unless got is want.
func Equal[T comparable](t TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// EqualList fails the test unless got is want, in order.
func EqualList[T comparable](t TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Same fails the test unless got is want, and shows where they differ.
func Same[T any](t TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (- want, + got):\n%s", what, diff)
	}
}

// Contains fails the test unless every part stands in text.
func Contains(t TB, text fmt.Stringer, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text.String(), part) {
			t.Errorf("got no %q in:\n%s", part, text)
		}
	}
}

// Kind fails the test unless err is of the kind, and its message for people has every part.
func Kind(t TB, what string, err error, want landfall.Kind, parts ...string) {
	t.Helper()
	if err == nil || landfall.KindOf(err) != want {
		t.Errorf("%s: got the error %v, want one of kind %s", what, err, want)
		return
	}
	for _, part := range parts {
		if !strings.Contains(landfall.MessageOf(err), part) {
			t.Errorf("%s: got the message %q, want one with %q", what, landfall.MessageOf(err), part)
		}
	}
}

// Encode writes JSON of a test's own making.
func Encode(t TB, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return data
}

// Decode reads JSON of a test's own making.
func Decode[T any](t TB, data []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}
