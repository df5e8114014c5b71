package roles_test

import (
	"io"
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

	"landfall.dev/landfall/runtime/trigger/queue/natstest"
	"landfall.dev/landfall/runtime/wasm/wasmtest"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// mains compiles the program of each role, and returns the folder that they lie in.
var mains = sync.OnceValues(func() (string, error) {
	if _, err := site.Binary(); err != nil { // they need its init
		return "", err
	}
	var args []string
	for _, role := range []string{"api", "webhook", "pipeline", "gateway", "trigger", "router", "runner", "registry"} {
		args = append(args, "landfall.dev/landfall/cmd/landfall-"+role)
	}
	return site.Install(args...)
})

// parts is an installation with a process for each role, and two that run functions.
type parts struct {
	*site.Site                                  // of the role api
	webhook, pipeline, gateway, trigger, router *site.Site
	registry                                    *site.Site
	runners                                     [2]*site.Site
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
	on, messages := site.EngineOf(t, site.WithPostgres+"+"+site.WithS3), natstest.New(t).URL
	p := &parts{}
	at := func(s *site.Site) string { return "127.0.0.1:" + s.Port }
	shared := []string{"LANDFALL_ROLE_SECRET=" + site.RoleSecret, "LANDFALL_SECRET_KEY=" + key.Reveal()}
	stateless := site.Engine{Bucket: on.Bucket}
	// of the router nothing is stored anywhere
	p.registry, p.router = site.NewStopped(t, on), site.NewStopped(t, site.Engine{})
	for i := range p.runners {
		p.runners[i] = site.NewStopped(t, stateless, "LANDFALL_REGISTRY="+at(p.registry))
	}
	p.router.Env = append(p.router.Env, "LANDFALL_RUNNERS="+at(p.runners[0])+","+at(p.runners[1]))
	p.Site = site.NewStopped(t, on, "LANDFALL_NATS="+messages)
	p.webhook, p.pipeline = site.NewStopped(t, on), site.NewStopped(t, on)
	p.gateway = site.NewStopped(t, on, "LANDFALL_ROUTER="+at(p.router))
	p.trigger = site.NewStopped(t, on, "LANDFALL_ROUTER="+at(p.router), "LANDFALL_NATS="+messages)
	all := []struct {
		*site.Site
		role string
	}{
		{p.Site, "api"}, {p.registry, "registry"}, {p.runners[0], "runner"}, {p.runners[1], "runner"}, {p.router, "router"},
		{p.trigger, "trigger"}, {p.gateway, "gateway"}, {p.pipeline, "pipeline"}, {p.webhook, "webhook"},
	}
	for _, part := range all {
		part.Main = []string{filepath.Join(folder, "landfall-"+part.role)}
		part.Env = append(part.Env, shared...)
		part.Env = append(part.Env, "LANDFALL_URL="+p.URL)
		part.Launch() // in any order
	}
	for _, part := range all {
		part.Begun()
	}
	p.ReadToken()
	for _, part := range all {
		part.Token = p.Token
	}
	return p
}

// underLoad has callers ask for an address until during has returned and many more were answered. It returns what was
// not want.
func underLoad(s *site.Site, address, want string, callers int, during func()) (others []site.Page) {
	s.T.Helper()
	const before, after = 40, 80
	var answered atomic.Int64
	var enough atomic.Bool
	var mu sync.Mutex
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for !enough.Load() {
				p, err := site.TryGet(address)
				if err != nil {
					p = site.Page{Body: err.Error()}
				}
				answered.Add(1)
				if p.Status != http.StatusOK || p.Body != want {
					mu.Lock()
					others = append(others, p)
					mu.Unlock()
				}
			}
		})
	}
	s.Eventually("there is load", func() bool { return answered.Load() >= before })
	during()
	until := answered.Load() + after
	s.Eventually("there was load afterwards", func() bool { return answered.Load() >= until })
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

