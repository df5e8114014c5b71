package webhook_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/testkit"
)

// Senders who come to no end, within the head of a request or within its body, keep no delivery out.
func TestSlowSenders(t *testing.T) {
	t.Parallel()
	w := forge.NewWorld(t)
	h, _ := w.Follow("shop")
	head := "POST /webhooks/github HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	body := fmt.Sprintf("X-Hub-Signature-256: sha256=%064d\r\nContent-Length: %d\r\n\r\n{", 0, 25<<20)
	for i := range dose(t, "LANDFALL_SLOW_SENDERS", 500) {
		connection := testkit.Must(net.Dial("tcp", "127.0.0.1:"+w.Port))(t)
		t.Cleanup(func() { connection.Close() })
		said := head
		if i%2 == 1 {
			said += body
		}
		testkit.Must(io.WriteString(connection, said))(t)
	}
	commit, push := h.Release("one")
	got, err := forge.TryPost(w.Installation().URL, push, forge.Signature(forge.WebhookSecret, push.Body))
	// S2: a good delivery is taken beside them
	if err != nil || got.Status != http.StatusAccepted {
		t.Fatalf("a delivery got %+v, %v; want 202", got, err)
	}
	w.Ends("shop", commit, landfall.RunSucceeded)
}
