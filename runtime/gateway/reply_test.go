package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/gateway/page"
	"landfall.dev/landfall/runtime/registry"
)

// answers is a function whose answer a test makes of the event that came.
func answers(change func(e *event.Event)) plain {
	return func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		answer := event.Answer(e, "answer")
		change(&answer)
		return answer, nil
	}
}

// The function's event says status, headers, type and body of the answer.
func TestAnswers(t *testing.T) {
	t.Parallel()
	binary := "\x00\x01\xff\r\n\x7f"
	for _, c := range []struct {
		name    string
		set     func(e *event.Event)
		status  int
		body    string
		headers []string
	}{
		{"nothing", func(*event.Event) {}, 200, "", []string{"Content-Type", "", "Content-Length", "0"}},
		{"text without a protocol", func(e *event.Event) {
			e.SetDataContentType("text/plain")
			e.DataEncoded = []byte("hi")
		}, 200, "hi", []string{
			"Content-Type", "text/plain", "Content-Length", "2", "Cache-Control", "private, no-cache",
			"X-Content-Type-Options", "nosniff",
		}},
		{"JSON without a type", func(e *event.Event) {
			e.DataEncoded = []byte(`{"a":1}`)
		}, 200, `{"a":1}`, []string{"Content-Type", "application/json"}},
		{"bytes without a type", func(e *event.Event) {
			e.DataEncoded, e.DataBase64 = []byte(binary), true
		}, 200, binary, []string{
			"Content-Type", "application/octet-stream", "Content-Length", "6",
		}},
		{"bytes with a type", func(e *event.Event) {
			e.SetDataContentType("image/png")
			e.DataEncoded, e.DataBase64 = []byte(binary), true
		}, 200, binary, []string{"Content-Type", "image/png"}},
		{"status and headers", func(e *event.Event) {
			e.DataEncoded = []byte("{}")
			event.SetProtocol(e, event.Protocol{Status: 201, Headers: map[string][]string{
				"location": {"/orders/7"}, "x-many": {"1", "2"}, "Cache-Control": {"max-age=60"},
			}})
		}, 201, "{}", []string{"Location", "/orders/7", "X-Many", "1", "Cache-Control", "max-age=60"}},
		{"a redirect", func(e *event.Event) {
			event.SetProtocol(e, event.Protocol{Status: 303, Headers: map[string][]string{"Location": {"/elsewhere"}}})
		}, 303, "", []string{"Location", "/elsewhere"}},
		{"an error's status", func(e *event.Event) {
			e.DataEncoded = []byte(`{"error":"no"}`)
			event.SetProtocol(e, event.Protocol{Status: 404})
		}, 404, `{"error":"no"}`, nil},
		{"the highest status", func(e *event.Event) { event.SetProtocol(e, event.Protocol{Status: 599}) }, 599, "", nil},
		{"no content", func(e *event.Event) {
			e.DataEncoded = []byte("{}")
			event.SetProtocol(e, event.Protocol{Status: 204, Headers: map[string][]string{"Content-Length": {"2"}}})
		}, 204, "", []string{"Content-Length", ""}},
		{"nothing new", func(e *event.Event) { // RFC 9110, 15.3.6
			e.DataEncoded = []byte("{}")
			event.SetProtocol(e, event.Protocol{Status: 205})
		}, 205, "", []string{"Content-Length", "0"}},
		{"not modified", func(e *event.Event) {
			event.SetProtocol(e, event.Protocol{Status: 304, Headers: map[string][]string{"Etag": {`"a"`}}})
		}, 304, "", []string{"ETag", `"a"`, "Content-Length", ""}},
		{"a type among the headers", func(e *event.Event) {
			e.DataEncoded = []byte("<p>")
			event.SetProtocol(e, event.Protocol{Headers: map[string][]string{"content-type": {"text/html"}}})
		}, 200, "<p>", []string{"Content-Type", "text/html"}},
		{"two types: the event's", func(e *event.Event) {
			e.SetDataContentType("text/plain")
			e.DataEncoded = []byte("<p>")
			event.SetProtocol(e, event.Protocol{Headers: map[string][]string{"Content-Type": {"text/html"}}})
		}, 200, "<p>", []string{"Content-Type", "text/plain"}},
		{"its own lifetime", func(e *event.Event) {
			event.SetProtocol(e, event.Protocol{Headers: map[string][]string{"Expires": {"Fri, 31 Dec 9999 23:59:59 GMT"}}})
		}, 200, "", []string{"Cache-Control", "", "Expires", "Fri, 31 Dec 9999 23:59:59 GMT"}},
		{"the request's own protocol, handed back", func(e *event.Event) {
			event.SetProtocol(e, event.Protocol{Type: "http", Method: "GET", RequestURL: "http://x/",
				Headers: map[string][]string{"Authorization": {"mine"}}})
		}, 200, "", []string{"Authorization", ""}},
		{"what is not the function's to say", func(e *event.Event) {
			e.DataEncoded = []byte("{}")
			event.SetProtocol(e, event.Protocol{Headers: map[string][]string{
				"content-length": {"1000", "7"}, "Content-Length": {"3"}, "Transfer-Encoding": {"chunked"},
				"Connection": {"close, X-A"}, "Upgrade": {"websocket"}, "Keep-Alive": {"timeout=1"}, "trailer": {"X"},
				"landfall-release": {"zzzzzzz2"}, "Landfall-Execution": {"mine"}, "LANDFALL-VERSION": {"mine"},
				"X-Content-Type-Options": {"none"}, "x-a": {"1"},
			}})
		}, 200, "{}", []string{
			"Content-Length", "2", "Connection", "", "Upgrade", "", "Keep-Alive", "", "Trailer", "",
			"X-Content-Type-Options", "nosniff", page.VersionHeader, "vvvvvvv2", "X-A", "1",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, answers(c.set), nil, "/")
			answer := s.get(t, host, "/")
			answer.want(t, c.status, "aaaaaaa2", c.body)
			answer.wantHeaders(t, c.headers...)
			if got := answer.Header["X-Content-Type-Options"]; len(got) != 1 {
				t.Errorf("got X-Content-Type-Options %q, want one", got)
			}
			if len(answer.TransferEncoding) > 0 || len(answer.Header[page.ExecutionHeader]) != 1 ||
				answer.Header.Get(page.ExecutionHeader) == "mine" {
				t.Errorf("got transfer encoding %v and execution %v", answer.TransferEncoding, answer.Header[page.ExecutionHeader])
			}
		})
	}
}

