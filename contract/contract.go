package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
)

// Contract is what a version of a function promises. A nil Contract promises nothing. It is safe for concurrent use.
type Contract struct {
	text string // as in the version's spec

	once          sync.Once
	input, output *Schema
	tests         []Test
	err           error
}

// document is a contract in the form of a spec.
type document struct {
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`
	Tests  []Test          `json:"tests"`
}

// Of returns the contract in the spec of a version, as canonical JSON; nil when there is none. It is read when it is
// first needed.
func Of(text json.RawMessage) *Contract {
	if len(text) == 0 {
		return nil
	}
	return &Contract{text: string(text)}
}

// Text returns the contract as in the version's spec; nil for a nil Contract.
func (c *Contract) Text() json.RawMessage {
	if c == nil {
		return nil
	}
	return json.RawMessage(c.text)
}

// read reads the contract once.
func (c *Contract) read() error {
	c.once.Do(func() {
		var w document
		if c.err = json.Unmarshal([]byte(c.text), &w); c.err != nil {
			return
		}
		c.tests = w.Tests
		for _, s := range []struct {
			text json.RawMessage
			to   **Schema
		}{{w.Input, &c.input}, {w.Output, &c.output}} {
			if len(s.text) > 0 && c.err == nil {
				*s.to, c.err = Compile(s.text)
			}
		}
	})
	return c.err
}

// CheckInput returns an error unless the event's data fits the contract: Invalid, with a *MismatchError in its chain.
// An event without data has the data null.
func (c *Contract) CheckInput(e event.Event) error {
	if c == nil {
		return nil
	}
	if err := c.read(); err != nil {
		return err
	}
	return c.input.check("the data of the event does not fit the input that the function's contract takes", e)
}

// CheckOutput returns an error as CheckInput does when the data of an answer does not fit the contract. It does not
// check an answer that is an error, or whose data was sent in parts and is not in it.
func (c *Contract) CheckOutput(answer event.Event) error {
	if c == nil {
		return nil
	}
	if err := c.read(); err != nil {
		return err
	}
	if c.output == nil || isError(answer) || len(answer.Data()) == 0 && event.Streams(answer) {
		return nil
	}
	return c.output.check("the data of the answer does not fit the output that the function's contract promises", answer)
}

// isError reports whether an answer is an error, or has one that cannot be read.
func isError(answer event.Event) bool {
	_, is, err := event.ErrorOf(answer)
	return is || err != nil
}

// Tests returns the contract's tests. Invalid when it cannot be read.
func (c *Contract) Tests() ([]Test, error) {
	if c == nil {
		return nil, nil
	}
	err := c.read() // the order of evaluation beside a call is not defined
	return c.tests, err
}

// check returns an error unless the data of an event fits. A nil Schema fits everything.
func (s *Schema) check(what string, e event.Event) error {
	if s == nil {
		return nil
	}
	err := s.data(e)
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*MismatchError](err); ok {
		return &landfall.Error{Op: "contract", Kind: landfall.Invalid, Message: what + ": " + wrong.Error(), Err: wrong}
	}
	return err
}

// data checks the data of an event.
func (s *Schema) data(e event.Event) error {
	data := e.Data()
	if len(data) == 0 {
		return s.Check([]byte("null"))
	}
	if contentType := e.DataContentType(); !isJSON(contentType) {
		return mismatch("is " + landfall.Printable(cut(contentType)) + "; it must be JSON (application/json)")
	}
	return s.Check(data)
}

// isJSON reports whether data of a content type is JSON; data without one is.
func isJSON(contentType string) bool {
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	return mediaType == "" || mediaType == "application/json" || mediaType == "text/json" ||
		strings.HasSuffix(mediaType, "+json")
}

// MismatchError says what is wrong with data. It contains names from the data, but no values.
type MismatchError struct {
	Problems []Problem // sorted by their places; no more than 20
	More     int       // number of further problems
}

// Problem is one thing that is wrong with data.
type Problem struct {
	Pointer string // of RFC 6901: where; empty for all of the data
	Message string // follows the place in a sentence: "is missing"
}

// mismatch returns an error about the data as a whole.
func mismatch(message string) *MismatchError {
	return &MismatchError{Problems: []Problem{{"", message}}}
}

// Error implements error.
func (m *MismatchError) Error() string {
	all := make([]string, 0, len(m.Problems)+1)
	for _, p := range m.Problems {
		all = append(all, p.String())
	}
	if m.More > 0 {
		all = append(all, "and "+strconv.Itoa(m.More)+" more")
	}
	return strings.Join(all, "; ")
}

// String returns the problem for people.
func (p Problem) String() string {
	if p.Pointer == "" {
		return "it " + p.Message
	}
	return p.Pointer + " " + p.Message
}

// Cache keeps contracts that were read, by their texts: equal versions share one. Its methods are safe for concurrent
// use.
type Cache struct {
	once      sync.Once
	contracts *lru.Cache[string, *Contract]
}

// cacheSize bounds a Cache. Each of its contracts may take some megabytes.
const cacheSize = 256

// Of is the function Of with a cache; a nil Cache keeps nothing.
func (c *Cache) Of(text json.RawMessage) *Contract {
	if len(text) == 0 {
		return nil
	}
	if c == nil {
		return Of(text)
	}
	c.once.Do(func() { c.contracts, _ = lru.New[string, *Contract](cacheSize) }) // it fails only for a size below one
	if known, ok := c.contracts.Get(string(text)); ok {
		return known
	}
	made := Of(text)
	c.contracts.Add(made.text, made)
	return made
}

func invalidf(format string, args ...any) error {
	return &landfall.Error{Op: "contract", Kind: landfall.Invalid, Message: fmt.Sprintf(format, args...)}
}

// cut returns text in a readable length.
func cut(text string) string {
	const most = 60
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
