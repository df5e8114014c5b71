package landfall_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"landfall.dev/landfall"
)

func TestKindOf(t *testing.T) {
	t.Parallel()
	invalid := &landfall.Error{Kind: landfall.Invalid, Message: "no"}
	for _, c := range []struct {
		name string
		err  error
		want landfall.Kind
	}{
		{"nothing", nil, landfall.Internal},
		{"what nobody classified", io.EOF, landfall.Internal},
		{"an Error", invalid, landfall.Invalid},
		{"a wrapped Error", fmt.Errorf("while: %w", invalid), landfall.Invalid},
		{"the outermost of two", &landfall.Error{Kind: landfall.Unavailable, Err: invalid}, landfall.Unavailable},
		{"a joined Error", errors.Join(io.EOF, invalid), landfall.Invalid},
		{"the zero Error", &landfall.Error{}, landfall.Internal},
	} {
		if got := landfall.KindOf(c.err); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// The person who pushed reads a sentence that was written for them, and nothing else.
func TestMessageOf(t *testing.T) {
	t.Parallel()
	secret := errors.New("https://user:password@example.com refused")
	const none = "internal error"
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"nothing", nil, none},
		{"what nobody classified", secret, none},
		{"an Error without a sentence", &landfall.Error{Kind: landfall.Invalid, Err: secret}, none},
		{"an Error with one", &landfall.Error{Message: "no such file", Err: secret}, "no such file"},
		{"one that is wrapped", fmt.Errorf("%w: %w", secret, &landfall.Error{Message: "no such file"}), "no such file"},
		{"the outermost of two", &landfall.Error{Message: "outer", Err: &landfall.Error{Message: "inner"}}, "outer"},
		{"the first that has one", &landfall.Error{Op: "x", Err: fmt.Errorf("y: %w", &landfall.Error{Message: "inner"})},
			"inner"},
		{"the second of two that are joined", errors.Join(&landfall.Error{Op: "x", Err: secret},
			&landfall.Error{Message: "no such file"}), "no such file"},
		{"one below two that are joined", &landfall.Error{Err: errors.Join(secret, &landfall.Error{Err: io.EOF},
			fmt.Errorf("y: %w", &landfall.Error{Message: "inner"}))}, "inner"},
		{"the first of two that have one", errors.Join(&landfall.Error{Err: &landfall.Error{Message: "first"}},
			&landfall.Error{Message: "second"}), "first"},
	} {
		if got := landfall.MessageOf(c.err); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// The log has everything, and errors.Is sees through.
func TestErrorText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  *landfall.Error
		want string
	}{
		{&landfall.Error{}, "internal"},
		{&landfall.Error{Kind: landfall.NotFound}, "not-found"},
		{&landfall.Error{Op: "store.Run", Kind: landfall.NotFound, Err: io.EOF}, "store.Run: not-found: EOF"},
		{&landfall.Error{Op: "spec.parse", Message: "line 3", Err: io.EOF}, "spec.parse: line 3: EOF"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if got, want := errors.Is(c.err, io.EOF), c.err.Err != nil; got != want {
			t.Errorf("%q is its cause: got %t, want %t", c.want, got, want)
		}
	}
}

// Tables over all kinds are complete only if Kinds is.
func TestKinds(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for i, k := range landfall.Kinds() {
		if int(k) != i {
			t.Errorf("kind %d of the list: got %d (%s)", i, k, k)
		}
		names[k.String()] = true
	}
	if len(names) != len(landfall.Kinds()) {
		t.Errorf("got %d names of %d kinds, want one each", len(names), len(landfall.Kinds()))
	}
	beyond := landfall.Kind(len(landfall.Kinds()))
	if got, want := beyond.String(), "internal"; got != want {
		t.Errorf("a kind beyond the list: got %q, want %q: the list lacks it", got, want)
	}
	for name := range names {
		if strings.ToLower(name) != name || strings.ContainsAny(name, " _") {
			t.Errorf("the name %q: want lower case with -", name)
		}
	}
}

// Is looks for a kind, and no error has none.
func TestIs(t *testing.T) {
	t.Parallel()
	gone := fmt.Errorf("around it: %w", &landfall.Error{Kind: landfall.NotFound})
	for _, c := range []struct {
		err   error
		kinds []landfall.Kind
		want  bool
	}{
		{gone, []landfall.Kind{landfall.NotFound}, true}, {gone, []landfall.Kind{landfall.Conflict, landfall.NotFound}, true},
		{gone, []landfall.Kind{landfall.Internal}, false}, {gone, nil, false},
		{errors.New("unclassified"), []landfall.Kind{landfall.Internal}, true},
		{nil, landfall.Kinds(), false},
	} {
		if got := landfall.Is(c.err, c.kinds...); got != c.want {
			t.Errorf("%v is one of %v: got %t", c.err, c.kinds, got)
		}
	}
}