// A function that hands back its event answers with its data, and nobody gets the headers of the request.
func TestEchoedRequest(t *testing.T) {
	t.Parallel()
	s := open(t, plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
		return e, nil
	}), nil, "POST /")
	answer := s.send(t, http.MethodPost, host, "/", strings.NewReader("hello"), "Content-Type", "text/plain",
		"X-Mine", "1")
	answer.want(t, http.StatusOK, "aaaaaaa2", "hello")
	// E-077: what belongs to the request is taken away from the answer
	answer.wantHeaders(t, "X-Mine", "", "Content-Type", "text/plain")
}

// The event of an answer has the headers of the response.
func TestHeadersOfAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, answers(func(e *event.Event) {
		e.SetDataContentType("text/plain")
		e.DataEncoded = []byte("made")
		event.SetProtocol(e, event.Protocol{Status: http.StatusCreated, Headers: map[string][]string{"X-Number": {"7"}}})
	}), nil, "POST /")
	answer := s.send(t, http.MethodPost, host, "/", http.NoBody)
	answer.want(t, http.StatusCreated, "aaaaaaa2", "made")
	answer.wantHeaders(t, "X-Number", "7", "Content-Type", "text/plain")
}

// A function gives no orders to a proxy in front of the server, which would answer with its own files: neither at a
// route nor at /r/, at once or in a stream, before its answer or behind it.
func TestOrdersToProxies(t *testing.T) {
	t.Parallel()
	orders := []string{
		"X-Accel-Redirect", "x-accel-REDIRECT", "X-Accel-Buffering", "X-Accel-Expires", "X-Accel-Charset",
		"X-Accel-Limit-Rate", "X_Accel_Redirect", "X-Sendfile", "x-SENDFILE", "X-Sendfile2", "X-Sendfile-Temporary",
		"X-LIGHTTPD-send-file", "X-Lighttpd-Send-Tempfile", "X-Reproxy-Url", "X-REPROXY-FILE", "X-Reproxy-Expected-Size",
		"X-LiteSpeed-Location",
	}
	headers := map[string][]string{"X-Mine": {"1"}, "X-Accelerated": {"yes"}, "Trailer": {strings.Join(orders, ", ")}}
	for _, order := range orders {
		headers[order] = []string{"/etc/passwd"}
	}
	for name, f := range map[string]function.Caller{
		"at once":  answers(func(e *event.Event) { event.SetProtocol(e, event.Protocol{Headers: headers}) }),
		"streamed": streaming(event.Protocol{Headers: headers, Streaming: true}, nil, nil, "piece"),
	} {
		content := newStore()
		app := routed(content, files{}, "", "/")
		app.Releases[0].Triggers = []*registry.Trigger{routeTo(greeter(), "greet", "").Trigger}
		s := newSite(t, content, func(c *gateway.Config) { c.Functions = f }, app)
		fired := httptest.NewRecorder()
		s.gateway.Fire(fired, httptest.NewRequest(http.MethodGet, "http://"+domain+"/r/team/shop/greet", http.NoBody))
		routed := s.get(t, host, "/")
		for _, answer := range []*http.Response{routed.Response, fired.Result()} {
			if answer.StatusCode != http.StatusOK || answer.Header.Get("X-Mine") != "1" ||
				answer.Header.Get("X-Accelerated") != "yes" {
				t.Fatalf("%s: got %d with %v", name, answer.StatusCode, answer.Header)
			}
			for _, all := range []http.Header{answer.Header, answer.Trailer} {
				for given := range all {
					// K-019: headers by which a proxy serves its own files never leave a function's answer
					if slices.ContainsFunc(orders, func(order string) bool { return strings.EqualFold(order, given) }) {
						t.Errorf("%s: the header %s left", name, given)
					}
				}
			}
		}
	}
	for name, p := range map[string]event.Protocol{
		"before":  {Status: http.StatusEarlyHints, Headers: map[string][]string{"X-Accel-Redirect": {"/x"}}},
		"trailer": {Headers: map[string][]string{http.TrailerPrefix + "X-Accel-Redirect": {"/x"}}},
	} {
		s := open(t, answers(func(e *event.Event) { event.SetProtocol(e, p) }), nil, "/")
		if answer := s.get(t, host, "/"); answer.StatusCode != http.StatusBadGateway ||
			answer.Header.Get("X-Accel-Redirect") != "" {
			t.Errorf("%s: got %d with %v, want 502", name, answer.StatusCode, answer.Header)
		}
	}
}

