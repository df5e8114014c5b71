package function_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// telling declares the shop with triggers of every kind, all to a function that tells what is in its event.
func telling(s *site.Site) *site.Repository {
	s.T.Helper()
	r := s.Repository(s.App("shop"))
	specs := strings.Replace(site.FunctionsSpec("python-env", "tell tell.main"), "relativeurl: /api/tell",
		"relativeurl: /api/tell, config: {colour: blue}", 1) +
		`---
apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: large}
spec: {functionref: {name: tell}, method: PUT, relativeurl: "/api/large/{id}", config: {size: L}}
---
apiVersion: fission.io/v1
kind: HTTPTrigger
metadata: {name: closed}
spec: {functionref: {name: tell}, relativeurl: /api/closed, access: token, filters: [{exact: {type: bill}}]}
---
apiVersion: fission.io/v1
kind: TimeTrigger
metadata: {name: morning}
spec: {functionref: {name: tell}, cron: "0 8 * * *", subpath: /report, config: {size: S}}
---
apiVersion: fission.io/v1
kind: MessageQueueTrigger
metadata: {name: orders}
spec: {functionref: {name: tell}, topic: t1}
`
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop", "config: {currency: EUR, colour: red}"),
		"site/index.html", "page", "tell/tell.py", site.TellingCode)
	s.Pushed(r, "shop", "Triggers of all kinds")
	return r
}

// told is what a telling function tells.
type toldEvent struct {
	Source, Type, Subject, Function string
	Data                            any
	Config                          map[string]string
	Trigger                         struct {
		Function string            `json:"function_url"`
		Config   map[string]string `json:"config"`
	}
	Protocol struct {
		Method string              `json:"method"`
		URL    string              `json:"request_url"`
		Header map[string][]string `json:"headers"`
	}
}

func tellingOf(t *testing.T, text string) toldEvent {
	t.Helper()
	var got toldEvent
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return got
}

// answerOf reads an event that stands for what a telling function tells.
func answerOf(t *testing.T, text string) (answer map[string]json.RawMessage, got toldEvent) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return answer, tellingOf(t, string(answer["data"]))
}

// An event finds its triggers by its source, whatever its sender knows of functions, and the function finds in it what
// app and trigger are configured to.
func TestFire(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	telling(s)
	fired := s.Send("POST", s.URL+"/fire", site.EventFrom("/r/default/shop/tell"), "Content-Type", site.OneEvent)
	testkit.Equal(t, "status", fired.Status, http.StatusOK)
	// E-073: in one process the manager gives the event to the runner itself: there is no router
	if log := s.Log.String(); !strings.Contains(log, `"runner"`) || strings.Contains(log, `"router"`) {
		t.Errorf("the roles of the process that answered are not a runner's without a router's: %s", log)
	}
	answer, got := answerOf(t, fired.Body)
	// E-028: the event goes on to be executed, as its sender wrote it
	testkit.Equal(t, "data", fmt.Sprint(got.Data), "map[total:9]")
	// E-107: POST /fire takes a CloudEvent
	testkit.Equal(t, "content type of the answer", fired.Header.Get("Content-Type"), site.OneEvent)
	// E-108: the trigger whose source the event has is fired
	testkit.Equal(t, "subject", got.Subject, "s1")
	// E-084: the function gets what the trigger sets, over what the app sets
	testkit.Equal(t, "colour", got.Config["colour"], "blue")
	// E-070: what the app is configured to is merged in
	testkit.Equal(t, "currency", got.Config["currency"], "EUR")
	// E-027: extensions.trigger has it, too, with the function's URL
	testkit.Equal(t, "currency of the trigger", got.Trigger.Config["currency"], "EUR")
	// E-071: the function's URL names its version
	testkit.Equal(t, "function", got.Function, s.URL+"/functions/default/tell:"+fired.Header.Get("Landfall-Version"))
	testkit.Equal(t, "function of the trigger", got.Trigger.Function, got.Function)
	for _, name := range []string{"config", "trigger", "function"} {
		// E-077: what the request was extended by is not in the answer
		if _, there := answer[name]; there {
			t.Errorf("the answer has %s: %s", name, fired.Body)
		}
	}
	run := s.Send("POST", s.URL+"/run", site.EventFrom("/r/default/shop/tell"), "Content-Type", site.OneEvent)
	_, got = answerOf(t, run.Body)
	// E-057: /run is the same
	testkit.Equal(t, "colour", got.Config["colour"], "blue")

	for source, want := range map[string]string{
		s.At("shop", "/api/tell"):     "blue", // POST, which the route takes
		"/r/default/shop:live/tell":   "blue",
		"/r/default/shop:latest/tell": "blue",
		"/r/default/shop/morning":     "red",
		"/r/default/shop/orders":      "red",
	} {
		_, got := answerOf(t, s.Send("POST", s.URL+"/fire", site.EventFrom(source), "Content-Type", site.OneEvent).Body)
		// E-059: the trigger is looked up by the event's source
		testkit.Equal(t, "colour by "+source, got.Config["colour"], want)
	}
	_, got = answerOf(t, s.Send("POST", s.URL+"/fire", site.EventFrom("default.shop.t1"), "Content-Type",
		site.OneEvent).Body)
	// E-109: its sender may know nothing but the name of a topic
	testkit.Equal(t, "source by topic", got.Source+" "+got.Config["colour"], "default.shop.t1 red")
	withMethod := strings.Replace(site.EventFrom(s.At("shop", "/api/large/9")), `"data"`,
		`"protocol":"{\"method\":\"PUT\"}","data"`, 1)
	_, got = answerOf(t, s.Send("POST", s.URL+"/fire", withMethod, "Content-Type", site.OneEvent).Body)
	// E-030: each path leads to a function with its own configuration
	testkit.Equal(t, "size by the route of another trigger", got.Config["size"], "L")
}

