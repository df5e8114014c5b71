package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/trigger/queue/natstest"
	"landfall.dev/landfall/runtime/wasm/wasmtest"
	"landfall.dev/landfall/secret"
)

// mains builds the program of each role beside the program.
var mains = sync.OnceValues(func() (string, error) {
	path, err := binary()
	if err != nil {
		return "", err
	}
	args := []string{"-o", filepath.Dir(path) + "/"}
	for _, role := range []string{"api", "webhook", "pipeline", "gateway", "trigger", "router", "runner", "registry"} {
		args = append(args, "landfall.dev/landfall/cmd/landfall-"+role)
	}
	return filepath.Dir(path), goBuild(args...)
})

// parts is an installation with a process for each role, and two that run functions.
type parts struct {
	*site                                       // of the role api
	webhook, pipeline, gateway, trigger, router *site
	registry                                    *site
	runners                                     [2]*site
}

// newParts starts each part by its own main.
func newParts(t *testing.T) *parts {
	t.Helper()
	folder, err := mains()
	if err != nil {
		t.Fatal(err)
	}
	key, err := secret.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	on, messages := engineOf(t, withPostgres+"+"+withS3), natstest.New(t).URL
	p := &parts{}
	at := func(s *site) string { return "127.0.0.1:" + s.port }
	shared := []string{"LANDFALL_ROLE_SECRET=" + roleSecret, "LANDFALL_SECRET_KEY=" + key.Reveal()}
	stateless := engine{bucket: on.bucket}
	p.registry, p.router = newStopped(t, on), newStopped(t, engine{}) // of the router nothing is stored anywhere
	for i := range p.runners {
		p.runners[i] = newStopped(t, stateless, "LANDFALL_REGISTRY="+at(p.registry))
	}
	p.router.env = append(p.router.env, "LANDFALL_RUNNERS="+at(p.runners[0])+","+at(p.runners[1]))
	p.site = newStopped(t, on, "LANDFALL_NATS="+messages)
	p.webhook, p.pipeline = newStopped(t, on), newStopped(t, on)
	p.gateway = newStopped(t, on, "LANDFALL_ROUTER="+at(p.router))
	p.trigger = newStopped(t, on, "LANDFALL_ROUTER="+at(p.router), "LANDFALL_NATS="+messages)
	all := []struct {
		*site
		role string
	}{
		{p.site, "api"}, {p.registry, "registry"}, {p.runners[0], "runner"}, {p.runners[1], "runner"}, {p.router, "router"},
		{p.trigger, "trigger"}, {p.gateway, "gateway"}, {p.pipeline, "pipeline"}, {p.webhook, "webhook"},
	}
	for _, part := range all {
		part.main = filepath.Join(folder, "landfall-"+part.role)
		part.env = append(part.env, shared...)
		part.env = append(part.env, "LANDFALL_URL="+p.URL)
		part.launch() // in any order
	}
	for _, part := range all {
		part.begun()
	}
	p.readToken()
	for _, part := range all {
		part.Token = p.Token
	}
	return p
}

// underLoad has callers ask for an address until during has returned and many more were answered. It returns what was not want.
func (s *site) underLoad(address, want string, callers int, during func()) (others []page) {
	s.t.Helper()
	const before, after = 40, 80
	var answered atomic.Int64
	var enough atomic.Bool
	var mu sync.Mutex
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for !enough.Load() {
				p, err := tryGet(address)
				if err != nil {
					p = page{body: err.Error()}
				}
				answered.Add(1)
				if p.status != http.StatusOK || p.body != want {
					mu.Lock()
					others = append(others, p)
					mu.Unlock()
				}
			}
		})
	}
	s.eventually("there is load", func() bool { return answered.Load() >= before })
	during()
	until := answered.Load() + after
	s.eventually("there was load afterwards", func() bool { return answered.Load() >= until })
	enough.Store(true)
	group.Wait()
	return others
}

const partsStory = `import os, sys, time


def main(event):
    time.sleep(0.01)
    print('log of', event['type'], file=sys.stderr)
    return 'NAME %s %s' % (os.environ['currency'], os.environ['STRIPE_KEY'])
`

