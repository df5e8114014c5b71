package webhook_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall/webhook"
)

const bogus = "sha256=0000000000000000000000000000000000000000000000000000000000000000"

// blanks never ends.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// unverified is a request without a good signature, of undeclared length.
func (d *door) unverified(t *testing.T, body io.Reader) *http.Request {
	t.Helper()
	r := d.delivery(t, "push", "d-1", nil)
	r.ContentLength = -1
	r.GetBody = nil
	r.Body = io.NopCloser(body)
	r.Header.Set("X-Hub-Signature-256", bogus)
	return r
}

// Bodies that nobody vouches for take no more memory than the budget. It measures the heap of the process, so it must
// not run beside other tests; Setenv sees to that.
func TestMemoryOfUnverifiedBodies(t *testing.T) {
	t.Setenv("LANDFALL_TEST", "alone")
	const budget, allowance = 32 << 20, 64 << 20
	d := open(t, func(h *webhook.Handler) { h.Budget = budget })
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			response, err := http.DefaultClient.Do(d.unverified(t, io.LimitReader(blanks{}, 100<<20)))
			if err != nil {
				return // refused while the body was still on its way
			}
			defer response.Body.Close()
			if s := response.StatusCode; s != http.StatusServiceUnavailable && s != http.StatusRequestEntityTooLarge {
				t.Errorf("got %d, want 413 or 503", s)
			}
		})
	}
	all.Wait()
	runtime.ReadMemStats(&after)
	// S1: they take no more than their budget
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > budget+allowance {
		t.Errorf("the heap grew by %d MiB, want at most %d MiB", grown>>20, (budget+allowance)>>20)
	}
	if got := send(t, d.delivery(t, "push", "d-2", fixture(t, "push_branch_update"))); got.status != http.StatusAccepted {
		t.Errorf("afterwards a good push gets %d, want 202: the budget is given back", got.status)
	}
}

// While large unverified bodies fill the budget, further large ones are turned away and usual pushes still get in.
func TestBudgetKeepsRoomForSmallBodies(t *testing.T) {
	t.Parallel()
	d := open(t, func(h *webhook.Handler) { h.Budget, h.BodyTimeout = 16<<20, time.Hour })
	stop, release := io.Pipe()
	defer release.Close()
	for range 3 { // each comes to hold 3.9 of the 12 MiB that are for large bodies, and waits with the rest
		go func() {
			for t.Context().Err() == nil {
				response, err := http.DefaultClient.Do(d.unverified(t, io.MultiReader(io.LimitReader(blanks{}, 3900<<10), stop)))
				if err == nil {
					response.Body.Close()
				}
			}
		}()
	}
	deadline := time.Now().Add(time.Minute)
	for {
		got := send(t, d.unverified(t, io.LimitReader(blanks{}, 2<<20)))
		if got.status == http.StatusServiceUnavailable {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a large body gets %d, want 503 while the budget is used up", got.status)
		}
	}
	if got := send(t, d.delivery(t, "push", "d-2", fixture(t, "push_branch_update"))); got.status != http.StatusAccepted {
		t.Errorf("a usual push gets %d, want 202", got.status)
	}
}

// declaring is the head of a request that declares a large body, which never comes.
func declaring() string {
	return "POST " + webhook.Path + " HTTP/1.1\r\nHost: landfall.test\r\nContent-Type: application/json\r\n" +
		"X-Hub-Signature-256: " + bogus + "\r\n" + fmt.Sprintf("Content-Length: %d\r\n", webhook.MaxBody)
}

// A sender who declares much and sends nothing holds next to nothing.
func TestDeclaredLengthIsNotBelieved(t *testing.T) {
	t.Parallel()
	d := open(t, func(h *webhook.Handler) { h.Budget, h.BodyTimeout = 4<<20, time.Hour })
	body := fixture(t, "push_branch_update")
	for i := range 100 {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { connection.Close() })
		if _, err := io.WriteString(connection, declaring()+"\r\n"); err != nil {
			t.Fatal(err)
		}
		if got := send(t, d.delivery(t, "push", fmt.Sprintf("d-%d", i), body)); got.status != http.StatusAccepted {
			// S2: and keeps no good push out
			t.Fatalf("beside %d slow senders a good push gets %d, want 202", i+1, got.status)
		}
	}
}

// A sender who never comes to the end is not waited for.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	d := open(t, func(h *webhook.Handler) { h.BodyTimeout = 100 * time.Millisecond })
	if got := headOnly(t, d, declaring()); got.status != http.StatusRequestTimeout {
		t.Errorf("got %d %s, want 408", got.status, got.Detail)
	}
	if log := d.log.String(); !strings.Contains(log, "status=408") {
		t.Errorf("the log does not say why: %q", log)
	}
}
