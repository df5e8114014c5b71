package rpc

import (
	"encoding/json"
	"errors"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/function"
)

// fault is an error as it travels: what people are shown of it, and what programs decide by. Its causes stay where they
// are, in the log of the process that had them.
type fault struct {
	Kind       string          `json:"kind"`
	Message    string          `json:"message,omitempty"`
	Reason     function.Reason `json:"reason,omitempty"`
	Trace      string          `json:"trace,omitempty"`
	RetryAfter int64           `json:"retry_after,omitempty"` // milliseconds
}

// encodeFault writes an error.
func encodeFault(err error) []byte {
	f := fault{Kind: landfall.KindOf(err).String(), Message: landfall.MessageOf(err)}
	if cause, ok := errors.AsType[*function.Error](err); ok {
		f.Reason, f.Trace, f.RetryAfter = cause.Reason, cause.Trace, cause.RetryAfter.Milliseconds()
	}
	text, err := json.Marshal(f)
	if err != nil {
		return nil // there are only strings and a number in it
	}
	return text
}

// decodeFault returns the error that was written, and nil when it is none.
func decodeFault(op landfall.Op, text []byte) *landfall.Error {
	var f fault
	_ = json.Unmarshal(text, &f) // what is no error has no message
	if f.Message == "" {
		return nil
	}
	e := &landfall.Error{Op: op, Message: f.Message}
	for _, kind := range landfall.Kinds() {
		if kind.String() == f.Kind {
			e.Kind = kind
		}
	}
	if f.Reason != "" {
		const most = int64(time.Hour / time.Millisecond) // whatever a process says that ran something else than it should
		retry := time.Duration(min(max(f.RetryAfter, 0), most)) * time.Millisecond
		e.Err = &function.Error{Reason: f.Reason, Trace: f.Trace, RetryAfter: retry}
	}
	return e
}

// lost returns the error for a call of which nobody knows what came of it.
func lost(cause error) error {
	return landfall.Wrapf("call", landfall.Internal, errors.Join(&function.Error{Reason: function.ReasonLost}, cause),
		"the connection to what ran the function was lost: the function may have run, wholly or in part")
}

// refused returns the error for a function that was not called, because there is nobody to run it now.
func refused(message string, cause error) error {
	return &landfall.Error{Op: "call", Kind: landfall.Unavailable, Message: message + "; try again later", Err: cause}
}