// An answer has the form of its request.
func TestFireForms(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	telling(s)
	binary := s.Send("POST", s.URL+"/fire", `{"total":9}`, "Content-Type", "application/json",
		"ce-specversion", "1.0", "ce-id", "7", "ce-source", "/r/default/shop/tell", "ce-type", "order")
	testkit.Equal(t, "version of a binary answer", binary.Header.Get("Ce-Specversion"), "1.0")
	testkit.Equal(t, "currency in a binary answer", tellingOf(t, binary.Body).Config["currency"], "EUR")

	old := s.Send("POST", s.URL+"/run",
		`{"cloud-events-version":"0.1","event-id":"7","event-type":"order","source":"/r/default/shop/tell",`+
			`"content-type":"application/json","data":{"total":9},"extensions":{"protocol":{"headers":{"X-Mine":["1"]}}}}`,
		"Content-Type", "application/json")
	answer, got := answerOf(t, old.Body)
	// E-058: what comes in is an event, also of the document's own shape, and the answer is one
	testkit.Equal(t, "version of the answer to an event of 0.1", string(answer["cloud-events-version"]), `"0.1"`)
	testkit.Equal(t, "currency", got.Config["currency"], "EUR")
	testkit.Equal(t, "header", strings.Join(got.Protocol.Header["X-Mine"], ""), "1")

	many := s.Send("POST", s.URL+"/fire", "["+site.EventFrom("/r/default/shop/tell")+","+
		site.EventFrom("/r/default/shop/nobody")+","+
		strings.Replace(site.EventFrom("/r/default/shop/morning"), `{"total":9}`, `"trouble"`, 1)+"]", "Content-Type",
		site.ManyEvents)
	var answers []struct {
		Data  toldEvent
		Error string
	}
	if err := json.Unmarshal([]byte(many.Body), &answers); err != nil || len(answers) != 3 {
		t.Fatalf("got %s: %v", many.Body, err)
	}
	testkit.Equal(t, "colour in the batch", answers[0].Data.Config["colour"], "blue")
	testkit.Contains(t, site.Told{answers[1].Error}, "no trigger", `"type":"not-found"`)
	testkit.Contains(t, site.Told{answers[2].Error}, "trouble in 7", "ValueError")
}

