package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
)

// Queues keep the messages of apps.
type Queues interface {
	// Publish stores a message at a topic of an app, on the disk when it returns, and returns it with its number.
	Publish(ctx context.Context, app landfall.App, m landfall.Message) (landfall.Message, error)
	// Read returns messages from the first behind a number, no more than limit, and whether there may be more. It takes
	// none away.
	Read(ctx context.Context, app landfall.App, pattern string, after uint64, limit int) ([]landfall.Message, bool, error)
}

// maxMessage is how many bytes a message may have: as many as an event.
const maxMessage = 6 << 20

func (a *api) registerMessages(h huma.API) {
	registerOn(a, h, invoking("publish", http.MethodPost, "/apps/{app}/messages/{topic}",
		"Store a message at a topic, for the queue triggers that hear it; ce-… headers make it a CloudEvent").
		answering(http.StatusAccepted).taking(maxMessage), a.publish)
	// an event may have no data; huma demands a raw body
	h.OpenAPI().Paths[base+"/apps/{app}/messages/{topic}"].Post.RequestBody.Required = false
	registerOn(a, h, invoking("read-messages", http.MethodGet, "/apps/{app}/messages/{topic}",
		"The messages that are kept at a topic, or at all that a pattern (*, >) names, oldest first; none is taken away"),
		a.readMessages)
}

// Published is a message as a request brings it.
type Published struct {
	AppPath

	Topic       string `path:"topic" doc:"words of letters, digits, - and _ with dots between"`
	Key         string `header:"Idempotency-Key" maxLength:"200" doc:"a message of the same key is stored once in two minutes"`
	ContentType string `header:"Content-Type"`
	RawBody     []byte `contentType:"application/octet-stream"`

	attributes map[string][]string
}

// Resolve implements huma.Resolver: it keeps the headers that make a message an event.
func (p *Published) Resolve(ctx huma.Context) []error {
	p.attributes = map[string][]string{}
	ctx.EachHeader(func(name, value string) {
		if strings.HasPrefix(strings.ToLower(name), "ce-") {
			p.attributes[name] = append(p.attributes[name], value)
		}
	})
	return nil
}

func (a *api) publish(ctx context.Context, app landfall.App, in *Published) (*body[client.Stored], error) {
	m := landfall.Message{Topic: in.Topic, ID: in.Key, Header: in.attributes, Data: in.RawBody}
	if in.ContentType != "" {
		m.Header["Content-Type"] = []string{in.ContentType}
	}
	m, err := a.Queues.Publish(ctx, app, m)
	return answer(client.Stored{Topic: m.Topic, Sequence: m.Sequence, Duplicate: m.Duplicate}, err)
}

func (a *api) readMessages(ctx context.Context, app landfall.App, in *struct {
	AppPath
	Paging

	Topic string `path:"topic"`
	After uint64 `query:"after" doc:"only messages behind this number"`
}) (*body[page[client.Message]], error) {
	after := in.After
	if in.Cursor != "" {
		var err error
		if after, err = strconv.ParseUint(in.Cursor, 10, 64); err != nil {
			return nil, landfall.Errorf("api", landfall.Invalid, "the cursor %q is none of this list", in.Cursor)
		}
	}
	messages, more, err := a.Queues.Read(ctx, app, in.Topic, after, in.Limit)
	if err != nil {
		return nil, err
	}
	p := listOf(messages, shownMessage)
	if more && len(messages) > 0 {
		p.Next = strconv.FormatUint(messages[len(messages)-1].Sequence, 10)
	}
	return answer(p, nil)
}

// shownMessage returns a message as it is shown: its data as text, if it is text.
func shownMessage(m landfall.Message) client.Message {
	shown := client.Message{Topic: m.Topic, Sequence: m.Sequence, ID: m.ID, Time: m.Time, Headers: m.Header}
	if utf8.Valid(m.Data) {
		shown.Data = string(m.Data)
	} else {
		shown.DataBase64 = m.Data
	}
	return shown
}
