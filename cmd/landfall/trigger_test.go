package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store"
)

// send sends a request with headers given as pairs. Its token is the site's, unless a header says another one.
func (s *site) send(method, address, body string, headers ...string) page {
	s.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, address, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.Token)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	c := http.Client{Transport: client.LocalTransport(), Timeout: patience}
	defer c.CloseIdleConnections()
	resp, err := c.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return page{resp.StatusCode, string(answer), resp.Header}
}

// Content types of events.
const (
	oneEvent    = "application/cloudevents+json"
	manyEvents  = "application/cloudevents-batch+json"
	notEvent    = "text/plain"
	tellingCode = `import json


def main(event):
    if event.get("data") == "trouble":
        raise ValueError("trouble in " + event["id"])
    told = {name: event.get(name) for name in ("source", "type", "subject", "data", "function")}
    for name in ("config", "trigger", "protocol"):
        told[name] = json.loads(event[name]) if isinstance(event.get(name), str) else event.get(name)
    return told
`
)

// telling declares the shop with triggers of every kind, all to a function that tells what is in its event.
func (s *site) telling() *repository {
	s.t.Helper()
	r := s.repository(s.app("shop"))
	specs := strings.Replace(functionsSpec("python-env", "tell tell.main"), "relativeurl: /api/tell", "relativeurl: /api/tell, config: {colour: blue}", 1) +
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
	r.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("shop", "config: {currency: EUR, colour: red}"), "site/index.html", "page", "tell/tell.py", tellingCode)
	s.pushed(r, "shop", "Triggers of all kinds")
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

func eventFrom(source string) string {
	return `{"specversion":"1.0","id":"7","source":"` + source + `","type":"order","subject":"s1","data":{"total":9}}`
}

// An event finds its triggers by its source, whatever its sender knows of functions, and the function finds in it what app and
// trigger are configured to.
func TestFire(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.telling()
	fired := s.send("POST", s.URL+"/fire", eventFrom("/r/default/shop/tell"), "Content-Type", oneEvent)
	wantEqual(t, "status", fired.status, http.StatusOK)
	// E-073: in one process the manager gives the event to the runner itself: there is no router
	if log := s.log.String(); !strings.Contains(log, `"runner"`) || strings.Contains(log, `"router"`) {
		t.Errorf("the roles of the process that answered are not a runner's without a router's: %s", log)
	}
	answer, got := answerOf(t, fired.body)
	// E-028: the event goes on to be executed, as its sender wrote it
	wantEqual(t, "data", fmt.Sprint(got.Data), "map[total:9]")
	// E-107: POST /fire takes a CloudEvent
	wantEqual(t, "content type of the answer", fired.header.Get("Content-Type"), oneEvent)
	// E-108: the trigger whose source the event has is fired
	wantEqual(t, "subject", got.Subject, "s1")
	// E-084: the function gets what the trigger sets, over what the app sets
	wantEqual(t, "colour", got.Config["colour"], "blue")
	// E-070: what the app is configured to is merged in
	wantEqual(t, "currency", got.Config["currency"], "EUR")
	// E-027: extensions.trigger has it, too, with the function's URL
	wantEqual(t, "currency of the trigger", got.Trigger.Config["currency"], "EUR")
	// E-071: the function's URL names its version
	wantEqual(t, "function", got.Function, s.URL+"/functions/default/tell:"+fired.header.Get("Landfall-Version"))
	wantEqual(t, "function of the trigger", got.Trigger.Function, got.Function)
	for _, name := range []string{"config", "trigger", "function"} {
		// E-077: what the request was extended by is not in the answer
		if _, there := answer[name]; there {
			t.Errorf("the answer has %s: %s", name, fired.body)
		}
	}
	run := s.send("POST", s.URL+"/run", eventFrom("/r/default/shop/tell"), "Content-Type", oneEvent)
	_, got = answerOf(t, run.body)
	// E-057: /run is the same
	wantEqual(t, "colour", got.Config["colour"], "blue")

	for source, want := range map[string]string{
		s.at("shop", "/api/tell"):     "blue", // POST, which the route takes
		"/r/default/shop:live/tell":   "blue",
		"/r/default/shop:latest/tell": "blue",
		"/r/default/shop/morning":     "red",
		"/r/default/shop/orders":      "red",
	} {
		_, got := answerOf(t, s.send("POST", s.URL+"/fire", eventFrom(source), "Content-Type", oneEvent).body)
		// E-059: the trigger is looked up by the event's source
		wantEqual(t, "colour by "+source, got.Config["colour"], want)
	}
	_, got = answerOf(t, s.send("POST", s.URL+"/fire", eventFrom("default.shop.t1"), "Content-Type", oneEvent).body)
	// E-109: its sender may know nothing but the name of a topic
	wantEqual(t, "source by topic", got.Source+" "+got.Config["colour"], "default.shop.t1 red")
	withMethod := strings.Replace(eventFrom(s.at("shop", "/api/large/9")), `"data"`, `"protocol":"{\"method\":\"PUT\"}","data"`, 1)
	_, got = answerOf(t, s.send("POST", s.URL+"/fire", withMethod, "Content-Type", oneEvent).body)
	// E-030: each path leads to a function with its own configuration
	wantEqual(t, "size by the route of another trigger", got.Config["size"], "L")
}