// What fires nothing says so by an event, and never whether others could have.
func TestFireNothing(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	telling(s)
	zoo := s.Repository(s.App("zoo"))
	zoo.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "zebra zebra.main"), "specs/app.yaml",
		site.AppSpec("zoo"), "site/index.html", "page", "zebra/zebra.py", "def main():\n    return 'zebra'\n")
	s.Pushed(zoo, "zoo", "Another app")
	for _, source := range []string{
		"/r/default/shop/nobody", "/r/default/nobody/tell", "/r/other/shop/tell", "/r/default/shop",
		"/r/default/shop:v9/tell", "/r/", "nobody.t1", s.At("shop", "/api/nobody"), s.At("shop", "/api/large/9"),
		s.At("nobody", "/api/tell"), "http://example.com/api/tell", "mailto:tell",
		"/r/default/shop/closed", // which takes bills alone
	} {
		answer := s.Send("POST", s.URL+"/fire", site.EventFrom(source), "Content-Type", site.OneEvent)
		testkit.Equal(t, "status of "+source, answer.Status, http.StatusNotFound)
		testkit.Equal(t, "content type of "+source, answer.Header.Get("Content-Type"), site.OneEvent)
		testkit.Contains(t, site.Told{answer.Body}, `"error":`, "no trigger of an app that the token may invoke",
			`"source":"`+source+`"`)
	}
	bill := strings.Replace(site.EventFrom("/r/default/shop/closed"), `"order"`, `"bill"`, 1)
	testkit.Equal(t, "status of what the filters let pass",
		s.Send("POST", s.URL+"/fire", bill, "Content-Type", site.OneEvent).Status, http.StatusOK)
	for body, status := range map[string]int{
		`no event`: http.StatusBadRequest,
		`{"specversion":"1.0","id":"1","type":"t"}`:               http.StatusBadRequest,
		`{"specversion":"2.0","id":"1","type":"t","source":"/x"}`: http.StatusBadRequest,
		site.EventFrom("/r/default/shop/" + strings.Repeat("tell",
			2<<20)): http.StatusRequestEntityTooLarge,
		strings.Replace(site.EventFrom(s.At("shop", "/api/tell")), `"data"`, `"protocol":"7","data"`,
			1): http.StatusBadRequest,
	} {
		answer := s.Send("POST", s.URL+"/run", body, "Content-Type", site.OneEvent)
		testkit.Equal(t, "status", answer.Status, status)
		testkit.Contains(t, site.Told{answer.Body}, `"error":`)
	}
	testkit.Equal(t, "status of GET", s.Send("GET", s.URL+"/fire", "").Status, http.StatusMethodNotAllowed)
	testkit.Equal(t, "status without a token", s.Send("POST", s.URL+"/fire", site.EventFrom("/r/default/shop/tell"),
		"Content-Type", site.OneEvent, "Authorization", "").Status, http.StatusUnauthorized)
	testkit.Equal(t, "status with a wrong token", s.Send("POST", s.URL+"/run", site.EventFrom("/r/default/shop/tell"),
		"Content-Type", site.OneEvent, "Authorization", "Bearer nobody").Status, http.StatusUnauthorized)

	caller, reader := strings.Repeat("caller", 8), strings.Repeat("reader", 8)
	putTokens(s, landfall.Token{Hash: landfall.DigestOf([]byte(caller)), Name: "caller", Scope: landfall.ScopeInvoke,
		App: appID(s, "shop")},
		landfall.Token{Hash: landfall.DigestOf([]byte(reader)), Name: "reader", Scope: landfall.ScopeRead})
	as := func(token, source string) site.Page {
		return s.Send("POST", s.URL+"/fire", site.EventFrom(source), "Content-Type", site.OneEvent, "Authorization",
			"Bearer "+token)
	}
	testkit.Equal(t, "status with a token that may not invoke", as(reader, "/r/default/shop/tell").Status,
		http.StatusForbidden)
	testkit.Equal(t, "status with the app's token", as(caller, "/r/default/shop/tell").Status, http.StatusOK)
	other, nobody := as(caller, "/r/default/zoo/zebra"), as(caller, "/r/default/zoo/nobody")
	testkit.Equal(t, "status with another app's token", other.Status, http.StatusNotFound)
	testkit.Equal(t, "status of the administrator", s.Send("POST", s.URL+"/fire", site.EventFrom("/r/default/zoo/zebra"),
		"Content-Type", site.OneEvent).Status, http.StatusOK)
	told := func(body string) map[string]any {
		said := testkit.Decode[map[string]any](t, []byte(strings.ReplaceAll(body, "nobody", "zebra")))
		delete(said, "id")
		delete(said, "time")
		return said
	}
	testkit.Same(t, "what another app's token is told", told(other.Body), told(nobody.Body))
}

