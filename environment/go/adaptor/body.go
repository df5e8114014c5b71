//go:build go1.21

package adaptor

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
)

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
