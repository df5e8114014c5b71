package landfall

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Op names what the program did when an error arose, as room and method: "builder.fetch".
type Op string

// Kind is the class of a failure. It decides the HTTP status, the exit code, the commit status and whether a job is
// tried again; each of these is one table at its edge.
type Kind uint8

// The zero value is Internal on purpose: an error that nobody classified is our fault.
const (
	Internal     Kind = iota // our fault, or unclassified
	Invalid                  // the author's input is wrong
	NotFound                 // no such thing
	Conflict                 // it exists, or moved on
	Unauthorized             // not known
	Forbidden                // known, not allowed
	Unavailable              // something outside is down; try later
	Canceled                 // we are stopping
)

// Kinds lists every kind, for tables that must cover them all.
func Kinds() []Kind {
	return []Kind{Internal, Invalid, NotFound, Conflict, Unauthorized, Forbidden, Unavailable, Canceled}
}

// String returns the kind's name as it stands in API answers: "not-found".
func (k Kind) String() string {
	names := [...]string{
		Internal: "internal", Invalid: "invalid", NotFound: "not-found", Conflict: "conflict", Unauthorized: "unauthorized",
		Forbidden: "forbidden", Unavailable: "unavailable", Canceled: "canceled",
	}
	if int(k) >= len(names) {
		k = Internal
	}
	return names[k]
}

// HTTPStatus returns the status of an answer over HTTP that is an error of the kind.
func (k Kind) HTTPStatus() int {
	statuses := [...]int{
		Internal: http.StatusInternalServerError, Invalid: http.StatusBadRequest, NotFound: http.StatusNotFound,
		Conflict: http.StatusConflict, Unauthorized: http.StatusUnauthorized, Forbidden: http.StatusForbidden,
		Unavailable: http.StatusServiceUnavailable, Canceled: http.StatusServiceUnavailable,
	}
	if int(k) >= len(statuses) {
		k = Internal
	}
	return statuses[k]
}

// Error is the only error type that crosses rooms.
type Error struct {
	Op      Op     // what the program did
	Kind    Kind   // which class of failure
	Message string // for the person who pushed: what, where, what would be right; holds no secret
	Err     error  // the cause, for the operator's log; never shown to the person who pushed
}

// Errorf returns an Error with a sentence for the person who pushed, and without a cause.
func Errorf(op Op, kind Kind, format string, args ...any) error {
	return &Error{Op: op, Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// Wrapf returns an Error with a sentence for the person who pushed, and with a cause for the operator's log.
func Wrapf(op Op, kind Kind, cause error, format string, args ...any) error {
	return &Error{Op: op, Kind: kind, Message: fmt.Sprintf(format, args...), Err: cause}
}

// Error returns everything known, for logs. People are shown Message.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(string(e.Op))
		b.WriteString(": ")
	}
	b.WriteString(cmp.Or(e.Message, e.Kind.String()))
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the outermost Error in err's chain, and Internal when there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// Is reports whether err is an error of one of the kinds. A nil error is of no kind.
func Is(err error, kinds ...Kind) bool { return err != nil && slices.Contains(kinds, KindOf(err)) }

// Ignore returns err, or nil when err is of the given kind.
func Ignore(err error, kind Kind) error {
	if Is(err, kind) {
		return nil
	}
	return err
}

// MessageOf returns the sentence for the person who pushed: the outermost Message in err's chain. Of joined errors it
// takes the first that has one. It returns "internal error" when no error has a Message.
func MessageOf(err error) string {
	return cmp.Or(messageIn(err), "internal error")
}

// messageIn returns the outermost Message in a tree of errors, or nothing. errors.AsType would stop at the first Error,
// whether it has a Message or not; so the tree is walked here, one error at a time.
func messageIn(err error) string {
	switch e := any(err).(type) {
	case *Error:
		if e.Message != "" {
			return e.Message
		}
		return messageIn(e.Err)
	case interface{ Unwrap() error }:
		return messageIn(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, branch := range e.Unwrap() {
			if message := messageIn(branch); message != "" {
				return message
			}
		}
	}
	return ""
}