// Cookies are for the host that sets them alone: below the domain are other apps.
func TestCookiesOfAnswer(t *testing.T) {
	t.Parallel()
	cookies := map[string]string{
		"a=1":                              "a=1",
		"a=domain":                         "a=domain",
		"a=1; Path=/; HttpOnly":            "a=1; Path=/; HttpOnly",
		"a=1; Domain=releases.test":        "a=1",
		"a=1; DOMAIN = .releases.test ; b": "a=1; b",
		"a=1;domain=shop.releases.test;Domain=other.test; Secure": "a=1; Secure",
		"a=1;\tdomain=releases.test":                              "a=1",
		"a=1; Domain":                                             "a=1",
		"domain=1; SameSite=Lax":                                  "domain=1; SameSite=Lax",
	}
	for given, want := range cookies {
		s := open(t, answers(func(e *event.Event) {
			event.SetProtocol(e, event.Protocol{Headers: map[string][]string{"set-cookie": {given, "z=2"}}})
		}), nil, "/")
		if got := s.get(t, host, "/").Header["Set-Cookie"]; !slices.Equal(got, []string{want, "z=2"}) {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
}

// What HTTP cannot answer with is a documented error, and the connection goes on as if nothing had been.
func TestIllegalAnswers(t *testing.T) {
	t.Parallel()
	headers := func(h map[string][]string) func(*event.Event) {
		return func(e *event.Event) { event.SetProtocol(e, event.Protocol{Headers: h}) }
	}
	many := map[string][]string{}
	for i := range 10_000 {
		many[fmt.Sprintf("X-%d", i)] = []string{"value"}
	}
	status := func(status int) func(*event.Event) {
		return func(e *event.Event) {
			e.DataEncoded = []byte(`"body"`)
			event.SetProtocol(e, event.Protocol{Status: status})
		}
	}
	for name, set := range map[string]func(*event.Event){
		"status 999": status(999), "status 600": status(600), "status 199": status(199), "status 101": status(101),
		"status 100": status(100),
		"status 99":  status(99), "status 1": status(1), "status -200": status(-200), "status 2000": status(2000),
		"a second header":                headers(map[string][]string{"X-A": {"1\r\nSet-Cookie: a=1"}}),
		"a second response":              headers(map[string][]string{"X-A": {"1\r\n\r\nHTTP/1.1 200 OK\r\n"}}),
		"a line feed":                    headers(map[string][]string{"X-A": {"1\nX-B: 2"}}),
		"a carriage return":              headers(map[string][]string{"X-A": {"1\rX-B: 2"}}),
		"a zero":                         headers(map[string][]string{"X-A": {"1\x002"}}),
		"a name of two lines":            headers(map[string][]string{"X-A: 1\r\nX-B": {"2"}}),
		"a name with a space":            headers(map[string][]string{"X A": {"1"}}),
		"no name":                        headers(map[string][]string{"": {"1"}}),
		"a trailer":                      headers(map[string][]string{"Trailer:X-A": {"1"}}),
		"a name that is no text":         headers(map[string][]string{"X-é": {"1"}}),
		"an illegal one that is dropped": headers(map[string][]string{"Connection": {"a\r\nb"}}),
		"a control byte in its type":     func(e *event.Event) { e.SetDataContentType("text/html; a=\"\x01\"") },
		"a huge value":                   headers(map[string][]string{"X-A": {strings.Repeat("a", 1<<20)}}),
		"10,000 headers":                 headers(many),
		"a protocol that is none":        func(e *event.Event) { e.SetExtension("protocol", "POST") },
		"headers that are none":          func(e *event.Event) { e.SetExtension("protocol", `{"headers": {"X-A": "1"}}`) },
		"an error that is none":          func(e *event.Event) { e.SetExtension("error", `{"message": ""}`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, plain(func(_ context.Context, _ *landfall.Function, e event.Event) (event.Event, error) {
				answer := event.Answer(e, "answer")
				if p, err := event.ProtocolOf(e); err != nil || p.Params["what"] != "good" {
					set(&answer)
				}
				return answer, nil
			}), nil, "/{what}")
			answer := s.get(t, host, "/bad")
			// N-024: illegal headers and statuses are a documented error
			answer.wantPage(t, http.StatusBadGateway, "aaaaaaa2", answer.Header.Get(page.ExecutionHeader))
			answer.wantHeaders(t, "X-A", "", "X-B", "", "Set-Cookie", "", "X-1", "")
			again := false
			trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
				again = c.Reused
			}})
			r, err := http.NewRequestWithContext(trace, http.MethodGet, s.url+"/good", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			good, err := s.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			good.Body.Close()
			// N-024: the connection stays sane
			if !again || good.StatusCode != http.StatusOK {
				t.Errorf("got status %d on the same connection: %t, want 200 on the same", good.StatusCode, again)
			}
		})
	}
}