// Every part of the program in a process of its own, each by its own main: what a push makes is called at its
// addresses, by its alias, by a schedule and by a queue, and a runner that dies or goes is missed by nobody but who was
// just being answered by it.
func TestEveryRoleAlone(t *testing.T) {
	t.Parallel()
	p := newParts(t)
	r := p.Repository(p.App("shop"))
	p.SetSecret("shop", "STRIPE_KEY", "open-sesame")
	specs := site.Naming(site.FunctionsSpec("python-env", "hello hello.main"), "STRIPE_KEY") +
		site.TimerSpec("tick hello @every 1s") +
		site.QueueSpec("orders", "functionref: {name: hello}", "topic: orders", "respTopic: confirmed")
	says := func(name string) string { return name + " EUR open-sesame" }
	write := func(name string) {
		r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop", "config: {currency: EUR}"),
			"site/index.html", "page "+name, "hello/hello.py", strings.ReplaceAll(partsStory, "NAME", name))
	}
	write("one")
	first := p.Pushed(r, "shop", "one")
	write("two")
	p.Pushed(r, "shop", "two")

	site.WantServed(t, p.gateway, "shop", "/", "page two")
	// E-033, E-034: all parts run by themselves, each by its own main, and what was pushed answers
	site.WantServed(t, p.gateway, "shop", "/api/hello", says("two"))
	// E-076: the runner, which is not the gateway, executes the function: in the version of the release that was asked
	site.WantServed(t, p.gateway, "shop--"+string(first), "/api/hello", says("one"))

	p.Landfall("function", "alias", "create", "hello", "steady", "1")
	testkit.Equal(t, "the version that the alias names",
		strings.TrimSpace(p.trigger.Landfall("function", "invoke", "hello:steady")), says("one"))
	// E-060: the trigger manager has the router run the function
	testkit.Equal(t, "what answers an event", fired(p.trigger, "/r/default/shop/tick"), says("two"))
	p.Eventually("the schedule has fired", func() bool {
		return strings.Contains(p.Landfall("trigger", "list", "shop"), "succeeded")
	})
	p.Landfall("queue", "publish", "shop", "orders", "--data", "{}")
	p.Eventually("the queue was answered", func() bool { return len(p.Messages("shop", "confirmed")) > 0 })
	testkit.Equal(t, "the answer to the message", p.Messages("shop", "confirmed")[0].Data, says("two"))
	p.Eventually("what functions log in runners is shown", func() bool {
		return strings.Contains(p.Landfall("function", "logs", "hello:1"), "log of dev.landfall.invoke")
	})
	later := p.Landfall("execution", "create", "hello:1")
	testkit.Contains(t, site.Told{later}, "succeeded")
	if said := p.Landfall("execution", "list", "-o", "json") + later; strings.Contains(said, "open-sesame") {
		t.Errorf("a secret is told: %s", said)
	}

	p.wantDoors()

	const callers = 6
	address := p.gateway.At("shop", "/api/hello")
	lost := underLoad(p.Site, address, says("two"), callers, func() {
		_ = p.runners[0].Cmd.Process.Kill()
		<-p.runners[0].Done
	})
	if len(lost) > callers {
		t.Errorf("%d callers were told that a runner died, and there are %d: %v", len(lost), callers, lost)
	}
	for _, page := range lost {
		testkit.Equal(t, "status when a runner dies: "+page.Body, page.Status, http.StatusBadGateway)
	}
	p.runners[0].Start()
	p.Eventually("the router knows that the runner is back", func() bool {
		return strings.Contains(p.router.Log.String(), "gets events again")
	})
	gone := underLoad(p.Site, address, says("two"), callers, func() {
		_ = p.runners[1].Cmd.Process.Signal(syscall.SIGTERM)
		<-p.runners[1].Done
	})
	if len(gone) > 0 {
		t.Errorf("callers noticed that a runner was stopped: %v", gone)
	}

	// E-072: without a router the trigger manager calls a runner, at the same address
	p.trigger.Stop()
	p.trigger.Start("LANDFALL_ROUTER=127.0.0.1:" + p.runners[0].Port)
	testkit.Equal(t, "what answers an event without a router", fired(p.trigger, "/r/default/shop/tick"), says("two"))

	p.Landfall("app", "delete", "shop", "--force")
	p.wantShut()
}