// Every part of the program in a process of its own, each by its own main: what a push makes is called at its addresses, by its alias,
// by a schedule and by a queue, and a runner that dies or goes is missed by nobody but who was just being answered by it.
func TestEveryRoleAlone(t *testing.T) {
	t.Parallel()
	p := newParts(t)
	r := p.repository(p.app("shop"))
	p.setSecret("shop", "STRIPE_KEY", "open-sesame")
	specs := naming(functionsSpec("python-env", "hello hello.main"), "STRIPE_KEY") +
		timerSpec("tick hello @every 1s") + queueSpec("orders", "functionref: {name: hello}", "topic: orders", "respTopic: confirmed")
	says := func(name string) string { return name + " EUR open-sesame" }
	write := func(name string) {
		r.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("shop", "config: {currency: EUR}"), "site/index.html", "page "+name,
			"hello/hello.py", strings.ReplaceAll(partsStory, "NAME", name))
	}
	write("one")
	first := p.pushed(r, "shop", "one")
	write("two")
	p.pushed(r, "shop", "two")

	wantServed(t, p.gateway, "shop", "/", "page two")
	// E-033, E-034: all parts run by themselves, each by its own main, and what was pushed answers
	wantServed(t, p.gateway, "shop", "/api/hello", says("two"))
	// E-076: the runner, which is not the gateway, executes the function: in the version of the release that was asked
	wantServed(t, p.gateway, "shop--"+string(first), "/api/hello", says("one"))

	p.landfall("function", "alias", "create", "hello", "steady", "1")
	wantEqual(t, "the version that the alias names", strings.TrimSpace(p.trigger.landfall("function", "invoke", "hello:steady")), says("one"))
	// E-060: the trigger manager has the router run the function
	wantEqual(t, "what answers an event", p.trigger.fired("/r/default/shop/tick"), says("two"))
	p.eventually("the schedule has fired", func() bool { return strings.Contains(p.landfall("trigger", "list", "shop"), "succeeded") })
	p.landfall("queue", "publish", "shop", "orders", "--data", "{}")
	p.eventually("the queue was answered", func() bool { return len(p.messages("shop", "confirmed")) > 0 })
	wantEqual(t, "the answer to the message", p.messages("shop", "confirmed")[0].Data, says("two"))
	p.eventually("what functions log in runners is shown", func() bool {
		return strings.Contains(p.landfall("function", "logs", "hello:1"), "log of dev.landfall.invoke")
	})
	later := p.landfall("execution", "create", "hello:1")
	wantText(t, told{later}, "succeeded")
	if said := p.landfall("execution", "list", "-o", "json") + later; strings.Contains(said, "open-sesame") {
		t.Errorf("a secret is told: %s", said)
	}

	p.wantDoors()

	const callers = 6
	address := p.gateway.at("shop", "/api/hello")
	lost := p.underLoad(address, says("two"), callers, func() {
		_ = p.runners[0].cmd.Process.Kill()
		<-p.runners[0].done
	})
	if len(lost) > callers {
		t.Errorf("%d callers were told that a runner died, and there are %d: %v", len(lost), callers, lost)
	}
	for _, page := range lost {
		wantEqual(t, "status when a runner dies: "+page.body, page.status, http.StatusBadGateway)
	}
	p.runners[0].start()
	p.eventually("the router knows that the runner is back", func() bool { return strings.Contains(p.router.log.String(), "gets events again") })
	gone := p.underLoad(address, says("two"), callers, func() {
		_ = p.runners[1].cmd.Process.Signal(syscall.SIGTERM)
		<-p.runners[1].done
	})
	if len(gone) > 0 {
		t.Errorf("callers noticed that a runner was stopped: %v", gone)
	}

	// E-072: without a router the trigger manager calls a runner, at the same address
	p.trigger.stop()
	p.trigger.start("LANDFALL_ROUTER=127.0.0.1:" + p.runners[0].port)
	wantEqual(t, "what answers an event without a router", p.trigger.fired("/r/default/shop/tick"), says("two"))

	p.landfall("app", "delete", "shop", "--force")
	p.wantShut()
}

