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
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
	"unsafe"
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
		name = slices.Collect(maps.Keys(functions))[0]
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

// write writes a line, and reports whether somebody reads it.
func write(out io.Writer, line string) bool {
	_, err := io.WriteString(out, line+"\n")
	return err == nil
}

// body is the data of an event that follows it in parts.
type body struct {
	in *bufio.Reader

	mu     sync.Mutex // what is behind the last part is another event
	have   []byte
	over   bool  // the last part was read
	unsaid bool  // and nobody was told
	fault  error // what broke it off
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.have) == 0 {
		if b.over && b.fault != nil {
			return 0, b.fault
		}
		if b.over {
			return 0, io.EOF
		}
		b.next()
	}
	n := copy(p, b.have)
	b.have = b.have[n:]
	return n, nil
}

// Close implements io.Closer.
func (*body) Close() error { return nil }

// next reads the next part.
func (b *body) next() {
	var part struct {
		Text  string `json:"data"`
		Bytes []byte `json:"data_base64"`
		Last  bool   `json:"last"`
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	line, err := b.in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &part)
	}
	if part.Error != nil {
		err = errors.New("the body of the request broke off: " + part.Error.Message)
	}
	b.have, b.over, b.fault = part.Bytes, part.Last || err != nil, err
	if part.Text != "" {
		b.have = []byte(part.Text)
	}
}

// becomeBody makes it the body of a request.
func (b *body) becomeBody(r *http.Request, contentType string) {
	length, err := strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64)
	if err != nil {
		length = -1
	}
	r.Body, r.ContentLength = b, length
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", contentType)
	}
}

// told says in the last line of an answer that all was read.
func (b *body) told(line []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.unsaid || !b.over {
		return line
	}
	b.unsaid = false
	return append(bytes.TrimSuffix(line, []byte("}")), `,"dataread":true}`...)
}

// drain reads what the function did not, and reports whether nobody was told that all was read.
func (b *body) drain() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.over {
		b.next()
	}
	b.have = nil
	return b.unsaid
}

// Go's scheduler wakes a thread to watch a system call that may block, which costs a program that sleeps between two events more
// than the call itself. So those that cannot block are hidden from it: input and output make system calls that return at once.

// input is standard input.
type input struct {
	file *os.File
	conn syscall.RawConn
}

// takeInput returns standard input. What is no pipe others may have, too: it is read as it is.
func takeInput() io.Reader {
	const stdin = 0
	var is syscall.Stat_t
	if syscall.Fstat(stdin, &is) != nil || is.Mode&syscall.S_IFMT != syscall.S_IFIFO || syscall.SetNonblock(stdin, true) != nil {
		return os.Stdin
	}
	in := &input{file: os.NewFile(stdin, "events")}
	var err error
	if in.conn, err = in.file.SyscallConn(); err != nil {
		return in.file
	}
	return in
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	var errno syscall.Errno
	err = in.conn.Read(func(fd uintptr) bool {
		n, errno = system(syscall.SYS_READ, fd, p)
		return errno != syscall.EAGAIN
	})
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, errno
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// output is standard output.
type output struct {
	file *os.File
	fd   uintptr
}

// takeOutput returns standard output. What the function prints from then on is its log.
func takeOutput() (*output, error) {
	const stdout, stderr = 1, 2
	out, err := syscall.Dup(stdout)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(out)
	return &output{os.NewFile(uintptr(out), "answers"), uintptr(out)}, syscall.Dup3(stderr, stdout, 0)
}

// atOnce is what a pipe that can be written to takes without blocking.
const atOnce = 4 << 10

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	written := 0
	if 0 < len(p) && len(p) <= atOnce && writable(o.fd) {
		if n, errno := system(syscall.SYS_WRITE, o.fd, p); errno == 0 {
			written = n
		}
	}
	if written == len(p) {
		return written, nil
	}
	n, err := o.file.Write(p[written:]) // it says what is wrong, too
	return written + n, err
}

// writable reports whether a descriptor can be written to at once.
func writable(fd uintptr) bool {
	const pollOut = 4
	poll := struct {
		fd              int32
		events, happens int16
	}{fd: int32(fd), events: pollOut}
	var now syscall.Timespec
	//nolint:gosec // both stay where they are for the call
	n, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return errno == 0 && n == 1 && poll.happens == pollOut
}

// system reads or writes by a system call that does not block.
func system(number, fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		//nolint:gosec // p is not empty, and stays where it is for the call
		n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		if errno != syscall.EINTR {
			return int(n), errno
		}
	}
}

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
		"id": "event-id", "source": "source", "type": "event-type", "eventtypeversion": "event-type-version", "time": "event-time",
		"datacontenttype": "content-type", "data": "data", "data_base64": "data", "error": "error",
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

// answer returns the answer to the event of a line, or the last part of one that went out while it was made.
func answer(functions map[string]http.HandlerFunc, name string, line []byte, b *body, out io.Writer) []byte {
	e, err := read(line)
	if err != nil {
		return failed(e, &fault{kind: "InvalidEvent", message: "standard input must have one event as a JSON object on each line"})
	}
	b.over, b.unsaid = !e.Follows, e.Follows
	function := functions[name]
	if function == nil {
		there := slices.Sorted(maps.Keys(functions))
		return failed(e, &fault{kind: "MissingHandler", message: fmt.Sprintf("the package has no function %s(http.ResponseWriter, *http.Request); it has %s",
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

// answerTo returns an answer with nothing in it.
func answerTo(e event) map[string]any {
	fields := map[string]any{"specversion": "1.0", "id": rand.Text(), "source": e.Source, "type": e.Type}
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
	fields["error"] = text(told(err))
	if e.Protocol != "" {
		fields["protocol"] = text(map[string]any{"type": "http", "status_code": http.StatusInternalServerError})
	}
	return e.line(fields)
}

// text returns a value as JSON. All that is written here has a form.
func text(value any) string {
	var out strings.Builder
	w := json.NewEncoder(&out)
	w.SetEscapeHTML(false)
	_ = w.Encode(value) //nolint:errchkjson // of strings, numbers and JSON
	return strings.TrimSuffix(out.String(), "\n")
}
