package contract

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
)

// Test is an event, and the answer that a function must give.
type Test struct {
	Name   string          `json:"name"`
	Event  json.RawMessage `json:"event,omitempty"`  // a CloudEvent; missing required attributes are filled in
	Data   json.RawMessage `json:"data,omitempty"`   // of the event, in place of Event
	Answer json.RawMessage `json:"answer,omitempty"` // data of the answer; empty: any data
	// the status of the answer over HTTP; 0: any, and the answer is no error
	Status int `json:"status,omitempty"`
}

// Request returns the event of the test. Invalid when it is none.
func (t Test) Request() (event.Event, error) {
	members := map[string]json.RawMessage{}
	if len(t.Event) > 0 {
		if err := json.Unmarshal(t.Event, &members); err != nil {
			return event.Event{}, invalidf("its event is no JSON object")
		}
	}
	if len(t.Data) > 0 {
		members["data"] = t.Data
	}
	if _, draft := members["cloud-events-version"]; !draft {
		for name, value := range map[string]string{
			"specversion": "1.0", "id": t.Name, "source": "/test", "type": "dev.landfall.test",
			"time": time.Now().UTC().Format(time.RFC3339),
		} {
			if _, given := members[name]; given {
				continue
			}
			quoted, err := json.Marshal(value)
			if err != nil {
				return event.Event{}, err
			}
			members[name] = quoted
		}
	}
	_, hasData := members["data"]
	if _, typed := members["datacontenttype"]; hasData && !typed {
		members["datacontenttype"] = json.RawMessage(`"application/json"`)
	}
	text, err := json.Marshal(members)
	if err != nil {
		return event.Event{}, err
	}
	e, _, err := event.Parse(text)
	if err != nil {
		return event.Event{}, invalidf("its event: %s", landfall.MessageOf(err))
	}
	return e, nil
}

// Judge returns what is wrong with the answer to the test's event, as an Invalid error; nil when nothing is.
func (t Test) Judge(c *Contract, answer event.Event) error {
	fault, failed, err := event.ErrorOf(answer)
	if err != nil {
		return invalidf("the answer is no event that can be read: %s", landfall.MessageOf(err))
	}
	protocol, err := event.ProtocolOf(answer)
	if err != nil {
		return invalidf("the answer's protocol cannot be read: %s", landfall.MessageOf(err))
	}
	status := protocol.Status
	switch {
	case status != 0:
	case failed:
		status = http.StatusBadGateway
	default:
		status = http.StatusOK
	}
	if failed && t.Status == 0 {
		return invalidf("the answer is an error: %s", short(fault.Message))
	}
	if t.Status != 0 && status != t.Status {
		return invalidf("the answer has the status %d; it must be %d", status, t.Status)
	}
	if err := c.CheckOutput(answer); err != nil {
		return invalidf("%s; what came is %s", landfall.MessageOf(err), answerText(answer))
	}
	if len(t.Answer) > 0 && !t.equals(answer) {
		kind := ""
		if contentType := answer.DataContentType(); !isJSON(contentType) {
			kind = " (" + short(contentType) + ")" // the data may look the same
		}
		return invalidf("the answer is %s%s; it must be %s", answerText(answer), kind, short(string(t.Answer)))
	}
	return nil
}

// equals reports whether an answer has the data that the test wants. Text is compared as text, whatever its content
// type.
func (t Test) equals(answer event.Event) bool {
	var want any
	_ = json.Unmarshal(t.Answer, &want) // it was read before
	if text, ok := want.(string); ok && !isJSON(answer.DataContentType()) {
		return strings.TrimSuffix(string(answer.Data()), "\n") == strings.TrimSuffix(text, "\n")
	}
	same, err := Compile([]byte(`{"const":` + string(t.Answer) + `}`))
	return err == nil && same.data(answer) == nil
}

func answerText(answer event.Event) string {
	if len(answer.Data()) == 0 {
		return "no data"
	}
	return short(string(answer.Data()))
}

// short returns text of a function on one line, in a readable length.
func short(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return landfall.Printable(text)
}