// wantShut fails the test unless no part knows the app shop, which was deleted, or its function any more.
func (p *parts) wantShut() {
	p.t.Helper()
	wantStatus(p.t, p.gateway, "shop", http.StatusGone, "This app was deleted")
	named := `{"specversion": "1.0", "id": "1", "source": "/test", "type": "greet", "function": "https://elsewhere.example.com/functions/default/hello:1"}`
	event := []string{"Content-Type", oneEvent}
	for what, answer := range map[string]page{
		"a function by the router":   p.router.send(http.MethodPost, p.router.URL+"/run", named, append(event, "Authorization", "Bearer "+roleSecret)...),
		"a function by a runner":     p.runners[0].send(http.MethodPost, p.runners[0].URL+"/run", named, append(event, "Authorization", "Bearer "+roleSecret)...),
		"a trigger":                  p.trigger.send(http.MethodPost, p.trigger.URL+"/fire", eventFrom("/r/default/shop/tick"), event...),
		"a function at the registry": p.registry.send(http.MethodGet, p.registry.URL+"/functions/default/hello:1", ""),
		"an image":                   p.registry.send(http.MethodGet, p.registry.URL+"/v2/default/hello/manifests/1", ""),
	} {
		// K-015: in every process, whatever its role
		if answer.status < http.StatusBadRequest || !strings.Contains(strings.ToLower(answer.body), "no ") && !strings.Contains(answer.body, "not-found") {
			p.t.Errorf("%s: got %d %s, want that there is none", what, answer.status, answer.body)
		}
	}
	left := func(s *site, folder, suffix string) bool {
		all, err := os.ReadDir(filepath.Join(s.data, folder))
		return len(slices.DeleteFunc(must(all, err)(p.t), func(e os.DirEntry) bool { return !strings.HasSuffix(e.Name(), suffix) })) > 0
	}
	p.eventually("its repository is gone", func() bool { return !left(p.site, "git", ".git") })
	wantEqual(p.t, "whether the worker has a mirror of it", left(p.pipeline, "mirrors", ".git"), true)
	p.pipeline.stop()
	p.pipeline.start()
	// A worker removes the mirrors that it has on its machine by itself.
	p.eventually("its mirror is gone", func() bool { return !left(p.pipeline, "mirrors", ".git") })
}

// fired sends an event with a source to /run, and returns the data of the answer.
func (s *site) fired(source string) string {
	s.t.Helper()
	p := s.send(http.MethodPost, s.URL+"/run", eventFrom(source), "Content-Type", oneEvent)
	wantEqual(s.t, "status of /run: "+p.body, p.status, http.StatusOK)
	return decode[struct{ Data string }](s.t, []byte(p.body)).Data
}