// An answer has the form of its request.
func TestFireForms(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.telling()
	binary := s.send("POST", s.URL+"/fire", `{"total":9}`, "Content-Type", "application/json",
		"ce-specversion", "1.0", "ce-id", "7", "ce-source", "/r/default/shop/tell", "ce-type", "order")
	wantEqual(t, "version of a binary answer", binary.header.Get("Ce-Specversion"), "1.0")
	wantEqual(t, "currency in a binary answer", tellingOf(t, binary.body).Config["currency"], "EUR")

	old := s.send("POST", s.URL+"/run", `{"cloud-events-version":"0.1","event-id":"7","event-type":"order","source":"/r/default/shop/tell",`+
		`"content-type":"application/json","data":{"total":9},"extensions":{"protocol":{"headers":{"X-Mine":["1"]}}}}`, "Content-Type", "application/json")
	answer, got := answerOf(t, old.body)
	// E-058: what comes in is an event, also of the document's own shape, and the answer is one
	wantEqual(t, "version of the answer to an event of 0.1", string(answer["cloud-events-version"]), `"0.1"`)
	wantEqual(t, "currency", got.Config["currency"], "EUR")
	wantEqual(t, "header", strings.Join(got.Protocol.Header["X-Mine"], ""), "1")

	many := s.send("POST", s.URL+"/fire", "["+eventFrom("/r/default/shop/tell")+","+eventFrom("/r/default/shop/nobody")+","+
		strings.Replace(eventFrom("/r/default/shop/morning"), `{"total":9}`, `"trouble"`, 1)+"]", "Content-Type", manyEvents)
	var answers []struct {
		Data  toldEvent
		Error string
	}
	if err := json.Unmarshal([]byte(many.body), &answers); err != nil || len(answers) != 3 {
		t.Fatalf("got %s: %v", many.body, err)
	}
	wantEqual(t, "colour in the batch", answers[0].Data.Config["colour"], "blue")
	wantText(t, told{answers[1].Error}, "no trigger", `"type":"not-found"`)
	wantText(t, told{answers[2].Error}, "trouble in 7", "ValueError")
}

