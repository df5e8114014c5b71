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
	text string // as the version's spec has it

	once          sync.Once
	input, output *Schema
	tests         []Test
	err           error
}

// document is a contract as a spec has it.
type document struct {
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`
	Tests  []Test          `json:"tests"`
}

// Of returns the contract that the spec of a version has, as canonical JSON; nil without one. It is read when it is first needed.
func Of(text json.RawMessage) *Contract {
	if len(text) == 0 {
		return nil
	}
	return &Contract{text: string(text)}
}

// Text returns the contract as the version's spec has it, and nothing for nil.
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

// CheckInput returns an error unless the function takes an event: Invalid, with a *MismatchError in its chain, when the event's data does not fit
// the contract. An event without data has the data null.
func (c *Contract) CheckInput(e event.Event) error {
	if c == nil {
		return nil
	}
	if err := c.read(); err != nil {
		return err
	}
	return c.input.check("the data of the event does not fit the input that the function's contract takes", e)
}

// CheckOutput returns an error as Take does when the data of an answer does not fit the contract. An answer that is an error, or whose data
// went out in parts, so that it has none, is not looked at.
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
	err := c.read() // the language does not say whether it comes before what stands beside it
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

// isJSON reports whether data of a content type is JSON, which data without one is.
func isJSON(contentType string) bool {
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	return mediaType == "" || mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json")
}

// MismatchError says what is wrong with data. Of the data it has names, and no values.
type MismatchError struct {
	Problems []Problem // sorted by their places; no more than 20
	More     int       // that there are beside these
}

// Problem is one thing that is wrong with data.
type Problem struct {
	Pointer string // of RFC 6901: where; empty for all of the data
	Message string // what to read behind the place: "is missing"
}

// mismatch is about all of the data.
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

// Cache keeps contracts that were read, by their texts: versions that are the same share one. Its methods may be called at the same
// time.
type Cache struct {
	once      sync.Once
	contracts *lru.Cache[string, *Contract]
}

// cacheSize bounds a Cache, of which each may have some megabytes.
const cacheSize = 256

// Of is the function Of with a memory; a nil Cache has none.
func (c *Cache) Of(text json.RawMessage) *Contract {
	if len(text) == 0 {
		return nil
	}
	if c == nil {
		return Of(text)
	}
	c.once.Do(func() { c.contracts, _ = lru.New[string, *Contract](cacheSize) }) // it fails for a size below one
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

// cut returns text in a length that people read.
func cut(text string) string {
	const most = 60
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
