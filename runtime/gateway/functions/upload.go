package functions

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway/page"
)

// upload is the body of a request that its function reads while it comes. Nothing of it is held: a function that reads
// slowly holds the client up, and a client that sends nothing for the time that a body has is cut off.
type upload struct {
	r       *http.Request
	control *http.ResponseController
	most    int64         // bytes
	idle    time.Duration // without one
	taken   atomic.Int64

	reading sync.Mutex // held by a Read

	mu      sync.Mutex // guards what is below, and the deadline
	until   time.Time  // when the client has been silent for too long
	stopped bool
	ended   bool      // there is no more of it
	refused page.Page // why it broke off; status 0: it did not
}

var _ function.Body = (*upload)(nil)

// upload returns the body of a request as the function takes it, or nil: it is read as a whole then.
func (s *Server) upload(w http.ResponseWriter, r *http.Request, f *landfall.Function) *upload {
	if f.Body == 0 || r.ContentLength == 0 {
		return nil
	}
	u := &upload{r: r, control: http.NewResponseController(w), most: f.Body, idle: s.config.BodyTimeout}
	if r.ContentLength > u.most {
		u.refused = pageTooLarge(u.most)
	}
	// Without it, net/http would read the rest before it answers. A writer that has no connection needs none.
	_ = u.control.EnableFullDuplex()
	return u
}

// errNobodyReads is what a function is told that reads on when its call is over.
var errNobodyReads = landfall.Errorf("gateway.upload", landfall.Canceled, "the call is over")

// Read implements function.Body.
func (u *upload) Read(p []byte) (int, error) {
	u.reading.Lock()
	defer u.reading.Unlock()
	if !u.await() {
		return 0, errNobodyReads
	}
	n, err := u.r.Body.Read(p)
	u.mu.Lock()
	defer u.mu.Unlock()
	// net/http ends the request's context before it says that the time is over, and the call, which ends with that, may
	// have stopped this one by now.
	late := errors.Is(err, os.ErrDeadlineExceeded) && (!u.stopped || !time.Now().Before(u.until))
	switch {
	case u.taken.Add(int64(n)) > u.most:
		return 0, u.refuse(pageTooLarge(u.most), landfall.Invalid,
			fmt.Sprintf("it is larger than the limit of %d bytes", u.most))
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		u.ended = true
		return n, io.EOF
	case late:
		return n, u.refuse(pageIdle(u.idle), landfall.Canceled, fmt.Sprintf("nothing of it came for %s", u.idle))
	case u.stopped:
		return n, errNobodyReads
	}
	return n, u.refuse(pageHalf(), landfall.Canceled, "the client went away")
}

// refuse returns the error for what breaks off, and keeps what the client is told. The caller holds the lock.
func (u *upload) refuse(p page.Page, kind landfall.Kind, message string) error {
	u.refused, u.stopped = p, true
	return &landfall.Error{Op: "gateway.upload", Kind: kind, Message: message}
}

// await lets a Read wait for as long as a client may send nothing, unless there is to be no Read any more.
func (u *upload) await() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped || u.ended {
		return false
	}
	u.until = time.Now().Add(u.idle)
	_ = u.control.SetReadDeadline(u.until) // a writer that has no connection has no deadline
	return true
}

// Stop implements function.Body.
func (u *upload) Stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.stopped && !u.ended {
		u.stopped = true
		_ = u.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// Taken implements function.Body.
func (u *upload) Taken() int64 { return u.taken.Load() }

// head says in the head of an answer that it is the connection's last, unless the body was read to its end: what is
// left of it is nobody's request.
func (u *upload) head(h http.Header) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.ended {
		h.Set("Connection", "close")
	}
}

// answer answers a request whose body broke off, and reports whether it did.
func (u *upload) answer(w http.ResponseWriter, r *http.Request) bool {
	if u == nil {
		return false
	}
	u.Stop()
	u.reading.Lock() // whoever reads knows why it broke off in a moment
	defer u.reading.Unlock()
	u.mu.Lock()
	refused := u.refused
	u.mu.Unlock()
	if refused.Status == 0 {
		return false
	}
	page.Write(w, r, refused)
	return true
}

// lingering is how long net/http may read what is left of a body, so that a client that still sends gets the answer.
const lingering = 2 * time.Second

// end ends it, whoever reads. The request is net/http's again.
func (u *upload) end() {
	if u == nil {
		return
	}
	u.Stop()
	u.reading.Lock()
	defer u.reading.Unlock()
	if !u.ended {
		_ = u.control.SetReadDeadline(time.Now().Add(lingering))
	}
}