// wantShut fails the test unless no part knows the app shop, which was deleted, or its function any more.
func (p *parts) wantShut() {
	p.T.Helper()
	site.WantStatus(p.T, p.gateway, "shop", http.StatusGone, "This app was deleted")
	named := `{"specversion": "1.0", "id": "1", "source": "/test", "type": "greet", "function": "https://elsewhere.example.com/functions/default/hello:1"}`
	event := []string{"Content-Type", site.OneEvent}
	for what, answer := range map[string]site.Page{
		"a function by the router": p.router.Send(http.MethodPost, p.router.URL+"/run", named,
			append(event, "Authorization", "Bearer "+site.RoleSecret)...),
		"a function by a runner": p.runners[0].Send(http.MethodPost, p.runners[0].URL+"/run", named,
			append(event, "Authorization", "Bearer "+site.RoleSecret)...),
		"a trigger": p.trigger.Send(http.MethodPost, p.trigger.URL+"/fire",
			site.EventFrom("/r/default/shop/tick"), event...),
		"a function at the registry": p.registry.Send(http.MethodGet, p.registry.URL+"/functions/default/hello:1", ""),
		"an image":                   p.registry.Send(http.MethodGet, p.registry.URL+"/v2/default/hello/manifests/1", ""),
	} {
		// K-015: in every process, whatever its role
		if answer.Status < http.StatusBadRequest ||
			!strings.Contains(strings.ToLower(answer.Body), "no ") && !strings.Contains(answer.Body, "not-found") {
			p.T.Errorf("%s: got %d %s, want that there is none", what, answer.Status, answer.Body)
		}
	}
	left := func(s *site.Site, folder, suffix string) bool {
		all, err := os.ReadDir(filepath.Join(s.Data, folder))
		return len(slices.DeleteFunc(testkit.Must(all, err)(p.T), func(e os.DirEntry) bool {
			return !strings.HasSuffix(e.Name(), suffix)
		})) > 0
	}
	p.Eventually("its repository is gone", func() bool { return !left(p.Site, "git", ".git") })
	testkit.Equal(p.T, "whether the worker has a mirror of it", left(p.pipeline, "mirrors", ".git"), true)
	p.pipeline.Stop()
	p.pipeline.Start()
	// A worker removes the mirrors that it has on its machine by itself.
	p.Eventually("its mirror is gone", func() bool { return !left(p.pipeline, "mirrors", ".git") })
}

// fired sends an event with a source to /run, and returns the data of the answer.
func fired(s *site.Site, source string) string {
	s.T.Helper()
	p := s.Send(http.MethodPost, s.URL+"/run", site.EventFrom(source), "Content-Type", site.OneEvent)
	testkit.Equal(s.T, "status of /run: "+p.Body, p.Status, http.StatusOK)
	return testkit.Decode[struct{ Data string }](s.T, []byte(p.Body)).Data
}

// wantDoors fails the test unless each part does what it is for, and nothing else.
func (p *parts) wantDoors() {
	t := p.T
	t.Helper()
	runner := p.runners[0]
	named := `{"specversion": "1.0", "id": "1", "source": "/test", "type": "greet", "function": "https://elsewhere.example.com/functions/default/hello:1"}`
	asRole := func(s *site.Site) site.Page {
		return s.Send(http.MethodPost, s.URL+"/run", named, "Content-Type", site.OneEvent, "Authorization",
			"Bearer "+site.RoleSecret)
	}
	answer := asRole(runner)
	// E-037: the runner takes a CloudEvent at /run
	testkit.Equal(t, "status of /run at a runner: "+answer.Body, answer.Status, http.StatusOK)
	// E-038: and answers with one
	testkit.Contains(t, site.Told{answer.Header.Get("Content-Type"), answer.Body}, "application/cloudevents+json",
		"specversion")
	// E-075: what the function's URL names is what the registry knows of it
	testkit.Equal(t, "what the function said", testkit.Decode[struct{ Data string }](t, []byte(answer.Body)).Data,
		"one EUR open-sesame")
	// E-074: the router passes the event to a runner
	testkit.Equal(t, "what the function said by the router",
		testkit.Decode[struct{ Data string }](t, []byte(asRole(p.router).Body)).Data, "one EUR open-sesame")
	testkit.Equal(t, "status of /run without the secret of the roles",
		runner.Send(http.MethodPost, runner.URL+"/run", named, "Content-Type", site.OneEvent).Status,
		http.StatusUnauthorized)

	function := p.registry.Send(http.MethodGet, p.registry.URL+"/functions/default/hello:1", "")
	// E-047: the registry is a service of its own
	testkit.Contains(t, site.Told{strconv.Itoa(function.Status), function.Body}, "200", `"namespace":"default"`)
	if strings.Contains(function.Body, "sealed") {
		t.Errorf("people are told what only runners are: %s", function.Body)
	}
	testkit.Equal(t, "status of the images", p.registry.Send(http.MethodGet, p.registry.URL+"/v2/", "").Status,
		http.StatusOK)
	for _, door := range []string{"/fire", "/r/default/shop/tick", "/functions/default/hello:1", "/v2/", "/api/v1/apps",
		"/webhooks/github", "/"} {
		// E-036: the runner does nothing else
		testkit.Equal(t, "status of "+door+" at a runner", runner.Send(http.MethodPost, runner.URL+door, "").Status,
			http.StatusNotFound)
	}
	testkit.Contains(t, site.Told{p.Landfall("status")}, "roles here", "api")
	for name, s := range map[string]*site.Site{
		"api": p.Site, "runner": runner, "router": p.router, "registry": p.registry, "gateway": p.gateway,
		"trigger": p.trigger, "webhook": p.webhook, "pipeline": p.pipeline,
	} {
		for _, host := range []string{"localhost:" + p.Port, "shop.localhost:" + p.Port} {
			answers := dialled(s, "POST /run HTTP/1.1\r\nHost: "+host+
				"\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: "+
				host+"\r\n\r\n")
			// K-020: a request with both Content-Length and Transfer-Encoding is refused at every listener, and its
			// connection closed
			if !strings.HasPrefix(answers, "HTTP/1.1 400 ") || strings.Count(answers, "HTTP/1.1 400 ") != 1 ||
				strings.Contains(answers, "200 OK") {
				t.Errorf("%s for %s: got %q, want 400 and the end", name, host, answers)
			}
		}
	}
	for s, name := range map[*site.Site]string{runner: "runner", p.router: "router", p.registry: "registry",
		p.gateway: "gateway", p.trigger: "trigger"} {
		testkit.Contains(t, site.Told{s.Get("http://127.0.0.1:" + s.Port + "/readyz").Body}, "ready\nroles: "+name+"\n")
		testkit.Contains(t, site.Told{s.Send(http.MethodGet, "http://127.0.0.1:"+s.Port+"/metrics", "", "Authorization",
			"Bearer "+site.RoleSecret).Body}, "go_goroutines")
	}
}

