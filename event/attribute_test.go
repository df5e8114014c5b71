package event_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"landfall.dev/landfall/event"
)

// What an event's protocol says can be read again, by any library for JSON, whatever a stranger's headers have in them.
func TestProtocol(t *testing.T) {
	t.Parallel()
	name := rapid.String()
	rapid.Check(t, func(t *rapid.T) {
		want := event.Protocol{
			Type: name.Draw(t, "type"), Method: name.Draw(t, "method"), RequestURL: name.Draw(t, "address"),
			Status:  rapid.Int().Draw(t, "status"),
			Headers: rapid.MapOf(name, rapid.SliceOf(name)).Draw(t, "headers"),
			Params:  rapid.MapOf(name, name).Draw(t, "params"),
		}
		maps.DeleteFunc(want.Headers, func(_ string, values []string) bool { return len(values) == 0 })
		if len(want.Headers) == 0 {
			want.Headers = nil
		}
		if len(want.Params) == 0 {
			want.Params = nil
		}
		e := event.New()
		event.SetProtocol(&e, want)
		got, err := event.ProtocolOf(e)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("got another protocol (%v): %s", err, diff)
		}
		text, _ := e.Extensions()["protocol"].(string)
		var other event.Protocol
		if err := json.Unmarshal([]byte(text), &other); err != nil || !cmp.Equal(want, other) {
			t.Fatalf("another library reads %+v of %s: %v", other, text, err)
		}
	})
}
