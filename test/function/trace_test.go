package function_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// collector receives spans by OTLP over HTTP.
type collector struct {
	url string

	mu       sync.Mutex
	spans    map[string]*tracepb.Span // by their ids
	raw      bytes.Buffer             // all that came
	resource map[string]string
	problem  string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{spans: map[string]*tracepb.Span{}, resource: map[string]string{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// settings are what the server is told.
func (c *collector) settings() []string {
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url + "/base", "OTEL_EXPORTER_OTLP_HEADERS=x-api-key=of%20the%20collector",
		"OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test",
	}
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	var request collectorpb.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if at := r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + " " +
		r.Header.Get("X-Api-Key"); err != nil ||
		at != "POST /base/v1/traces application/x-protobuf of the collector" {
		c.problem = fmt.Sprintf("%s: %v", at, err)
	}
	c.raw.Write(body)
	for _, of := range request.GetResourceSpans() {
		for _, attribute := range of.GetResource().GetAttributes() {
			c.resource[attribute.GetKey()] = attribute.GetValue().GetStringValue()
		}
		for _, scope := range of.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans[hex.EncodeToString(span.GetSpanId())] = span
			}
		}
	}
	answer, _ := proto.Marshal(&collectorpb.ExportTraceServiceResponse{})
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer)
}

