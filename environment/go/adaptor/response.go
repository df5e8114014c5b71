//go:build go1.21

package adaptor

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"unicode/utf8"
)

// held is how much a function may write before it goes out without that it says so. A part of an answer has no more.
const held = 128 << 10

// response is what a function answers.
type response struct {
	mu      sync.Mutex
	over    bool  // the function has returned: what it left behind has no part in its answer, nor in the next one
	event   event // that it answers
	header  http.Header
	sent    http.Header // as it was when the status was said
	status  int
	body    bytes.Buffer // what is not out yet
	out     io.Writer
	streams bool  // the answer's event is out, and parts follow it
	broken  error // of out
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// errOver is what those get who still write.
var errOver = errors.New("the function has returned: nothing more of its answer can be written")

// close ends what the function may do with its answer.
func (w *response) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

// WriteHeader implements http.ResponseWriter. The first status counts that is not only a piece of news.
func (w *response) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.begin(status)
	}
}

func (w *response) begin(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status, w.sent = status, w.header.Clone()
	}
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return 0, errOver
	}
	w.begin(http.StatusOK)
	written := 0
	for {
		n, _ := w.body.Write(p[written:min(len(p), written+held-w.body.Len())])
		written += n
		if written == len(p) {
			return written, nil
		}
		if err := w.flush(); err != nil {
			return written, err
		}
	}
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is what http.NewResponseController finds: what was written goes out, with status and headers before it.
func (w *response) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return errOver
	}
	return w.flush()
}

func (w *response) flush() error {
	w.begin(http.StatusOK)
	var lines []byte
	body := w.body.Bytes()
	if !w.streams {
		w.streams = true
		lines = append(w.event.line(w.head(body)), '\n')
	}
	switch {
	case w.broken != nil:
		return w.broken
	case len(body) > 0:
		lines = append(append(lines, part(body)...), '\n')
	case len(lines) == 0:
		return nil
	}
	w.body.Reset()
	_, w.broken = w.out.Write(lines)
	return w.broken
}

// part returns the part of an answer that is a piece of its data.
func part(piece []byte) string {
	if utf8.Valid(piece) {
		return text(map[string]any{"data": string(piece)})
	}
	return text(map[string]any{"data_base64": piece})
}

// end returns the last part of an answer, behind what is not out yet.
func (w *response) end(err error) []byte {
	if err != nil {
		return []byte(text(map[string]any{"error": told(err)}))
	}
	if w.flush() != nil {
		return nil // and so is what is written next
	}
	return []byte(`{"last":true}`)
}

// head returns the answer's event without its data, which begins with a piece.
func (w *response) head(piece []byte) map[string]any {
	if w.sent.Get("Content-Type") == "" && len(piece) > 0 {
		w.sent.Set("Content-Type", http.DetectContentType(piece))
	}
	w.sent.Del("Content-Length")
	fields := answerTo(w.event)
	protocol := map[string]any{"type": "http", "status_code": w.status, "headers": w.sent}
	if w.streams {
		protocol["streaming"] = true
	}
	fields["protocol"] = text(protocol)
	if kind := w.sent.Get("Content-Type"); kind != "" {
		fields["datacontenttype"] = kind
	}
	return fields
}

// answer returns the event that says what the function answered.
func (w *response) answer() []byte {
	w.begin(http.StatusOK)
	body := w.body.Bytes()
	fields := w.head(body)
	kind := w.sent.Get("Content-Type")
	switch {
	case len(body) == 0:
	case isJSON(kind) && json.Valid(body) && utf8.Valid(body):
		fields["data"] = json.RawMessage(body)
	case !isJSON(kind) && utf8.Valid(body):
		fields["data"] = string(body)
	default:
		fields["data_base64"] = base64.StdEncoding.EncodeToString(body)
	}
	return w.event.line(fields)
}