// dialled sends text over a connection of its own, and returns all that the server answers until it closes it.
func dialled(s *site.Site, text string) string {
	s.T.Helper()
	c, err := (&net.Dialer{}).DialContext(s.T.Context(), "tcp", "127.0.0.1:"+s.Port)
	if err != nil {
		s.T.Fatal(err)
	}
	defer c.Close()
	_, err = io.WriteString(c, text)
	readErr := c.SetDeadline(time.Now().Add(testkit.Patience))
	var answers []byte
	if readErr == nil {
		answers, readErr = io.ReadAll(c)
	}
	if err != nil || readErr != nil {
		s.T.Fatalf("after %q: %v, %v", answers, err, readErr)
	}
	return string(answers)
}

// The whole server in one process, but for what runs functions: a runner makes modules ready before they are called,
// and what it cannot answer is said.
func TestRunnersElsewhere(t *testing.T) {
	t.Parallel()
	on := site.EngineOf(t, "sqlite+"+site.WithS3)
	runner := site.NewStopped(t, site.Engine{Bucket: on.Bucket})
	s := site.NewStopped(t, on, "LANDFALL_RUNNERS=localhost:"+runner.Port, "LANDFALL_ROLE_SECRET="+site.RoleSecret)
	s.Env = append(s.Env, "LANDFALL_URL="+s.URL)
	runner.Env = append(runner.Env, "LANDFALL_ROLE=runner", "LANDFALL_REGISTRY=127.0.0.1:"+s.Port,
		"LANDFALL_ROLE_SECRET="+site.RoleSecret)
	s.Start()
	runner.Start()
	s.ReadToken()
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("wasm-env", "hello"), "specs/app.yaml", site.AppSpec("shop"),
		"site/index.html", "page", "hello/main.wasm",
		string(
			wasmtest.Says(
				`{"specversion":"1.0","id":"1","source":"/f","type":"answer","datacontenttype":"text/plain","data":"from afar"}`).Bytes()))
	s.Pushed(r, "shop", "A module")
	s.Eventually("the runner has the module ready", func() bool {
		found, err := filepath.Glob(filepath.Join(runner.Data, "cache", "wasm", "wazero-*", "*"))
		return err == nil && len(found) > 0
	})
	site.WantServed(t, s, "shop", "/api/hello", "from afar")
	runner.Stop()
	away := s.Get(s.At("shop", "/api/hello"))
	testkit.Equal(t, "status without a runner: "+away.Body, away.Status, http.StatusServiceUnavailable)
	site.WantServed(t, s, "shop", "/", "page")
	runner.Start()
	s.Eventually("the runner is found again", func() bool { return s.Get(s.At("shop", "/api/hello")).Body == "from afar" })
}
