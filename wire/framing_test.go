package wire_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall/wire"
)

// errTwice is what ends a connection whose request says in two ways where it ends.
var errTwice = errors.New("it says twice where it ends")

// read returns the requests on a connection, each with its body, and why there are no more: nil at its end. It reads as
// the server of net/http does, but it sees both headers.
func read(connection []byte) (requests []string, err error) {
	r := bufio.NewReader(bytes.NewReader(connection))
	posted := false
	for {
		if posted { // as conn.readRequest of net/http
			peek, _ := r.Peek(4)
			_, _ = r.Discard(len(peek) - len(bytes.TrimLeft(peek, "\r\n")))
		}
		rest, _ := io.ReadAll(r)
		if len(rest) == 0 {
			return requests, nil
		}
		twice := saysTwice(rest)
		r = bufio.NewReader(bytes.NewReader(rest))
		request, err := http.ReadRequest(r)
		switch {
		case err != nil:
			return requests, err
		case request.ProtoMajor != 1:
			return requests, errors.New("not of HTTP/1")
		case twice:
			return requests, errTwice
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return requests, err
		}
		posted = request.Method == http.MethodPost
		requests = append(requests, fmt.Sprintf("%s %s %q", request.Method, request.RequestURI, body))
	}
}

// saysTwice reports whether the first request is to be refused.
func saysTwice(connection []byte) bool {
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(connection)))
	line, err := r.ReadLine()
	if err != nil {
		return false
	}
	head, err := r.ReadMIMEHeader()
	_, length := head["Content-Length"]
	_, coding := head["Transfer-Encoding"]
	return err == nil && coding && (length || strings.HasSuffix(line, "1.0"))
}

// follow returns what is left of a connection that is read in pieces of the given sizes, in turns.
func follow(connection, sizes []byte) (left []byte, refused bool) {
	var f wire.Framing
	rest := bytes.Clone(connection)
	for i := 0; len(rest) > 0 && !f.Ended(); i++ {
		size := len(rest)
		if len(sizes) > 0 {
			size = min(size, 1+int(sizes[i%len(sizes)]))
		}
		n, twice := f.Follow(rest[:size])
		refused = refused || twice
		left, rest = append(left, rest[:n]...), rest[size:]
	}
	return left, refused
}

// checkFraming fails unless net/http reads of what is left of a connection the same requests up to the one that says
// its end twice, which it refuses, and all of a connection that has none.
func checkFraming(t *testing.T, connection, sizes []byte) {
	t.Helper()
	want, why := read(connection)
	left, refused := follow(connection, sizes)
	got, wrong := read(left)
	switch {
	case !slices.Equal(got, want):
		t.Errorf("%q in pieces of %v: got the requests %q, want %q", connection, sizes, got, want)
	case why == nil && (refused || !bytes.Equal(left, connection)):
		t.Errorf("%q in pieces of %v is all right, but refused (%t), or cut to %q", connection, sizes, refused, left)
	case why != nil && (wrong == nil || errors.Is(wrong, errTwice)):
		t.Errorf("%q in pieces of %v: got %v for %q, want an error as %v", connection, sizes, wrong, left, why)
	case errors.Is(why, errTwice) && !refused:
		t.Errorf("%q in pieces of %v is not refused", connection, sizes)
	}
}

const (
	get  = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
	both = "Host: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
)

