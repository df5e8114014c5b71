//go:build go1.21

// Package adaptor makes a program of functions in Go that answer requests as net/http has them: it reads an event from each line
// of standard input, and answers it on standard output.
//
//	echo '{"specversion":"1.0","id":"1","source":"/me","type":"greet"}' | ./main Handler
//
// It is compiled into the function's program, so it needs nothing but the standard library.
package adaptor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"sort"
	"strings"
)

// usual is what a function is called that nobody names.
const usual = "Handler"

// Serve answers events by the function whose name is the program's argument, until standard input ends. It returns the program's
// exit code.
func Serve(functions map[string]http.HandlerFunc) (code int) {
	out, err := takeOutput()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	name := usual
	if len(os.Args) > 1 {
		name = os.Args[1]
	} else if len(functions) == 1 {
		for name = range functions { // there is one
		}
	}
	in := bufio.NewReader(takeInput())
	for {
		line, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			b := &body{in: in, over: true}
			if _, err := out.Write(append(b.told(answer(functions, name, line, b, out)), '\n')); err != nil {
				return 1 // nobody reads
			}
			if b.drain() && !write(out, `{"dataread":true}`) {
				return 1
			}
		}
		if err != nil {
			return 0
		}
	}
}

// answer returns the answer to the event of a line, or the last part of one that went out while it was made.
func answer(functions map[string]http.HandlerFunc, name string, line []byte, b *body, out io.Writer) []byte {
	e, err := read(line)
	if err != nil {
		return failed(e, &fault{kind: "InvalidEvent",
			message: "standard input must have one event as a JSON object on each line"})
	}
	b.over, b.unsaid = !e.Follows, e.Follows
	function := functions[name]
	if function == nil {
		there := make([]string, 0, len(functions))
		for name := range functions {
			there = append(there, name)
		}
		sort.Strings(there)
		return failed(e, &fault{kind: "MissingHandler",
			message: fmt.Sprintf("the package has no function %s(http.ResponseWriter, *http.Request); it has %s",
				name, strings.Join(there, ", "))})
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // what the function left behind may wait for that
	r, err := request(ctx, e)
	if err != nil {
		return failed(e, err)
	}
	if e.Follows {
		b.becomeBody(r, e.ContentType)
	}
	w := &response{header: http.Header{}, event: e, out: out}
	err = call(function, w, r)
	w.close()
	switch {
	case w.streams:
		return w.end(err)
	case err != nil:
		return failed(e, err)
	}
	return w.answer()
}

// call calls a function. What it panics with is an error.
func call(function http.HandlerFunc, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if value := recover(); value != nil {
			_, trace, _ := strings.Cut(string(debug.Stack()), "panic(")
			err = &fault{kind: "panic", message: fmt.Sprint(value), trace: "panic(" + trace}
		}
	}()
	function(w, r)
	return nil
}

// request returns the request that an event is. One that is none is a POST of its data.
func request(ctx context.Context, e event) (*http.Request, error) {
	p := protocol{Method: http.MethodPost, URL: "/"}
	if e.Protocol != "" {
		if err := json.Unmarshal([]byte(e.Protocol), &p); err != nil {
			return nil, &fault{kind: "InvalidEvent", message: "protocol is no JSON: " + err.Error()}
		}
	}
	body, err := content(e)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, p.Method, p.URL, bytes.NewReader(body))
	if err != nil {
		return nil, &fault{kind: "InvalidEvent", message: "the event is no request: " + err.Error()}
	}
	for name, values := range p.Headers {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	if len(body) > 0 && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", e.ContentType)
		if e.ContentType == "" {
			r.Header.Set("Content-Type", "application/json")
		}
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	r.RequestURI = r.URL.RequestURI()
	return r, nil
}