// wantDoors fails the test unless each part does what it is for, and nothing else.
func (p *parts) wantDoors() {
	t := p.t
	t.Helper()
	runner := p.runners[0]
	named := `{"specversion": "1.0", "id": "1", "source": "/test", "type": "greet", "function": "https://elsewhere.example.com/functions/default/hello:1"}`
	asRole := func(s *site) page {
		return s.send(http.MethodPost, s.URL+"/run", named, "Content-Type", oneEvent, "Authorization", "Bearer "+roleSecret)
	}
	answer := asRole(runner)
	// E-037: the runner takes a CloudEvent at /run
	wantEqual(t, "status of /run at a runner: "+answer.body, answer.status, http.StatusOK)
	// E-038: and answers with one
	wantText(t, told{answer.header.Get("Content-Type"), answer.body}, "application/cloudevents+json", "specversion")
	// E-075: what the function's URL names is what the registry knows of it
	wantEqual(t, "what the function said", decode[struct{ Data string }](t, []byte(answer.body)).Data, "one EUR open-sesame")
	// E-074: the router passes the event to a runner
	wantEqual(t, "what the function said by the router", decode[struct{ Data string }](t, []byte(asRole(p.router).body)).Data, "one EUR open-sesame")
	wantEqual(t, "status of /run without the secret of the roles", runner.send(http.MethodPost, runner.URL+"/run", named, "Content-Type", oneEvent).status,
		http.StatusUnauthorized)

	function := p.registry.send(http.MethodGet, p.registry.URL+"/functions/default/hello:1", "")
	// E-047: the registry is a service of its own
	wantText(t, told{strconv.Itoa(function.status), function.body}, "200", `"namespace":"default"`)
	if strings.Contains(function.body, "sealed") {
		t.Errorf("people are told what only runners are: %s", function.body)
	}
	wantEqual(t, "status of the images", p.registry.send(http.MethodGet, p.registry.URL+"/v2/", "").status, http.StatusOK)
	for _, door := range []string{"/fire", "/r/default/shop/tick", "/functions/default/hello:1", "/v2/", "/api/v1/apps", "/webhooks/github", "/"} {
		// E-036: the runner does nothing else
		wantEqual(t, "status of "+door+" at a runner", runner.send(http.MethodPost, runner.URL+door, "").status, http.StatusNotFound)
	}
	wantText(t, told{p.landfall("status")}, "roles here", "api")
	for name, s := range map[string]*site{
		"api": p.site, "runner": runner, "router": p.router, "registry": p.registry, "gateway": p.gateway, "trigger": p.trigger, "webhook": p.webhook, "pipeline": p.pipeline,
	} {
		for _, host := range []string{"localhost:" + p.port, "shop.localhost:" + p.port} {
			answers := s.dialled("POST /run HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
			// K-020: a request with both Content-Length and Transfer-Encoding is refused at every listener, and its connection closed
			if !strings.HasPrefix(answers, "HTTP/1.1 400 ") || strings.Count(answers, "HTTP/1.1 400 ") != 1 || strings.Contains(answers, "200 OK") {
				t.Errorf("%s for %s: got %q, want 400 and the end", name, host, answers)
			}
		}
	}
	for s, name := range map[*site]string{runner: "runner", p.router: "router", p.registry: "registry", p.gateway: "gateway", p.trigger: "trigger"} {
		wantText(t, told{s.get("http://127.0.0.1:" + s.port + "/readyz").body}, "ready\nroles: "+name+"\n")
		wantText(t, told{s.send(http.MethodGet, "http://127.0.0.1:"+s.port+"/metrics", "", "Authorization", "Bearer "+roleSecret).body}, "go_goroutines")
	}
}

// dialled sends text over a connection of its own, and returns all that the server answers until it closes it.
func (s *site) dialled(text string) string {
	s.t.Helper()
	c, err := (&net.Dialer{}).DialContext(s.t.Context(), "tcp", "127.0.0.1:"+s.port)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	_, err = io.WriteString(c, text)
	readErr := c.SetDeadline(time.Now().Add(patience))
	var answers []byte
	if readErr == nil {
		answers, readErr = io.ReadAll(c)
	}
	if err != nil || readErr != nil {
		s.t.Fatalf("after %q: %v, %v", answers, err, readErr)
	}
	return string(answers)
}

// The whole server in one process, but for what runs functions: a runner makes modules ready before they are called, and what it cannot
// answer is said.
func TestRunnersElsewhere(t *testing.T) {
	t.Parallel()
	on := engineOf(t, "sqlite+"+withS3)
	runner := newStopped(t, engine{bucket: on.bucket})
	s := newStopped(t, on, "LANDFALL_RUNNERS=localhost:"+runner.port, "LANDFALL_ROLE_SECRET="+roleSecret)
	s.env = append(s.env, "LANDFALL_URL="+s.URL)
	runner.env = append(runner.env, "LANDFALL_ROLE=runner", "LANDFALL_REGISTRY=127.0.0.1:"+s.port, "LANDFALL_ROLE_SECRET="+roleSecret)
	s.start()
	runner.start()
	s.readToken()
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("wasm-env", "hello"), "specs/app.yaml", appSpec("shop"), "site/index.html", "page",
		"hello/main.wasm", string(wasmtest.Says(`{"specversion":"1.0","id":"1","source":"/f","type":"answer","datacontenttype":"text/plain","data":"from afar"}`).Bytes()))
	s.pushed(r, "shop", "A module")
	s.eventually("the runner has the module ready", func() bool {
		found, err := filepath.Glob(filepath.Join(runner.data, "cache", "wasm", "wazero-*", "*"))
		return err == nil && len(found) > 0
	})
	wantServed(t, s, "shop", "/api/hello", "from afar")
	runner.stop()
	away := s.get(s.at("shop", "/api/hello"))
	wantEqual(t, "status without a runner: "+away.body, away.status, http.StatusServiceUnavailable)
	wantServed(t, s, "shop", "/", "page")
	runner.start()
	s.eventually("the runner is found again", func() bool { return s.get(s.at("shop", "/api/hello")).body == "from afar" })
}

// What a runner is told to make ready stays while the registry is away, and is not made ready again while nothing changes.
func TestLiveFunctions(t *testing.T) {
	t.Parallel()
	var said []*registry.Function
	var away error
	var prepared []string
	l := &liveFunctions{
		source: func(context.Context) ([]*registry.Function, error) { return said, away },
		prepare: func(_ context.Context, functions map[string]*registry.Function) {
			for id := range functions {
				prepared = append(prepared, id)
			}
		},
	}
	l.table.Store(registry.New(nil))
	warm := func(id string, n int) *registry.Function {
		return &registry.Function{ID: id, Resources: landfall.Resources{KeepWarm: n}}
	}
	for _, step := range []struct {
		said []*registry.Function
		away error
		live string
	}{
		{[]*registry.Function{warm("a", 1)}, nil, "[a]"}, {[]*registry.Function{warm("a", 1)}, nil, "[a]"}, {nil, errors.New("away"), "[a]"},
		{[]*registry.Function{warm("a", 2), warm("b", 0)}, nil, "[a b]"}, {nil, nil, "[]"},
	} {
		said, away = step.said, step.away
		if err := l.ask(t.Context()); !errors.Is(err, step.away) {
			t.Errorf("got %v, want %v", err, step.away)
		}
		wantEqual(t, "live functions", fmt.Sprint(slices.Sorted(maps.Keys(l.table.Load().Live()))), step.live)
	}
	wantEqual(t, "how often functions were made ready", len(prepared), 3)
}
