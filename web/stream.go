package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// How often pages that are followed are looked at again: a run, and what takes longer to look at.
const (
	soon  = 300 * time.Millisecond
	later = 2 * time.Second
)

// stream sends what changes in a page as server-sent events, until there is nothing more to come: "part" for each part
// that is another, "log" for lines that follow, and "end".
func (s *site) stream(w http.ResponseWriter, in *request, load func(*request) (*view, error), v *view) {
	if err := s.waiters.Enter(in.Context(), in.token); err != nil {
		w.Header().Set("Retry-After", "1")
		s.fail(w, in.Request, in, err)
		return
	}
	asked := in.Request
	w.Header().Set("Content-Type", "text/event-stream")
	out := &events{w: w, control: http.NewResponseController(w), sent: map[string]string{}}
	after := lastSeen(in.Request)
	tick := time.NewTicker(v.follow)
	defer tick.Stop()
	for {
		var err error
		if after, err = s.send(out, in, v, after); err != nil {
			return // the browser comes back
		}
		if v.follow == 0 {
			out.event("end", "", []byte("{}"))
			return
		}
		select {
		case <-in.Context().Done():
			return
		case <-tick.C:
		}
		// A session that ended, or a token that was taken back, shows nothing more.
		if in, err = s.enter(asked); err != nil {
			return
		}
		if v, err = load(in); err != nil {
			return
		}
	}
}

// lastSeen is the number of the last line of a log that the page has.
func lastSeen(r *http.Request) int64 {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("after")
	}
	after, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return after
}

// send sends what is new.
func (s *site) send(out *events, in *request, v *view, after int64) (int64, error) {
	p, f, err := s.frame(in, v)
	if err != nil {
		return after, err
	}
	parts, err := p.parts(f)
	if err != nil {
		return after, err
	}
	for _, part := range parts {
		if out.sent[part.Name] == part.Hash {
			continue
		}
		out.sent[part.Name] = part.Hash
		data, err := json.Marshal(part)
		if err != nil {
			return after, err
		}
		out.event("part", "", data)
	}
	if v.tail != nil {
		if after, err = out.lines(in.Context(), p, v.tail, after); err != nil {
			return after, err
		}
	}
	return after, out.flush()
}

// events writes server-sent events.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sent    map[string]string // hash of each part
}

// event writes an event. data has no line break: it is JSON.
func (e *events) event(name, id string, data []byte) {
	if id != "" {
		fmt.Fprintf(e.w, "id: %s\n", id)
	}
	fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", name, data)
}

// lines sends what a log has behind a line, and returns the number of its last.
func (e *events) lines(ctx context.Context, p *page, t *tail, after int64) (int64, error) {
	lines, err := t.read(ctx, after)
	if err != nil || len(lines) == 0 {
		return after, err
	}
	var text bytes.Buffer
	if err := p.ExecuteTemplate(&text, "lines", lines); err != nil {
		return after, err
	}
	data, err := json.Marshal(text.String())
	if err != nil {
		return after, err
	}
	after = lines[len(lines)-1].Seq
	e.event("log", strconv.FormatInt(after, 10), data)
	return after, nil
}

func (e *events) flush() error { return e.control.Flush() }