// putTokens stores tokens while the server is stopped.
func putTokens(s *site.Site, tokens ...landfall.Token) {
	s.T.Helper()
	s.Stop()
	db, err := s.OpenState()
	if err != nil {
		s.T.Fatal(err)
	}
	err = db.Update(context.Background(), func(tx *store.Tx) error {
		for _, token := range tokens {
			token.Created = time.Now()
			if err := tx.PutToken(context.Background(), token); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.T.Fatal(err)
	}
	if err := db.Close(); err != nil {
		s.T.Fatal(err)
	}
	s.Start()
}

// appID returns the id of an app.
func appID(s *site.Site, name string) string {
	s.T.Helper()
	var app client.App
	s.Call(http.MethodGet, "/apps/"+name, nil, &app)
	return app.ID
}

// An HTTP trigger answers at the control host as at its route, to whoever may call that, in any release. What could
// harm the control host does not get out.
func TestTriggersByName(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := telling(s)
	first := s.Release("shop", "live")
	public := []string{"Authorization", "", "Cookie", "__Host-landfall=session; mine=1"}
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		answer := s.Send(method, s.URL+"/r/default/shop/tell?a=b", "", public...)
		got := tellingOf(t, answer.Body)
		// E-106: any method fires it
		testkit.Equal(t, "method", got.Protocol.Method, method)
		testkit.Equal(t, "address", got.Protocol.URL, s.URL+"/r/default/shop/tell?a=b")
		testkit.Equal(t, "cookie", strings.Join(got.Protocol.Header["Cookie"], ""), "mine=1")
		testkit.Equal(t, "source", got.Source, "/r/default/shop/tell")
		testkit.Equal(t, "colour", got.Config["colour"], "blue")
		testkit.Equal(t, "policy", answer.Header.Get("Content-Security-Policy"), "sandbox; default-src 'none'")
		testkit.Equal(t, "sniffing", answer.Header.Get("X-Content-Type-Options"), "nosniff")
		testkit.Equal(t, "resource policy", answer.Header.Get("Cross-Origin-Resource-Policy"), "same-origin")
		testkit.Equal(t, "release", answer.Header.Get("Landfall-Release"), string(first.ID))
	}
	known := s.Send("POST", s.URL+"/r/default/shop/tell", "data of mine", "Content-Type", site.NotEvent)
	// E-105: here the body is raw, in and out; events are in and out at /fire
	if got := tellingOf(t, known.Body); got.Data != "data of mine" || got.Protocol.Header["Authorization"] != nil {
		t.Errorf("the function got %v and the token %q", got.Data, got.Protocol.Header["Authorization"])
	}
	for path, status := range map[string]int{
		"/r/default/shop/closed": http.StatusUnauthorized, "/r/default/shop/nobody": http.StatusNotFound,
		"/r/other/shop/tell": http.StatusNotFound, "/r/default/nobody/tell": http.StatusNotFound,
		"/r/default/shop:v9/tell": http.StatusNotFound, "/r/": http.StatusNotFound,
		"/r/default/shop/tell/more": http.StatusNotFound,
	} {
		testkit.Equal(t, "status of "+path, s.Send("GET", s.URL+path, "", "Authorization", "").Status, status)
	}
	testkit.Equal(t, "status with a token", s.Send("GET", s.URL+"/r/default/shop/closed", "").Status, http.StatusOK)

	r.Write("tell/tell.py", "from flask import Response\n\n\ndef main():\n"+
		"    return Response('two', headers={'Set-Cookie': 'a=b', 'Service-Worker-Allowed': '/', 'Clear-Site-Data': "+
		"'\"*\"', 'Content-Security-Policy': 'none', 'X-Mine': '1', 'ETag': '\"two\"', 'x-accel-redirect': '/etc/passwd', "+
		"'X-Sendfile': '/etc/passwd'})\n")
	s.Pushed(r, "shop", "Another answer")
	second := s.Send("GET", s.URL+"/r/default/shop/tell", "", "Authorization", "")
	testkit.Equal(t, "answer", second.Body, "two")
	testkit.Equal(t, "header", second.Header.Get("ETag"), `"two"`)
	testkit.Equal(t, "policy", strings.Join(second.Header.Values("Content-Security-Policy"), ","),
		"sandbox; default-src 'none'")
	// K-019: headers by which a proxy serves its own files never leave a function's answer; on the control host only
	// listed headers do
	for _, name := range []string{"Set-Cookie", "Service-Worker-Allowed", "Clear-Site-Data", "X-Mine", "X-Accel-Redirect",
		"X-Sendfile"} {
		testkit.Equal(t, name, second.Header.Get(name), "")
	}
	routed := s.Get("http://shop.localhost:" + s.Port + "/api/tell")
	testkit.Equal(t, "header at the route", routed.Header.Get("X-Mine"), "1")
	testkit.Equal(t, "order to a proxy at the route",
		routed.Header.Get("X-Accel-Redirect")+routed.Header.Get("X-Sendfile"), "")
	preview := s.Send("POST", s.URL+"/r/default/shop:"+string(first.ID)+"/tell", "", "Authorization", "")
	testkit.Equal(t, "release of the address", preview.Header.Get("Landfall-Release"), string(first.ID))
	testkit.Equal(t, "colour in the older release", tellingOf(t, preview.Body).Config["colour"], "blue")
}

// A schedule or a queue trigger is fired by hand with a token, in any release.
func TestOtherTriggersByName(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := telling(s)
	first := s.Release("shop", "live")
	units := s.UnitsOf("shop", "live")
	for _, name := range []string{"http-trigger tell", "http-trigger large", "time-trigger morning",
		"queue-trigger orders"} {
		// E-029: an app groups triggers
		if _, there := units[name]; !there {
			t.Errorf("the app has no %s", name)
		}
	}
	// E-111: a route is a trigger, and no part of its function
	if route, function := units["http-trigger tell"],
		units["function tell"]; route.Digest == function.Digest || function.UID == "" {
		t.Errorf("the route is %v and the function %v", route, function)
	}
	testkit.Equal(t, "status without a token",
		s.Send("POST", s.URL+"/r/default/shop/morning", "", "Authorization", "").Status, http.StatusUnauthorized)
	read := s.Send("GET", s.URL+"/r/default/shop/morning", "")
	testkit.Equal(t, "status of GET", read.Status, http.StatusMethodNotAllowed)
	testkit.Equal(t, "allowed", read.Header.Get("Allow"), "POST")
	r.Write("tell/tell.py", "def main():\n    return 'two'\n")
	s.Pushed(r, "shop", "Another answer")
	testkit.Equal(t, "answer", s.Send("POST", s.URL+"/r/default/shop/morning", "").Body, "two")
	got := tellingOf(t, s.Send("POST", s.URL+"/r/default/shop:"+string(first.ID)+"/morning", "").Body)
	testkit.Equal(t, "type of a schedule's event", got.Type, "dev.landfall.schedule")
	testkit.Equal(t, "what Fission would ask for", got.Protocol.Method+" "+got.Protocol.URL, "POST /report")
	// E-024: a trigger binds events to a function along with configuration
	testkit.Equal(t, "size", got.Config["size"], "S")
	got = tellingOf(t, s.Send("POST", s.URL+"/r/default/shop:"+string(first.ID)+"/orders", `{"total":9}`, "Content-Type",
		"application/json").Body)
	// E-112: what is not HTTP's can be fired by HTTP, too
	testkit.Equal(t, "type of a message's event", got.Type, "dev.landfall.message")
	if data, ok := got.Data.(map[string]any); !ok || data["total"] != 9.0 {
		t.Errorf("the message is %v", got.Data)
	}
}

// Schedules and queues fire for the live release only. Those of a preview are fired by hand, and by themselves once it
// is live.
func TestTriggersOfPreviews(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := site.FunctionsSpec("python-env", "hello hello.main") + site.TimerSpec("clock hello @every 1s")
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"hello/hello.py", "def main(event):\n    return 'live'\n")
	live := s.Pushed(r, "shop", "A schedule")
	r.Checkout("feature")
	r.Write("specs/functions.yaml", specs+site.TimerSpec("more hello @every 1s")+
		site.QueueSpec("heard", "functionref: {name: hello}", "topic: in", "respTopic: out"),
		"hello/hello.py", "def main(event):\n    return 'preview'\n")
	r.Commit("More triggers")
	preview := s.Released(r.Push("feature"), "shop")

	ran := func(release landfall.UID) (triggers []string) {
		for _, x := range site.List[landfall.Execution](s, "/executions?function=hello") {
			if x.Release == release {
				triggers = append(triggers, x.Trigger)
			}
		}
		return triggers
	}
	s.Landfall("queue", "publish", "shop", "in", "--data", "a message")
	before := len(ran(live))
	s.Eventually("the live release's schedule goes on", func() bool { return len(ran(live)) > before+2 })
	testkit.EqualList(t, "what the preview ran by itself", ran(preview), nil)

	for _, name := range []string{"clock", "more", "heard"} { // each once
		testkit.Equal(t, "answer of "+name, s.Landfall("trigger", "fire", "shop", name, "--release", "branch-feature"),
			"preview")
	}
	testkit.Equal(t, "answer of the live release", s.Landfall("trigger", "fire", "shop", "clock"), "live")

	s.Landfall("release", "live", "shop", string(preview))
	s.Eventually("its schedule fires", func() bool { return strings.Count(strings.Join(ran(preview), " "), "more") > 1 })
	s.Eventually("the message that waited is answered", func() bool { return len(s.Messages("shop", "out")) > 0 })
	testkit.Equal(t, "answer to the message", s.Messages("shop", "out")[0].Data, "preview")
}