// What fires nothing says so by an event, and never whether others could have.
func TestFireNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.telling()
	zoo := s.repository(s.app("zoo"))
	zoo.write("specs/functions.yaml", functionsSpec("python-env", "zebra zebra.main"), "specs/app.yaml", appSpec("zoo"), "site/index.html", "page",
		"zebra/zebra.py", "def main():\n    return 'zebra'\n")
	s.pushed(zoo, "zoo", "Another app")
	for _, source := range []string{
		"/r/default/shop/nobody", "/r/default/nobody/tell", "/r/other/shop/tell", "/r/default/shop", "/r/default/shop:v9/tell", "/r/", "nobody.t1",
		s.at("shop", "/api/nobody"), s.at("shop", "/api/large/9"), s.at("nobody", "/api/tell"), "http://example.com/api/tell", "mailto:tell",
		"/r/default/shop/closed", // which takes bills alone
	} {
		answer := s.send("POST", s.URL+"/fire", eventFrom(source), "Content-Type", oneEvent)
		wantEqual(t, "status of "+source, answer.status, http.StatusNotFound)
		wantEqual(t, "content type of "+source, answer.header.Get("Content-Type"), oneEvent)
		wantText(t, told{answer.body}, `"error":`, "no trigger of an app that the token may invoke", `"source":"`+source+`"`)
	}
	bill := strings.Replace(eventFrom("/r/default/shop/closed"), `"order"`, `"bill"`, 1)
	wantEqual(t, "status of what the filters let pass", s.send("POST", s.URL+"/fire", bill, "Content-Type", oneEvent).status, http.StatusOK)
	for body, status := range map[string]int{
		`no event`: http.StatusBadRequest,
		`{"specversion":"1.0","id":"1","type":"t"}`:                                                 http.StatusBadRequest,
		`{"specversion":"2.0","id":"1","type":"t","source":"/x"}`:                                   http.StatusBadRequest,
		eventFrom("/r/default/shop/" + strings.Repeat("tell", 2<<20)):                               http.StatusRequestEntityTooLarge,
		strings.Replace(eventFrom(s.at("shop", "/api/tell")), `"data"`, `"protocol":"7","data"`, 1): http.StatusBadRequest,
	} {
		answer := s.send("POST", s.URL+"/run", body, "Content-Type", oneEvent)
		wantEqual(t, "status", answer.status, status)
		wantText(t, told{answer.body}, `"error":`)
	}
	wantEqual(t, "status of GET", s.send("GET", s.URL+"/fire", "").status, http.StatusMethodNotAllowed)
	wantEqual(t, "status without a token", s.send("POST", s.URL+"/fire", eventFrom("/r/default/shop/tell"), "Content-Type", oneEvent, "Authorization", "").status, http.StatusUnauthorized)
	wantEqual(t, "status with a wrong token", s.send("POST", s.URL+"/run", eventFrom("/r/default/shop/tell"), "Content-Type", oneEvent, "Authorization", "Bearer nobody").status, http.StatusUnauthorized)

	caller, reader := strings.Repeat("caller", 8), strings.Repeat("reader", 8)
	s.putTokens(store.Token{Hash: landfall.DigestOf([]byte(caller)), Name: "caller", Scope: store.ScopeInvoke, App: s.appID("shop")},
		store.Token{Hash: landfall.DigestOf([]byte(reader)), Name: "reader", Scope: store.ScopeRead})
	as := func(token, source string) page {
		return s.send("POST", s.URL+"/fire", eventFrom(source), "Content-Type", oneEvent, "Authorization", "Bearer "+token)
	}
	wantEqual(t, "status with a token that may not invoke", as(reader, "/r/default/shop/tell").status, http.StatusForbidden)
	wantEqual(t, "status with the app's token", as(caller, "/r/default/shop/tell").status, http.StatusOK)
	other, nobody := as(caller, "/r/default/zoo/zebra"), as(caller, "/r/default/zoo/nobody")
	wantEqual(t, "status with another app's token", other.status, http.StatusNotFound)
	wantEqual(t, "status of the administrator", s.send("POST", s.URL+"/fire", eventFrom("/r/default/zoo/zebra"), "Content-Type", oneEvent).status, http.StatusOK)
	wantEqual(t, "what another app's token is told", len(other.body), len(nobody.body)-len("nobody")+len("zebra"))
}