// trace returns the spans of a trace: each as its names from the root, which is where a parent is unknown.
func (c *collector) trace(id string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, span := range c.spans {
		if hex.EncodeToString(span.GetTraceId()) == id {
			all = append(all, c.path(span))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (c *collector) path(span *tracepb.Span) string {
	if parent := c.spans[hex.EncodeToString(span.GetParentSpanId())]; parent != nil {
		return c.path(parent) + " > " + span.GetName()
	}
	return span.GetName()
}

// traces returns the ids of all traces whose root has a name.
func (c *collector) traces(root string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := map[string]bool{}
	for _, span := range c.spans {
		if span.GetName() == root && len(span.GetParentSpanId()) == 0 {
			ids[hex.EncodeToString(span.GetTraceId())] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// resources returns what the spans say of the process that made them.
func (c *collector) resources() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.resource)
}

// attributes returns what a span of a trace says.
func (c *collector) attributes(trace, path string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]string{}
	for _, span := range c.spans {
		if hex.EncodeToString(span.GetTraceId()) != trace || c.path(span) != path {
			continue
		}
		for _, a := range span.GetAttributes() {
			all[a.GetKey()] = a.GetValue().GetStringValue()
			if n := a.GetValue().GetIntValue(); n != 0 {
				all[a.GetKey()] = fmt.Sprint(n)
			}
		}
		for _, link := range span.GetLinks() {
			all["link"] = hex.EncodeToString(link.GetTraceId())
		}
	}
	return all
}

// wait waits until a trace has spans.
func (c *collector) wait(s *site.Site, trace string, paths ...string) {
	s.T.Helper()
	s.Eventually("the collector has the spans", func() bool {
		got := c.trace(trace)
		return !slices.ContainsFunc(paths, func(path string) bool { return !slices.Contains(got, path) })
	})
}

// WantSaid fails the test unless a span says what is wanted.
func wantSaid(t *testing.T, got map[string]string, want ...string) {
	t.Helper()
	for i := 0; i < len(want); i += 2 {
		if got[want[i]] != want[i+1] {
			t.Errorf("got %s %q, want %q (of %v)", want[i], got[want[i]], want[i+1], got)
		}
	}
}

// An operator sees from the webhook to the commit status where the time went, and what the server logged of it.
func TestTraceOfPush(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	w := forge.NewReportingWorld(t, c.settings()...)
	h, _ := w.Follow("shop")
	h.Write("specs/app.yaml", site.AppSpec("shop", "config: {password: hunter2}"), "site/index.html", "<h1>one</h1>")
	commit := h.Commit("Open the shop")
	w.Hears(h.Send("main"))
	forge.WantEnds(t, w, "shop", commit, landfall.RunSucceeded, "Released")

	const door = "POST /webhooks/github"
	w.Eventually("there is a trace", func() bool { return len(c.traces(door)) == 1 })
	id := c.traces(door)[0]
	run := door + " > run"
	paths := []string{door, run, door + " > report", door + " > report > POST"}
	for _, step := range []string{"fetch", "read", "plan", "build", "upload", "commit", "swap"} {
		paths = append(paths, run+" > "+step)
	}
	c.wait(w.Site, id, paths...)
	slices.Sort(paths)
	testkit.EqualList(t, "spans of the push", c.trace(id), paths)
	wantSaid(t, c.attributes(id, door), "http.request.method", "POST", "http.route", "/webhooks/github",
		"http.response.status_code", "202")
	wantSaid(t, c.attributes(id, run), "cicd.pipeline.name", "shop", "vcs.ref.head.name", "main", "vcs.ref.head.revision",
		string(commit))
	wantSaid(t, c.attributes(id, run+" > fetch"), "cicd.pipeline.task.name", "fetch")
	wantSaid(t, c.attributes(id, door+" > report > POST"), "url.path", "/repos/harbor/shop/statuses/"+string(commit),
		"http.response.status_code", "201")
	wantSaid(t, c.resources(), "service.name", "landfall", "deployment.environment.name", "test")
	testkit.Contains(t, site.Told{w.Log.String()}, `"msg":"webhook accepted"`)
	for line := range strings.SplitSeq(w.Log.String(), "\n") {
		if strings.Contains(line, "webhook accepted") && !strings.Contains(line, `"trace":"`+id+`"`) {
			t.Errorf("the log says %s, without the trace %s", line, id)
		}
	}
	h.Git("switch", "--quiet", "-c", "feature")
	_, push := h.Release("two")
	w.Hears(push, h.Pull("opened", 12, "feature"))
	w.Says(h, 12, "preview ready")
	w.Eventually("the comment has a trace", func() bool {
		return slices.ContainsFunc(c.traces("comment"), func(id string) bool {
			return slices.Contains(c.trace(id), "comment > POST")
		})
	})
	wantSaid(t, c.attributes(c.traces("comment")[0], "comment"), "vcs.change.id", "12", "vcs.repository.name", "shop",
		"cicd.pipeline.task.name", "report")
	wantQuietSpans(t, c, "hunter2", forge.WebhookSecret, forge.APIToken, w.Token)
}

// wantQuietSpans fails the test when the collector could not read what came, or got what is nobody's business.
func wantQuietSpans(t *testing.T, c *collector, secrets ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problem != "" {
		t.Errorf("the collector got what it did not expect: %s", c.problem)
	}
	for _, secret := range secrets {
		if bytes.Contains(c.raw.Bytes(), []byte(secret)) {
			t.Errorf("the spans have %q", secret)
		}
	}
}

// A push to the built-in remote is a trace as well.
func TestTraceOfGitPush(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := site.New(t, c.settings()...)
	r := s.Repository(s.App("shop"))
	r.Write("specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page")
	s.Pushed(r, "shop", "Open the shop")
	const door = "POST /git/{repository}"
	of := func() string {
		i := slices.IndexFunc(c.traces(door), func(id string) bool {
			return slices.Contains(c.trace(id), door+" > run > commit")
		})
		if i < 0 {
			return ""
		}
		return c.traces(door)[i]
	}
	s.Eventually("there is a trace", func() bool { return of() != "" })
	c.wait(s, of(), door, door+" > run > swap")
	wantQuietSpans(t, c, s.Token)
}

// traced is a function that tells what trace it is in.
const traced = `def main(event):
    if (event.get('data') or {}).get('fail'):
        raise ValueError('canary of the message')
    return event.get('traceparent', 'none')
`

// An operator sees which function a request, an event or a schedule was for, and the function can go on with the trace.
// What a visitor says of traces is a link at most.
func TestTraceOfFunction(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := site.New(t, c.settings()...)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main")+`---
apiVersion: fission.io/v1
kind: TimeTrigger
metadata: {name: often}
spec: {cron: "@every 1s", functionref: {type: name, name: hello}}
`, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page", "hello/hello.py", traced)
	s.Pushed(r, "shop", "A function")

	const foreign = "4bf92f3577b34da6a3ce929d0e0e4736"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		s.At("shop", "/api/hello?token=of-the-visitor"), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Traceparent", "00-"+foreign+"-00f067aa0ba902b7-01")
	answer, err := (&http.Client{Transport: client.LocalTransport(), Timeout: testkit.Patience}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(said), "-")
	if len(parts) != 4 || parts[1] == foreign {
		t.Fatalf("the function was told %q, want a traceparent that is not the visitor's", said)
	}
	const door, call = "GET /api/hello", "GET /api/hello > hello"
	c.wait(s, parts[1], door, call)
	testkit.EqualList(t, "spans of the request", c.trace(parts[1]), []string{door, call})
	wantSaid(t, c.attributes(parts[1], door), "http.route", "/api/hello", "http.response.status_code", "200",
		"link", foreign)
	wantSaid(t, c.attributes(parts[1], call), "faas.invoked_name", "default/hello", "faas.trigger", "http",
		"faas.version", answer.Header.Get("Landfall-Version"), "faas.invocation_id", answer.Header.Get("Landfall-Execution"))
	c.mu.Lock()
	testkit.Equal(t, "span that the function was told of", c.spans[parts[2]].GetName(), "hello")
	c.mu.Unlock()

	fired := `{"specversion":"1.0","id":"7","source":"/r/default/shop/hello","type":"greet","datacontenttype":"application/json","data":DATA,"MORE":"00"}`
	event := func(data, more string) string {
		return strings.NewReplacer("DATA", data, `,"MORE":"00"`, more).Replace(fired)
	}
	p := s.Post(s.URL+"/fire", "application/cloudevents+json", event(`{}`, ""))
	inside := testkit.Decode[struct{ Data string }](t, []byte(p.Body)).Data
	id := strings.Split(inside+"--", "-")[1]
	c.wait(s, id, "POST /fire", "POST /fire > hello")

	// Who makes an event begins its trace: the function goes on with that, and the call has a link to it.
	own := "00-" + foreign + "-00f067aa0ba902b7-01"
	p = s.Post(s.URL+"/run", "application/cloudevents+json", event(`{}`, `,"traceparent":"`+own+`"`))
	testkit.Equal(t, "traceparent of an event that has one",
		testkit.Decode[struct{ Data string }](t, []byte(p.Body)).Data, own)
	s.Eventually("the call has a link", func() bool {
		return slices.ContainsFunc(c.traces("POST /run"), func(id string) bool {
			return c.attributes(id, "POST /run > hello")["link"] == foreign
		})
	})

	// What is accepted runs in the trace that it was accepted in.
	p = s.Post(s.URL+"/run", "application/cloudevents+json", event(`{}`, ""), "Prefer", "respond-async")
	testkit.Equal(t, "status", p.Status, http.StatusAccepted)
	s.Eventually("it ran in that trace", func() bool {
		return slices.ContainsFunc(c.traces("POST /run"), func(id string) bool {
			return slices.Equal(c.trace(id), []string{"POST /run", "POST /run > hello"}) &&
				c.attributes(id, "POST /run")["http.response.status_code"] == "202"
		})
	})

	p = s.Post(s.URL+"/fire", "application/cloudevents+json", event(`{"fail":true}`, ""))
	testkit.Contains(t, site.Told{p.Body}, "canary of the message")
	s.Eventually("the failure has a kind", func() bool {
		return slices.ContainsFunc(c.traces("POST /fire"), func(id string) bool {
			return c.attributes(id, "POST /fire > hello")["error.type"] != ""
		})
	})
	s.Eventually("the schedule has a trace", func() bool {
		return slices.ContainsFunc(c.traces("hello"), func(id string) bool {
			return c.attributes(id, "hello")["faas.trigger"] == "timer"
		})
	})
	for _, id := range c.traces("hello") {
		if said := c.attributes(id, "hello"); said["faas.invocation_id"] == "" {
			t.Errorf("the span of a schedule says %v, want its execution", said)
		}
	}
	wantQuietSpans(t, c, "of-the-visitor", "canary", s.Token)
}

// Without the settings of OpenTelemetry nobody is told anything, and with ones that cannot be meant the server does not
// start.
func TestTraceSettings(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	s := site.New(t, append(c.settings(), "OTEL_SDK_DISABLED=true")...)
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml",
		site.AppSpec("shop"), "site/index.html", "page", "hello/hello.py", traced)
	s.Pushed(r, "shop", "A function")
	testkit.Equal(t, "traceparent", s.Get(s.At("shop", "/api/hello")).Body, "none")
	testkit.Equal(t, "traces in the log", strings.Count(s.Log.String(), `"trace":`), 0)
	s.Stop()
	testkit.Equal(t, "bytes that the collector got", c.raw.Len(), 0)

	s.Start("OTEL_SDK_DISABLED=", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	<-s.Done
	testkit.Contains(t, site.Told{s.Log.String()}, `OTEL_EXPORTER_OTLP_PROTOCOL is "grpc"; right would be http/protobuf`)
}

// A collector that is away holds up nobody.
func TestTraceCollectorAway(t *testing.T) {
	t.Parallel()
	s := site.New(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:"+site.FreePort(t), "OTEL_BSP_SCHEDULE_DELAY=50")
	r := s.Repository(s.App("shop"))
	r.Write("specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page")
	s.Pushed(r, "shop", "Open the shop")
	s.Stop()
	testkit.Contains(t, site.Told{s.Log.String()}, "were not delivered")
}