// `trigger fire` gives a function what its schedule, queue or route would give it, in the live release and in another
// one.
func TestTriggersByCommand(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := telling(s)
	first := string(s.Release("shop", "live").ID)
	r.Write("tell/tell.py", "def main():\n    return 'two', 404\n")
	s.Pushed(r, "shop", "Another answer")
	for _, name := range []string{"tell", "closed", "morning", "orders"} {
		testkit.Equal(t, "live answer of "+name, s.Landfall("trigger", "fire", "shop", name), "two")
	}
	got := tellingOf(t, s.Landfall("trigger", "fire", "shop", "morning", "--release", first))
	testkit.Equal(t, "schedule", got.Type+" "+got.Protocol.Method+" "+got.Protocol.URL,
		"dev.landfall.schedule POST /report")
	got = tellingOf(t, s.Landfall("trigger", "fire", "shop", "orders", "--release", first, "--data", `{"total":9}`))
	testkit.Equal(t, "message", fmt.Sprint(got.Type, " ", got.Subject, " ", got.Data),
		"dev.landfall.message t1 map[total:9]")
	got = tellingOf(t, s.Landfall("trigger", "fire", "shop", "large", "--release", first, "--method", "put",
		"--data", "much"))
	testkit.Equal(t, "request", fmt.Sprint(got.Type, " ", got.Protocol.Method, " ", got.Data, " ", got.Config["size"]),
		"dev.landfall.http.request PUT much L")
	if got.Protocol.Header["Authorization"] != nil {
		t.Error("the function got the token of the command")
	}
	got = tellingOf(t, s.Landfall("trigger", "fire", "shop", "closed", "--release", first, "--type", "bill"))
	testkit.Equal(t, "own type", got.Type+" "+got.Source, "bill /r/default/shop:"+first+"/closed")
	answer, got := answerOf(t, s.Landfall("trigger", "fire", "shop", "morning", "--release", first, "-o", "json",
		"--event", "--data", `{"specversion":"1.0","id":"7","source":"/me","type":"mine"}`))
	testkit.Equal(t, "own event", got.Type, "mine")
	testkit.Contains(t, site.Told{string(answer["specversion"])}, "1.0")
	for _, c := range []struct {
		args, says string
		code       int
	}{
		{"morning --data trouble", "trouble in ", 1},
		{"morning --data trouble", "tell.py", 1}, // the trace, which no visitor sees
		{"nobody", "The release has no trigger of this name", 3},
		{"closed --type order", "no trigger", 3},
		{"morning --release v9", "no release, tag or commit", 3},
	} {
		args := strings.Fields("trigger fire shop " + c.args)
		if !strings.Contains(c.args, "--release") {
			args = append(args, "--release", first)
		}
		if out, code := s.Run(t.TempDir(), args...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit code %d: %s, want %d: %s", c.args, code, out, c.code, c.says)
		}
	}
	public := s.Send("POST", s.URL+"/r/default/shop:"+first+"/tell", "trouble", "Content-Type", site.NotEvent, "Accept",
		site.OneEvent, "Authorization", "")
	testkit.Equal(t, "status of who wants an event and has no token", public.Status, http.StatusUnauthorized)
}