// putTokens stores tokens while the server is stopped.
func (s *site) putTokens(tokens ...store.Token) {
	s.t.Helper()
	s.stop()
	db, err := s.openState()
	if err != nil {
		s.t.Fatal(err)
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
		s.t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.start()
}

// appID returns the id of an app.
func (s *site) appID(name string) string {
	s.t.Helper()
	var app client.App
	s.call(http.MethodGet, "/apps/"+name, nil, &app)
	return app.ID
}

// An HTTP trigger answers at the control host as at its route, to whoever may call that, in any release. What could harm the
// control host does not get out.
func TestTriggersByName(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.telling()
	first := s.release("shop", "live")
	public := []string{"Authorization", "", "Cookie", "__Host-landfall=session; mine=1"}
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		answer := s.send(method, s.URL+"/r/default/shop/tell?a=b", "", public...)
		got := tellingOf(t, answer.body)
		// E-106: any method fires it
		wantEqual(t, "method", got.Protocol.Method, method)
		wantEqual(t, "address", got.Protocol.URL, s.URL+"/r/default/shop/tell?a=b")
		wantEqual(t, "cookie", strings.Join(got.Protocol.Header["Cookie"], ""), "mine=1")
		wantEqual(t, "source", got.Source, "/r/default/shop/tell")
		wantEqual(t, "colour", got.Config["colour"], "blue")
		wantEqual(t, "policy", answer.header.Get("Content-Security-Policy"), "sandbox; default-src 'none'")
		wantEqual(t, "sniffing", answer.header.Get("X-Content-Type-Options"), "nosniff")
		wantEqual(t, "resource policy", answer.header.Get("Cross-Origin-Resource-Policy"), "same-origin")
		wantEqual(t, "release", answer.header.Get("Landfall-Release"), string(first.ID))
	}
	known := s.send("POST", s.URL+"/r/default/shop/tell", "data of mine", "Content-Type", notEvent)
	// E-105: here the body is raw, in and out; events are in and out at /fire
	if got := tellingOf(t, known.body); got.Data != "data of mine" || got.Protocol.Header["Authorization"] != nil {
		t.Errorf("the function got %v and the token %q", got.Data, got.Protocol.Header["Authorization"])
	}
	for path, status := range map[string]int{
		"/r/default/shop/closed": http.StatusUnauthorized, "/r/default/shop/nobody": http.StatusNotFound, "/r/other/shop/tell": http.StatusNotFound,
		"/r/default/nobody/tell": http.StatusNotFound, "/r/default/shop:v9/tell": http.StatusNotFound, "/r/": http.StatusNotFound, "/r/default/shop/tell/more": http.StatusNotFound,
	} {
		wantEqual(t, "status of "+path, s.send("GET", s.URL+path, "", "Authorization", "").status, status)
	}
	wantEqual(t, "status with a token", s.send("GET", s.URL+"/r/default/shop/closed", "").status, http.StatusOK)

	r.write("tell/tell.py", "from flask import Response\n\n\ndef main():\n"+
		"    return Response('two', headers={'Set-Cookie': 'a=b', 'Service-Worker-Allowed': '/', 'Clear-Site-Data': '\"*\"', 'Content-Security-Policy': 'none', 'X-Mine': '1', 'ETag': '\"two\"', 'x-accel-redirect': '/etc/passwd', 'X-Sendfile': '/etc/passwd'})\n")
	s.pushed(r, "shop", "Another answer")
	second := s.send("GET", s.URL+"/r/default/shop/tell", "", "Authorization", "")
	wantEqual(t, "answer", second.body, "two")
	wantEqual(t, "header", second.header.Get("ETag"), `"two"`)
	wantEqual(t, "policy", strings.Join(second.header.Values("Content-Security-Policy"), ","), "sandbox; default-src 'none'")
	// K-019: headers by which a proxy serves its own files never leave a function's answer; on the control host only listed headers do
	for _, name := range []string{"Set-Cookie", "Service-Worker-Allowed", "Clear-Site-Data", "X-Mine", "X-Accel-Redirect", "X-Sendfile"} {
		wantEqual(t, name, second.header.Get(name), "")
	}
	routed := s.get("http://shop.localhost:" + s.port + "/api/tell")
	wantEqual(t, "header at the route", routed.header.Get("X-Mine"), "1")
	wantEqual(t, "order to a proxy at the route", routed.header.Get("X-Accel-Redirect")+routed.header.Get("X-Sendfile"), "")
	preview := s.send("POST", s.URL+"/r/default/shop:"+string(first.ID)+"/tell", "", "Authorization", "")
	wantEqual(t, "release of the address", preview.header.Get("Landfall-Release"), string(first.ID))
	wantEqual(t, "colour in the older release", tellingOf(t, preview.body).Config["colour"], "blue")
}