// Why an answer is refused has words of the answer. The log has them without secrets, also when the answer is streamed.
func TestRefusedAnswerHidesSecrets(t *testing.T) {
	t.Parallel()
	const value = "canary 6f1d2c"
	for _, streamed := range []bool{false, true} {
		s := open(t, function.CallerFunc(func(_ context.Context, c function.Call) (event.Event, error) {
			answer := event.Answer(c.Event, "answer")
			event.SetProtocol(&answer, event.Protocol{Headers: map[string][]string{value: {"1"}}})
			if streamed {
				return event.Event{}, c.Stream.Begin(answer)
			}
			return answer, nil
		}), func(c *gateway.Config) {
			c.Redact = func(f *landfall.Function, text string) string {
				return strings.ReplaceAll(text, value, "[secret of "+f.Name+"]")
			}
		}, "/")
		html := s.get(t, host, "/")
		html.wantPage(t, http.StatusBadGateway, "aaaaaaa2", "execution")
		if log := s.log.String(); strings.Contains(log+html.body, value) || !strings.Contains(log, "[secret of greeter]") ||
			!strings.Contains(log, "protocol") {
			t.Errorf("streamed %t: got the log %q, want why, without the secret", streamed, log)
		}
	}
}

// Who records the call learns whether HTTP can answer with what the function said, and the answer is the same.
func TestJudgedAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, function.CallerFunc(func(_ context.Context, c function.Call) (event.Event, error) {
		answer := event.Answer(c.Event, "answer")
		answer.DataEncoded = []byte("7")
		switch p, _ := event.ProtocolOf(c.Event); {
		case strings.HasSuffix(p.RequestURL, "/illegal"):
			event.SetProtocol(&answer, event.Protocol{Headers: map[string][]string{"X-Early": {"1"}, "not a name": {"1"}}})
		case strings.HasSuffix(p.RequestURL, "/error"):
			event.SetProtocol(&answer, event.Protocol{Status: http.StatusConflict,
				Headers: map[string][]string{"X-Early": {"1"}}})
			event.SetError(&answer, event.Error{Message: "it is sold"})
		default:
			event.SetProtocol(&answer, event.Protocol{Status: http.StatusCreated, Headers: map[string][]string{"X-Many": {"1"}}})
		}
		return answer, c.Recipient.Judge(answer)
	}), nil, "/")
	good := s.get(t, host, "/")
	good.want(t, http.StatusCreated, "aaaaaaa2", "7")
	if got := good.Header["X-Many"]; !slices.Equal(got, []string{"1"}) {
		t.Errorf("got X-Many %q, want it once", got)
	}
	bad := s.get(t, host, "/illegal")
	bad.wantPage(t, http.StatusBadGateway, "aaaaaaa2", "execution")
	bad.wantHeaders(t, "X-Early", "")
	failed := s.get(t, host, "/error")
	failed.wantPage(t, http.StatusConflict, "aaaaaaa2", "it is sold")
	failed.wantHeaders(t, "X-Early", "")
}