// A request to a route becomes an event with all that an event to its trigger has, wherever it comes in.
func TestRouteMerges(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	telling(s)
	answer := s.Get(s.At("shop", "/api/tell"))
	got := tellingOf(t, answer.Body)
	// E-008: an event source emits events
	testkit.Equal(t, "type", got.Type, "dev.landfall.http.request")
	// E-069: the router's event goes through the trigger manager, which knows the trigger's configuration
	testkit.Equal(t, "colour", got.Config["colour"], "blue")
	// E-026: and tells the function which version it is
	testkit.Equal(t, "function", got.Function, s.URL+"/functions/default/tell:"+answer.Header.Get("Landfall-Version"))
	_, fired := answerOf(t, s.Send("POST", s.URL+"/fire", site.EventFrom("/r/default/shop/tell"), "Content-Type",
		site.OneEvent).Body)
	byHand := tellingOf(t, s.Send("POST", s.URL+"/r/default/shop/tell", "").Body)
	// E-056: every way in leads through the trigger manager
	if !reflect.DeepEqual(got.Trigger, fired.Trigger) || !reflect.DeepEqual(got.Trigger, byHand.Trigger) {
		t.Errorf("the triggers are %v at the route, %v by an event, %v by hand", got.Trigger, fired.Trigger, byHand.Trigger)
	}
}