// A schedule or a queue trigger is fired by hand with a token, in any release.
func TestOtherTriggersByName(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.telling()
	first := s.release("shop", "live")
	units := s.unitsOf("shop", "live")
	for _, name := range []string{"http-trigger tell", "http-trigger large", "time-trigger morning", "queue-trigger orders"} {
		// E-029: an app groups triggers
		if _, there := units[name]; !there {
			t.Errorf("the app has no %s", name)
		}
	}
	// E-111: a route is a trigger, and no part of its function
	if route, function := units["http-trigger tell"], units["function tell"]; route.Digest == function.Digest || function.UID == "" {
		t.Errorf("the route is %v and the function %v", route, function)
	}
	wantEqual(t, "status without a token", s.send("POST", s.URL+"/r/default/shop/morning", "", "Authorization", "").status, http.StatusUnauthorized)
	read := s.send("GET", s.URL+"/r/default/shop/morning", "")
	wantEqual(t, "status of GET", read.status, http.StatusMethodNotAllowed)
	wantEqual(t, "allowed", read.header.Get("Allow"), "POST")
	r.write("tell/tell.py", "def main():\n    return 'two'\n")
	s.pushed(r, "shop", "Another answer")
	wantEqual(t, "answer", s.send("POST", s.URL+"/r/default/shop/morning", "").body, "two")
	got := tellingOf(t, s.send("POST", s.URL+"/r/default/shop:"+string(first.ID)+"/morning", "").body)
	wantEqual(t, "type of a schedule's event", got.Type, "dev.landfall.schedule")
	wantEqual(t, "what Fission would ask for", got.Protocol.Method+" "+got.Protocol.URL, "POST /report")
	// E-024: a trigger binds events to a function along with configuration
	wantEqual(t, "size", got.Config["size"], "S")
	got = tellingOf(t, s.send("POST", s.URL+"/r/default/shop:"+string(first.ID)+"/orders", `{"total":9}`, "Content-Type", "application/json").body)
	// E-112: what is not HTTP's can be fired by HTTP, too
	wantEqual(t, "type of a message's event", got.Type, "dev.landfall.message")
	if data, ok := got.Data.(map[string]any); !ok || data["total"] != 9.0 {
		t.Errorf("the message is %v", got.Data)
	}
}

// Schedules and queues fire for the live release only. Those of a preview are fired by hand, and by themselves once it is live.
func TestTriggersOfPreviews(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	specs := functionsSpec("python-env", "hello hello.main") + timerSpec("clock hello @every 1s")
	r.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("shop"), "site/index.html", "page", "hello/hello.py", "def main(event):\n    return 'live'\n")
	live := s.pushed(r, "shop", "A schedule")
	r.checkout("feature")
	r.write("specs/functions.yaml", specs+timerSpec("more hello @every 1s")+queueSpec("heard", "functionref: {name: hello}", "topic: in", "respTopic: out"),
		"hello/hello.py", "def main(event):\n    return 'preview'\n")
	r.commit("More triggers")
	preview := s.released(r.push("feature"), "shop")

	ran := func(release landfall.UID) (triggers []string) {
		for _, x := range list[landfall.Execution](s, "/executions?function=hello") {
			if x.Release == release {
				triggers = append(triggers, x.Trigger)
			}
		}
		return triggers
	}
	s.landfall("queue", "publish", "shop", "in", "--data", "a message")
	before := len(ran(live))
	s.eventually("the live release's schedule goes on", func() bool { return len(ran(live)) > before+2 })
	wantList(t, "what the preview ran by itself", ran(preview), nil)

	for _, name := range []string{"clock", "more", "heard"} { // each once
		wantEqual(t, "answer of "+name, s.landfall("trigger", "fire", "shop", name, "--release", "branch-feature"), "preview")
	}
	wantEqual(t, "answer of the live release", s.landfall("trigger", "fire", "shop", "clock"), "live")

	s.landfall("release", "live", "shop", string(preview))
	s.eventually("its schedule fires", func() bool { return strings.Count(strings.Join(ran(preview), " "), "more") > 1 })
	s.eventually("the message that waited is answered", func() bool { return len(s.messages("shop", "out")) > 0 })
	wantEqual(t, "answer to the message", s.messages("shop", "out")[0].Data, "preview")
}

