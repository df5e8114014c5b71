//go:build go1.21

package adaptor

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
)

// event is what is looked at of one.
type event struct {
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Execution   string          `json:"execution"`
	ContentType string          `json:"datacontenttype"`
	Data        json.RawMessage `json:"data"`
	Bytes       []byte          `json:"data_base64"`
	Protocol    string          `json:"protocol"`
	Follows     bool            `json:"datafollows"`
	TypeVersion string          `json:"eventtypeversion"`

	Draft string `json:"cloud-events-version"` // it is of 0.1, and so is its answer
}

// read reads the event of a line, also one of 0.1.
func read(line []byte) (e event, err error) {
	if err = json.Unmarshal(line, &e); err != nil || e.Draft == "" {
		return e, err
	}
	var old struct {
		Type        string `json:"event-type"`
		TypeVersion string `json:"event-type-version"`
		ContentType string `json:"content-type"`
		Extensions  struct {
			Execution string          `json:"execution"`
			Protocol  json.RawMessage `json:"protocol"`
			Encoding  string          `json:"encoding"`
		} `json:"extensions"`
	}
	if err = json.Unmarshal(line, &old); err == nil && old.Extensions.Encoding == "base64" {
		err = json.Unmarshal(e.Data, &e.Bytes)
	}
	e.Type, e.TypeVersion, e.ContentType = old.Type, old.TypeVersion, old.ContentType
	e.Execution, e.Protocol = old.Extensions.Execution, string(old.Extensions.Protocol)
	return e, err
}

// line returns an answer as a line, in the version of the event.
func (e event) line(fields map[string]any) []byte {
	if e.Draft == "" {
		return []byte(text(fields))
	}
	names := map[string]string{
		"id": "event-id", "source": "source", "type": "event-type", "eventtypeversion": "event-type-version",
		"time": "event-time", "datacontenttype": "content-type", "data": "data", "data_base64": "data", "error": "error",
	}
	old, extensions := map[string]any{"cloud-events-version": "0.1"}, map[string]any{}
	for name, value := range fields {
		switch name {
		case "specversion":
			continue
		case "error", "protocol": // 1.0 has no maps, but JSON of them
			value = json.RawMessage(fmt.Sprint(value))
		case "data_base64":
			extensions["encoding"] = "base64"
		}
		if field, ok := names[name]; ok {
			old[field] = value
		} else {
			extensions[name] = value
		}
	}
	if len(extensions) > 0 {
		old["extensions"] = extensions
	}
	return []byte(text(old))
}

// protocol is what an event has that is an HTTP request.
type protocol struct {
	Method  string              `json:"method"`
	URL     string              `json:"request_url"`
	Headers map[string][]string `json:"headers"`
}

// fault is an error that is answered as one.
type fault struct{ kind, message, trace string }

// Error implements error.
func (f *fault) Error() string { return f.message }

// content returns an event's data as bytes.
func content(e event) ([]byte, error) {
	if e.Bytes != nil || len(e.Data) == 0 || string(e.Data) == "null" {
		return e.Bytes, nil
	}
	if e.Data[0] != '"' || isJSON(e.ContentType) {
		return e.Data, nil
	}
	var text string
	if err := json.Unmarshal(e.Data, &text); err != nil {
		return nil, &fault{kind: "InvalidEvent", message: "data is no text: " + err.Error()}
	}
	return []byte(text), nil
}

// isJSON reports whether data of a type stands in an event as it is. Data without a type does.
func isJSON(contentType string) bool {
	kind, _, _ := mime.ParseMediaType(contentType)
	return contentType == "" || kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")
}

// answerTo returns an answer with nothing in it.
func answerTo(e event) map[string]any {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it never fails where there is a kernel
	fields := map[string]any{"specversion": "1.0", "id": hex.EncodeToString(id), "source": e.Source, "type": e.Type}
	if e.Source == "" {
		fields["source"] = "/"
	}
	if e.Type == "" {
		fields["type"] = "answer"
	}
	if e.Execution != "" {
		fields["execution"] = e.Execution
	}
	if e.TypeVersion != "" {
		fields["eventtypeversion"] = e.TypeVersion
	}
	return fields
}

// told returns what is said of an error. It is in the log, too.
func told(err error) map[string]any {
	var f *fault
	if !errors.As(err, &f) {
		f = &fault{kind: "error", message: err.Error()}
	}
	_, _ = os.Stderr.WriteString(strings.TrimSpace(f.kind+": "+f.message+"\n"+f.trace) + "\n")
	return map[string]any{"message": f.message, "type": f.kind, "trace": f.trace}
}

// failed returns the answer that is an error.
func failed(e event, err error) []byte {
	fields := answerTo(e)
	fields["time"] = time.Now().UTC().Format(time.RFC3339Nano)
	const mediaType = "application/json" // an error is JSON
	fields["datacontenttype"] = mediaType
	fields["error"] = text(told(err))
	fields["protocol"] = text(map[string]any{"type": "http", "status_code": http.StatusInternalServerError,
		"headers": map[string][]string{"Content-Type": {mediaType}}})
	return e.line(fields)
}

// text returns a value as JSON. All that is written here has a form.
func text(value any) string {
	var out strings.Builder
	w := json.NewEncoder(&out)
	w.SetEscapeHTML(false)
	_ = w.Encode(value) //nolint:errchkjson // callers pass strings, numbers and maps of them, which always have a form
	return strings.TrimSuffix(out.String(), "\n")
}