// A trigger says what its calls may take, over what its function says; other triggers of the function notice nothing.
func TestResourcesOfTriggers(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := strings.Replace(site.FunctionsSpec("python-env", "slow slow.main"), "functionName: slow.main}",
		"functionName: slow.main}\n  functionTimeout: 90", 1)
	specs += "---\napiVersion: fission.io/v1\nkind: HTTPTrigger\nmetadata: {name: short}\nspec: {functionref: {name: " +
		"slow}, relativeurl: /short, functionTimeout: 1}\n"
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"slow/slow.py", "import time\n\n\ndef main(event):\n    time.sleep(3)\n    return 'slept'\n")
	s.Pushed(r, "shop", "A slow function")
	short := s.Get(s.At("shop", "/short"))
	testkit.Equal(t, "status of the trigger with a timeout", short.Status, http.StatusGatewayTimeout)
	// E-085: the trigger's timeout goes before the function's
	testkit.Contains(t, site.Told{s.Landfall("execution", "show", short.Header.Get("Landfall-Execution"))},
		"did not answer within 1s")
	site.WantServed(t, s, "shop", "/api/slow", "slept")
}

// Triggers of every kind can name one version, by any of its names, and keep to it while the function moves.
func TestVersionsOfTriggers(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := site.FunctionsSpec("python-env", "hello hello.main")
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"hello/hello.py", "def main():\n    return 'one'\n")
	s.Pushed(r, "shop", "The first version")
	var first client.Version
	s.Call(http.MethodGet, "/functions/hello/versions/1", nil, &first)
	kinds := map[string]string{"http": "HTTPTrigger relativeurl: /api/NAME", "time": `TimeTrigger cron: "0 8 * * *"`,
		"queue": "MessageQueueTrigger topic: NAME"}
	refs := map[string]string{
		"number": `{name: hello, version: "1"}`, "uid": `{name: "hello:` + string(first.UID) + `"}`,
		"digest": `{name: hello, version: "` + string(first.Digest) + `"}`, "latest": `{name: hello, version: latest}`,
		"moving": `{name: hello}`,
	}
	for kind, fields := range kinds {
		document, more, _ := strings.Cut(fields, " ")
		for name, ref := range refs {
			name = kind + "-" + name
			specs += "---\napiVersion: fission.io/v1\nkind: " + document + "\nmetadata: {name: " + name +
				"}\nspec: {functionref: " + ref + ", " +
				strings.ReplaceAll(more, "NAME", name) + "}\n"
		}
	}
	r.Write("hello/hello.py", "def main():\n    return 'two'\n", "specs/functions.yaml", specs)
	s.Pushed(r, "shop", "The second version")
	fire := func(trigger string) string { return s.Send("POST", s.URL+"/r/default/shop/"+trigger, "").Body }
	// an HTTP trigger of one version
	testkit.Equal(t, "answer at the route", s.Get(s.At("shop", "/api/http-number")).Body, "one")
	// a time trigger of one version
	testkit.Equal(t, "answer of the time trigger", fire("time-number"), "one")
	// what names a version is resolved, whatever it is written as
	testkit.Equal(t, "answers by uid and digest", fire("http-uid")+" "+fire("http-digest"), "one one")
	for kind := range kinds {
		// every kind of trigger can name a version, or the newest
		testkit.Equal(t, "answers of "+kind, fire(kind+"-number")+" "+fire(kind+"-latest"), "one two")
	}
	before := s.UnitsOf("shop", "live")["time-trigger time-moving"]
	r.Write("hello/hello.py", "def main():\n    return 'three'\n")
	s.Pushed(r, "shop", "The third version")
	testkit.Equal(t, "version of the trigger", s.UnitsOf("shop", "live")["time-trigger time-moving"].UID, before.UID)
	// B-061: a trigger that stays as it is leads to the newest version at once
	testkit.Equal(t, "answer of the trigger that stayed", fire("time-moving"), "three")
	for kind := range kinds {
		// B-056: a trigger with the version latest is resolved to the version that was made last
		testkit.Equal(t, "answer of "+kind+"-latest", fire(kind+"-latest"), "three")
	}
	// B-059: the trigger did not change, and all versions are there still
	testkit.Equal(t, "versions of the function", numbers(s, "/functions/hello"), "1 2 3")
	testkit.Equal(t, "answer of one that names a version", fire("queue-number"), "one")

	r.Write("specs/functions.yaml", specs+"---\napiVersion: fission.io/v1\nkind: TimeTrigger\nmetadata: {name: "+
		"lost}\nspec: {functionref: {name: hello, version: \"9\"}, cron: \"0 8 * * *\"}\n")
	// N-029: a trigger of a version that is not there is refused, with both names
	s.In(t).Attempt(r, "shop", "specs/functions.yaml:", "time-trigger lost names hello:9",
		`function hello has no version "9"; the newest is`)
	r.Write("specs/functions.yaml", specs+"---\napiVersion: fission.io/v1\nkind: HTTPTrigger\nmetadata: {name: "+
		"again}\nspec: {functionref: {name: hello}, relativeurl: /api/hello}\n")
	// N-029: two triggers on one route are refused, with both names
	s.In(t).Attempt(r, "shop", "specs/functions.yaml:", "of HTTPTrigger again conflicts with",
		"of HTTPTrigger hello at specs/functions.yaml:")
	testkit.Equal(t, "answer after what was refused", fire("time-moving"), "three")
}