// `trigger fire` gives a function what its schedule, queue or route would give it, in the live release and in another one.
func TestTriggersByCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.telling()
	first := string(s.release("shop", "live").ID)
	r.write("tell/tell.py", "def main():\n    return 'two', 404\n")
	s.pushed(r, "shop", "Another answer")
	for _, name := range []string{"tell", "closed", "morning", "orders"} {
		wantEqual(t, "live answer of "+name, s.landfall("trigger", "fire", "shop", name), "two")
	}
	got := tellingOf(t, s.landfall("trigger", "fire", "shop", "morning", "--release", first))
	wantEqual(t, "schedule", got.Type+" "+got.Protocol.Method+" "+got.Protocol.URL, "dev.landfall.schedule POST /report")
	got = tellingOf(t, s.landfall("trigger", "fire", "shop", "orders", "--release", first, "--data", `{"total":9}`))
	wantEqual(t, "message", fmt.Sprint(got.Type, " ", got.Subject, " ", got.Data), "dev.landfall.message t1 map[total:9]")
	got = tellingOf(t, s.landfall("trigger", "fire", "shop", "large", "--release", first, "--method", "put", "--data", "much"))
	wantEqual(t, "request", fmt.Sprint(got.Type, " ", got.Protocol.Method, " ", got.Data, " ", got.Config["size"]), "dev.landfall.http.request PUT much L")
	if got.Protocol.Header["Authorization"] != nil {
		t.Error("the function got the token of the command")
	}
	got = tellingOf(t, s.landfall("trigger", "fire", "shop", "closed", "--release", first, "--type", "bill"))
	wantEqual(t, "own type", got.Type+" "+got.Source, "bill /r/default/shop:"+first+"/closed")
	answer, got := answerOf(t, s.landfall("trigger", "fire", "shop", "morning", "--release", first, "-o", "json",
		"--event", "--data", `{"specversion":"1.0","id":"7","source":"/me","type":"mine"}`))
	wantEqual(t, "own event", got.Type, "mine")
	wantText(t, told{string(answer["specversion"])}, "1.0")
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
		if out, code := s.run(t.TempDir(), args...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%s: exit code %d: %s, want %d: %s", c.args, code, out, c.code, c.says)
		}
	}
	public := s.send("POST", s.URL+"/r/default/shop:"+first+"/tell", "trouble", "Content-Type", notEvent, "Accept", oneEvent, "Authorization", "")
	wantEqual(t, "status of who wants an event and has no token", public.status, http.StatusUnauthorized)
}

// A request to a route becomes an event with all that an event to its trigger has, wherever it comes in.
func TestRouteMerges(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.telling()
	answer := s.get(s.at("shop", "/api/tell"))
	got := tellingOf(t, answer.body)
	// E-008: an event source emits events
	wantEqual(t, "type", got.Type, "dev.landfall.http.request")
	// E-069: the router's event goes through the trigger manager, which knows the trigger's configuration
	wantEqual(t, "colour", got.Config["colour"], "blue")
	// E-026: and tells the function which version it is
	wantEqual(t, "function", got.Function, s.URL+"/functions/default/tell:"+answer.header.Get("Landfall-Version"))
	_, fired := answerOf(t, s.send("POST", s.URL+"/fire", eventFrom("/r/default/shop/tell"), "Content-Type", oneEvent).body)
	byHand := tellingOf(t, s.send("POST", s.URL+"/r/default/shop/tell", "").body)
	// E-056: every way in leads through the trigger manager
	if !reflect.DeepEqual(got.Trigger, fired.Trigger) || !reflect.DeepEqual(got.Trigger, byHand.Trigger) {
		t.Errorf("the triggers are %v at the route, %v by an event, %v by hand", got.Trigger, fired.Trigger, byHand.Trigger)
	}
}

// A trigger says what its calls may take, over what its function says; other triggers of the function notice nothing.
func TestResourcesOfTriggers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	specs := strings.Replace(functionsSpec("python-env", "slow slow.main"), "functionName: slow.main}", "functionName: slow.main}\n  functionTimeout: 90", 1)
	specs += "---\napiVersion: fission.io/v1\nkind: HTTPTrigger\nmetadata: {name: short}\nspec: {functionref: {name: slow}, relativeurl: /short, functionTimeout: 1}\n"
	r.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("shop"), "site/index.html", "page", "slow/slow.py",
		"import time\n\n\ndef main(event):\n    time.sleep(3)\n    return 'slept'\n")
	s.pushed(r, "shop", "A slow function")
	short := s.get(s.at("shop", "/short"))
	wantEqual(t, "status of the trigger with a timeout", short.status, http.StatusGatewayTimeout)
	// E-085: the trigger's timeout goes before the function's
	wantText(t, told{s.landfall("execution", "show", short.header.Get("Landfall-Execution"))}, "did not answer within 1s")
	wantServed(t, s, "shop", "/api/slow", "slept")
}

