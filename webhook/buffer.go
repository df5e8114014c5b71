package webhook

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

const (
	// chunkSize is also what a request may take before it has sent anything, so that many slow senders cannot use up
	// the budget.
	chunkSize = 16 << 10

	// largeBody is the size from which a body may use only three quarters of the budget, so that the usual small
	// payloads are accepted while somebody sends large ones.
	largeBody = 1 << 20
)

type chunk [chunkSize]byte

// budget is the memory for all bodies together. Chunks are used again, so that requests of strangers make no garbage.
type budget struct {
	used   atomic.Int64
	unused sync.Pool // of *chunk
}

// bodyBuffer is the part of the budget that one request uses: its body, until its signature is verified.
type bodyBuffer struct {
	budget *budget
	limit  int64
	mine   int64

	chunks []*chunk
	last   int // bytes in the last chunk
}

// take adds n bytes, or refuses.
func (h *bodyBuffer) take(n int64) error {
	limit := h.limit
	if h.mine+n > largeBody {
		limit -= limit / 4
	}
	if h.budget.used.Add(n) > limit {
		h.budget.used.Add(-n)
		return unread(http.StatusServiceUnavailable, "too many payloads are arriving; deliver it again later", nil)
	}
	h.mine += n
	return nil
}

// release gives everything back.
func (h *bodyBuffer) release() {
	for _, c := range h.chunks {
		h.budget.unused.Put(c)
	}
	h.chunks = nil
	h.budget.used.Add(-h.mine)
	h.mine = 0
}

// fill reads body to its end. It takes memory as the body arrives, whatever length was announced.
func (h *bodyBuffer) fill(body io.Reader) error {
	for {
		if len(h.chunks) == 0 || h.last == chunkSize {
			if err := h.take(chunkSize); err != nil {
				return err
			}
			c, ok := h.budget.unused.Get().(*chunk)
			if !ok {
				c = new(chunk)
			}
			h.chunks = append(h.chunks, c)
			h.last = 0
		}
		n, err := body.Read(h.chunks[len(h.chunks)-1][h.last:])
		h.last += n
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// writeTo writes the body to w, which must not fail.
func (h *bodyBuffer) writeTo(w io.Writer) {
	for i, c := range h.chunks {
		n := chunkSize
		if i == len(h.chunks)-1 {
			n = h.last
		}
		_, _ = w.Write(c[:n])
	}
}

// bytes returns the body, which belongs to the buffer until release.
func (h *bodyBuffer) bytes() []byte {
	if len(h.chunks) == 1 {
		return h.chunks[0][:h.last]
	}
	var body bytes.Buffer
	body.Grow((len(h.chunks)-1)*chunkSize + h.last)
	h.writeTo(&body)
	return body.Bytes()
}
