package testkit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Must returns a function that returns the value, or ends the test.
func Must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Encode writes JSON of a test's own making.
func Encode(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Equal fails the test unless got is want.
func Equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// EqualList fails the test unless got is want, in order.
func EqualList[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Contains fails the test unless every part stands in text.
func Contains(t *testing.T, text fmt.Stringer, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text.String(), part) {
			t.Errorf("got no %q in:\n%s", part, text)
		}
	}
}

// Patience is how long a test waits for what must come: far longer than it takes, so that a slow machine is no failure.
const Patience = 2 * time.Minute

// Decode reads JSON of a test's own making.
func Decode[T any](t *testing.T, data []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}