// Triggers of every kind can name one version, by any of its names, and keep to it while the function moves.
func TestVersionsOfTriggers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	specs := functionsSpec("python-env", "hello hello.main")
	r.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("shop"), "site/index.html", "page", "hello/hello.py", "def main():\n    return 'one'\n")
	s.pushed(r, "shop", "The first version")
	var first client.Version
	s.call(http.MethodGet, "/functions/hello/versions/1", nil, &first)
	kinds := map[string]string{"http": "HTTPTrigger relativeurl: /api/NAME", "time": `TimeTrigger cron: "0 8 * * *"`, "queue": "MessageQueueTrigger topic: NAME"}
	refs := map[string]string{
		"number": `{name: hello, version: "1"}`, "uid": `{name: "hello:` + string(first.UID) + `"}`, "digest": `{name: hello, version: "` + string(first.Digest) + `"}`,
		"latest": `{name: hello, version: latest}`, "moving": `{name: hello}`,
	}
	for kind, fields := range kinds {
		document, more, _ := strings.Cut(fields, " ")
		for name, ref := range refs {
			name = kind + "-" + name
			specs += "---\napiVersion: fission.io/v1\nkind: " + document + "\nmetadata: {name: " + name + "}\nspec: {functionref: " + ref + ", " +
				strings.ReplaceAll(more, "NAME", name) + "}\n"
		}
	}
	r.write("hello/hello.py", "def main():\n    return 'two'\n", "specs/functions.yaml", specs)
	s.pushed(r, "shop", "The second version")
	fire := func(trigger string) string { return s.send("POST", s.URL+"/r/default/shop/"+trigger, "").body }
	// an HTTP trigger of one version
	wantEqual(t, "answer at the route", s.get(s.at("shop", "/api/http-number")).body, "one")
	// a time trigger of one version
	wantEqual(t, "answer of the time trigger", fire("time-number"), "one")
	// what names a version is resolved, whatever it is written as
	wantEqual(t, "answers by uid and digest", fire("http-uid")+" "+fire("http-digest"), "one one")
	for kind := range kinds {
		// every kind of trigger can name a version, or the newest
		wantEqual(t, "answers of "+kind, fire(kind+"-number")+" "+fire(kind+"-latest"), "one two")
	}
	before := s.unitsOf("shop", "live")["time-trigger time-moving"]
	r.write("hello/hello.py", "def main():\n    return 'three'\n")
	s.pushed(r, "shop", "The third version")
	wantEqual(t, "version of the trigger", s.unitsOf("shop", "live")["time-trigger time-moving"].UID, before.UID)
	// B-061: a trigger that stays as it is leads to the newest version at once
	wantEqual(t, "answer of the trigger that stayed", fire("time-moving"), "three")
	wantEqual(t, "answer of one that names a version", fire("queue-number"), "one")

	r.write("specs/functions.yaml", specs+"---\napiVersion: fission.io/v1\nkind: TimeTrigger\nmetadata: {name: lost}\nspec: {functionref: {name: hello, version: \"9\"}, cron: \"0 8 * * *\"}\n")
	// N-029: a trigger of a version that is not there is refused, with both names
	s.in(t).attempt(r, "shop", "specs/functions.yaml:", "time-trigger lost names hello:9", `function hello has no version "9"; the newest is`)
	r.write("specs/functions.yaml", specs+"---\napiVersion: fission.io/v1\nkind: HTTPTrigger\nmetadata: {name: again}\nspec: {functionref: {name: hello}, relativeurl: /api/hello}\n")
	// N-029: two triggers on one route are refused, with both names
	s.in(t).attempt(r, "shop", "specs/functions.yaml:", "of HTTPTrigger again conflicts with", "of HTTPTrigger hello at specs/functions.yaml:")
	wantEqual(t, "answer after what was refused", fire("time-moving"), "three")
}