// connections are requests in every shape that servers are known to read in different ways.
func connections() []string {
	lines := func(lines ...string) string { return strings.Join(lines, "\r\n") }
	post := func(headers string, body string) string {
		return "POST /a HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n\r\n" + body + get
	}
	return []string{
		get + get + get, "", "\r\n\r\n", "GET", lines("GET / HTTP/1.0", "", "") + get,
		"POST / HTTP/1.1\r\n" + both + "0\r\n\r\n" + get,
		get + "POST / HTTP/1.1\n" + strings.ReplaceAll(both, "\r", "") + get, "POST / HTTP/1.0\r\n" + both + "0\r\n\r\n" +
			get, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n5\r\n" + get,
		post("Content-Length: 5", "hello"), post("content-LENGTH:5", "hello\r\n"),
		post("Content-Length:\t 5 \t", "hello\r\n\r\n"), post("Content-Length: 5\r\nContent-Length: 5", "hello"),
		post("Content-Length: 5\r\nContent-Length: 6", "hello"),
		post("Content-Length: 5, 5", "hello"), post("Content-Length: +5", "hello"), post("Content-Length: 0x5", "hello"),
		post("Content-Length:", "hello"),
		post("Content-Length: 005", "hello"), post("Content-Length: 99999999999999999999", "hello"),
		post("Content-Length: 9223372036854775807", "hello"),
		post("Content-Length: 0", ""), post("Content-Length: -0", ""), post("Content-Length: 5\r", "hello"),
		post("Content-Length: 5\x00", "hello"),
		post("Content-Length:\r\n 5", "hello"), post("Content-Length:\n\t5\n ", "hello"),
		post("Content-Length: 1\r\n 0", "hello"), post("Content-Length: 5\r\n X: y", "hello"),
		post("Content-Length : 5", "hello"), post(" Content-Length: 5", "hello"), post("X: y\r\n Content-Length: 5", "hello"),
		post("X: y\r\n\tTransfer-Encoding: chunked\r\nContent-Length: 5", "hello"),
		post("X-Content-Length: 7\r\nContent-Length-X: 8\r\nContent_Length: 9\r\nContent-Length: 5", "hello"),
		post("Content-Length: 5\r\nTransfer-Encodin: x\r\nTransfer-Encodings: x", "hello"),
		post("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"),
		post("transfer-encoding:chunked", "5;a=b\r\nhello\r\n00 \r\nContent-Length: 5\r\n\r\n"),
		post("Transfer-Encoding: chunked", "5\nhello\r\n0\r\n\r\n"), post("Transfer-Encoding: chunked",
			"5\r\nhello0\r\n\r\n"), post("Transfer-Encoding: chunked", "5 ;a\r\nhello\r\n0\r\n\r\n"),
		post("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\nX: y\n\n"), post("Transfer-Encoding: chunked", "0\r\n\n"),
		post("Transfer-Encoding: chunked", "-1\r\n\r\n"),
		post("Transfer-Encoding: chunked", "0x5\r\nhello\r\n0\r\n\r\n"), post("Transfer-Encoding: chunked",
			"00000000000000005\r\nhello\r\n0\r\n\r\n"), post("Transfer-Encoding: chunked", "\r\n\r\n"),
		post("Transfer-Encoding: chunked", "5;a\rb\r\nhello\r\n0\r\n\r\n"),
		post("Transfer-Encoding: chunked", "5;"+strings.Repeat("a", 4092)+"\r\nhello\r\n0\r\n\r\n"),
		post("Transfer-Encoding: chunked", "5;"+strings.Repeat("a", 4093)+"\r\nhello\r\n0\r\n\r\n"),
		post("Transfer-Encoding: chunked", "0\r\n: x\r\n\r\n"),
		post("Transfer-Encoding: chunked", "ffffffffffffffff\r\nhello"),
		post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
		post("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"), post("Transfer-Encoding: xchunked", "0\r\n\r\n"),
		post("Transfer-Encoding: chunked\r\nContent-Length: 4", "0\r\n\r\n"),
		post("tRANSFER-eNCODING: chunked\r\nX: y\r\ncONTENT-lENGTH: 4", "0\r\n\r\n"),
		post("Content-Length: x\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
		post("Transfer-Encoding:\r\n chunked\r\nContent-Length: 4", "0\r\n\r\n"),
		post("Transfer-Encoding\r\n: chunked\r\nContent-Length: 4", "0\r\n\r\n"),
		post("Transfer-Encoding : chunked\r\nContent-Length: 4", "0000"+get),
		post("Transfer-Encoding: identity\r\nContent-Length: 5", "hello"), post("\rContent-Length: 5", "hello"),
		post("Content-Length: 5\r\nX:\x00y", "hello"),
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + both, "GET / HTTP/1.1\r\n", "GET /\r\n" + get, "GET / HTTP/2.0\r\n" + both,
		"PUT /2.0 HTTP/1.1\r\nContent-Length: 2\r\n\r\nab" + get, "POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhel",
		"PUT /a HTTP/1.1\r\nContent-Length: 1\r\n\r\na\r\n\r\n" + get, post("Content-Length: 5", "hello\r\n\r\n\r\n"),
	}
}

// A request that says its end twice is found wherever it stands, and nothing else is taken for one.
func TestFraming(t *testing.T) {
	t.Parallel()
	for _, connection := range connections() {
		for _, sizes := range []string{"", "\x00", "\x02\x00\x06", "\x1f"} {
			checkFraming(t, []byte(connection), []byte(sizes))
		}
	}
}

func FuzzFraming(f *testing.F) {
	for i, connection := range connections() {
		f.Add([]byte(connection), []byte(strings.Repeat("\x07", i%3)))
	}
	f.Fuzz(func(t *testing.T, connection, sizes []byte) { checkFraming(t, connection, sizes) })
}

// A connection that somebody takes over is followed no more.
func TestFramingReleased(t *testing.T) {
	t.Parallel()
	var f wire.Framing
	if n, refused := f.Follow([]byte(get)); n != len(get) || refused {
		t.Fatal("a request is refused")
	}
	f.Release()
	foreign := []byte("POST / HTTP/1.1\r\n" + both)
	if n, refused := f.Follow(foreign); n != len(foreign) || refused || !bytes.HasSuffix(foreign, []byte(both)) {
		t.Errorf("got %q, refused: %t", foreign[:n], refused)
	}
}

func BenchmarkFraming(b *testing.B) {
	request := []byte("GET /assets/app.js HTTP/1.1\r\nHost: shop.localhost:8080\r\nUser-Agent: Mozilla/5.0 (X11; Linux " +
		"x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Encoding: gzip, deflate, " +
		"br\r\nAccept-Language: en-US,en;q=0.5\r\nConnection: keep-alive\r\nCookie: a=b\r\n\r\n")
	var f wire.Framing
	for b.Loop() {
		if _, refused := f.Follow(request); refused {
			b.Fatal("it is refused")
		}
	}
}
