package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/runtime/trigger/queue/natstest"
	"landfall.dev/landfall/store"
)

// queueSpec declares a queue trigger of a function of the same name, unless more says otherwise.
func queueSpec(name string, more ...string) string {
	return "---\napiVersion: fission.io/v1\nkind: MessageQueueTrigger\nmetadata: {name: " + name + "}\nspec:\n  " +
		strings.Join(more, "\n  ") + "\n"
}

// messages returns what is kept at a topic.
func (s *site) messages(app, topic string) []client.Message {
	s.t.Helper()
	all, err := client.List[client.Message](context.Background(), s.Client, "/apps/"+app+"/messages/"+url.PathEscape(topic), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// texts returns the sorted data of messages.
func texts(all []client.Message) []string {
	var data []string
	for _, m := range all {
		data = append(data, m.Data)
	}
	slices.Sort(data)
	return data
}

// A message that a person publishes runs the function of the live release, and the person reads the answer.
func TestQueue(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]func(t *testing.T) []string{
		"embedded": func(*testing.T) []string { return nil },
		"server":   func(t *testing.T) []string { t.Helper(); return []string{"LANDFALL_NATS=" + natstest.New(t).URL} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, settings(t)...)
			r := s.repository(s.app("shop"))
			r.write("specs/app.yaml", appSpec("shop", "config: {currency: EUR}"), "site/index.html", "page",
				"specs/functions.yaml", functionsSpec("python-env", "f3 f3.main")+queueSpec("t1", "functionref: {name: f3}", "topic: orders.*",
					"respTopic: bills", "errorTopic: problems", "maxRetries: 1", "contentType: application/vnd.order+json", "config: {rate: '2'}",
					"filters:", "  - suffix: {subject: .new}"),
				"f3/f3.py", "def main(event):\n    import json\n    config = json.loads(event['config'])\n"+
					"    return '%s %s x%s %s %s' % (event['data']['id'], config['currency'], config['rate'], event['source'], event['datacontenttype'])\n")
			s.pushed(r, "shop", "A queue")
			for _, topic := range []string{"orders.old", "other", "orders.new"} {
				out, code := s.run(t.TempDir(), "queue", "publish", "shop", topic, "--data", `{"id": "`+topic+`"}`)
				wantEqual(t, "exit code", code, 0)
				wantText(t, told{out}, "stored as message", topic)
			}
			s.eventually("there is an answer", func() bool { return len(s.messages("shop", "bills")) > 0 })
			out, code := s.run(t.TempDir(), "queue", "read", "shop", "bills")
			wantEqual(t, "exit code", code, 0)
			wantText(t, told{out}, "orders.new EUR x2 /r/default/shop/t1")
			// E-032, E-064: a queue trigger listens to a topic, filters what comes, and runs its function for each that passes
			wantList(t, "answers", texts(s.messages("shop", "bills")), []string{"orders.new EUR x2 /r/default/shop/t1 application/vnd.order+json"})
			wantEqual(t, "messages", len(s.messages("shop", "orders.*")), 2)

			r.write("f3/f3.py", "def main(event):\n    raise ValueError('no more')\n")
			s.pushed(r, "shop", "A mistake")
			out, code = s.run(t.TempDir(), "queue", "publish", "shop", "orders.new")
			wantEqual(t, "exit code of a message without data", code, 2)
			wantText(t, told{out}, "--data is missing: text, @FILE, or - for standard input")
			_, code = s.run(t.TempDir(), "queue", "publish", "shop", "orders.new", "--data", `{"id": 8}`, "--key", "eight")
			wantEqual(t, "exit code", code, 0)
			s.eventually("it is a dead letter", func() bool { return len(s.messages("shop", "problems")) > 0 })
			dead := s.messages("shop", "problems")[0]
			wantEqual(t, "what is kept", dead.Data, `{"id": 8}`)
			// N-031: at the topic that the trigger names, after the retries that it has
			wantEqual(t, "attempts", strings.Join(dead.Headers["Landfall-Attempts"], " "), "2")
			wantText(t, told{strings.Join(dead.Headers["Landfall-Error"], " ")}, "no more")
			out, _ = s.run(t.TempDir(), "queue", "publish", "shop", "orders.new", "--data", `{"id": 8}`, "--key", "eight")
			wantText(t, told{out}, "was stored before")

			// An event without data is one.
			bare := s.post(s.URL+"/api/v1/apps/shop/messages/signals", "", "", "ce-specversion", "1.0", "ce-id", "9", "ce-source", "/me", "ce-type", "signal")
			wantEqual(t, "status of an event without data", bare.status, http.StatusAccepted)
			wantEqual(t, "messages without data", len(s.messages("shop", "signals")), 1)

			out, code = s.run(t.TempDir(), "queue", "publish", "shop", "orders.*", "--data", "x")
			wantEqual(t, "exit code for a topic that is none", code, 2)
			wantText(t, told{out}, `the word "*"`)
		})
	}
}

// A topic that an administrator grants an app is meant as it stands, at the NATS server: there, a trigger of the app hears what others
// say, and an app without the grant does not.
func TestQueueGranted(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_SUBJECTS=shop=default.zoo.orders.*")
	zoo := s.app("zoo")
	specs := func(name string) string {
		return functionsSpec("python-env", name+" echo.main") + queueSpec("heard-"+name, "functionref: {name: "+name+"}", "topic: default.zoo.orders.*", "respTopic: heard")
	}
	for name, app := range map[string]client.App{"shop": s.app("shop"), "park": s.app("park")} {
		r := s.repository(app)
		r.write("specs/functions.yaml", specs(name), "specs/app.yaml", appSpec(name), "site/index.html", "page", name+"/echo.py",
			"def main(event):\n    return event['data'] + ' at ' + event['subject']\n")
		s.pushed(r, name, "A trigger of others' messages")
	}
	publish := func(app, topic, text string) {
		t.Helper()
		if _, err := s.Publish(t.Context(), app, topic, "", "text/plain", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	publish(zoo.Name, "orders.new", "of the zoo")
	publish("park", "default.zoo.orders.new", "of the park") // which is its own topic, of the same name
	s.eventually("both have heard something", func() bool { return len(s.messages("shop", "heard")) > 0 && len(s.messages("park", "heard")) > 0 })
	wantList(t, "what the shop has heard", texts(s.messages("shop", "heard")), []string{"of the zoo at default.zoo.orders.new"})
	wantList(t, "what the park has heard", texts(s.messages("park", "heard")), []string{"of the park at default.zoo.orders.new"})
}

// A queue trigger that names a version keeps to it while its function moves.
func TestQueueVersions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.repository(s.app("shop"))
	specs := functionsSpec("python-env", "hello hello.main")
	r.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("shop"), "site/index.html", "page", "hello/hello.py", "def main():\n    return 'one'\n")
	s.pushed(r, "shop", "A function")
	r.write("specs/functions.yaml", specs+queueSpec("pinned", "functionref: {type: name, name: hello, version: 1}", "topic: in", "respTopic: pinned")+
		queueSpec("moving", "functionref: {type: name, name: hello}", "topic: in", "respTopic: moving"), "hello/hello.py", "def main():\n    return 'two'\n")
	s.pushed(r, "shop", "Another version, and triggers")
	s.call(http.MethodPost, "/apps/shop/messages/in", "a message", nil)
	s.eventually("both have answered", func() bool { return len(s.messages("shop", "pinned")) > 0 && len(s.messages("shop", "moving")) > 0 })
	//
	wantEqual(t, "answer of the version that is named", s.messages("shop", "pinned")[0].Data, "one")
	wantEqual(t, "answer of the latest", s.messages("shop", "moving")[0].Data, "two")
}

// Every message that was taken is answered, although the server is killed while messages come and go; and none of a silent trigger is
// lost when the release that had it is live again.
func TestQueueWhenKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LANDFALL_LEASE=2s")
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("python-env", "echo echo.main")+queueSpec("echo", "functionref: {name: echo}", "topic: in", "respTopic: out"),
		"specs/app.yaml", appSpec("shop"), "site/index.html", "page", "echo/echo.py", "def main(event):\n    return event['data']\n")
	s.pushed(r, "shop", "A function")
	var want []string
	for round := range 3 {
		for i := range 20 {
			text := fmt.Sprintf("%d-%d", round, i)
			if _, err := s.Publish(context.Background(), "shop", "in", text, "text/plain", []byte(text)); err == nil {
				want = append(want, text)
			}
		}
		s.kill()
	}
	wantEqual(t, "messages taken", len(want), 60)
	slices.Sort(want)
	s.eventually("all are answered", func() bool {
		return slices.Equal(slices.Compact(texts(s.messages("shop", "out"))), want)
	})
	wantEqual(t, "dead letters", len(s.messages("shop", "dead.>")), 0)
}

// The messages of an app are nobody else's, and go with it.
func TestQueueOfOneApp(t *testing.T) {
	t.Parallel()
	s := newStopped(t, engineOf(t, "sqlite+folder"))
	s.start()
	s.readToken()
	shop, zoo := s.app("shop"), s.app("zoo")
	tokens := map[string]store.Token{
		"invoke of the zoo": {Scope: store.ScopeInvoke, App: zoo.ID},
		"read":              {Scope: store.ScopeRead},
		"invoke":            {Scope: store.ScopeInvoke, App: shop.ID},
	}
	s.stop()
	db, err := s.openState()
	if err != nil {
		t.Fatal(err)
	}
	for secret, token := range tokens {
		token.Hash, token.Name = landfall.DigestOf([]byte(secret)), secret
		if err := db.Update(t.Context(), func(tx *store.Tx) error { return tx.PutToken(t.Context(), token) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	for secret, kind := range map[string]landfall.Kind{"invoke of the zoo": landfall.Forbidden, "read": landfall.Forbidden, "invoke": 0, "nothing": landfall.Unauthorized} {
		as := &client.Client{URL: s.URL, Token: secret}
		_, err := as.Publish(t.Context(), "shop", "in", "", "", []byte("x"))
		if (err == nil) != (kind == 0) || err != nil && landfall.KindOf(err) != kind {
			t.Errorf("publishing with %q: got %v, want kind %v", secret, err, kind)
		}
		_, err = client.List[client.Message](t.Context(), as, "/apps/shop/messages/in", nil)
		if (err == nil) != (kind == 0) || err != nil && landfall.KindOf(err) != kind {
			t.Errorf("reading with %q: got %v, want kind %v", secret, err, kind)
		}
	}
	wantEqual(t, "messages of the other", len(s.messages("zoo", ">")), 0)
	folder := filepath.Join(s.data, "nats", "jetstream", "$G", "streams", "landfall-"+shop.ID)
	if _, err := os.Stat(folder); err != nil {
		t.Fatal(err)
	}
	s.call(http.MethodDelete, "/apps/shop?force=true", nil, nil)
	s.eventually("its messages are gone", func() bool {
		_, err := os.Stat(folder)
		return os.IsNotExist(err)
	})
}

// While the disk is full messages are refused, and when there is space again they are taken and answered, without a restart. None of
// those that were taken is lost.
func TestFaultFullDiskOfMessages(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	s := newStopped(t, engineOf(t, "sqlite+folder"), "LANDFALL_LEASE=2s", "LANDFALL_SANDBOX=off")
	v := newVolume(t, size, s.data, "nats")
	s.within = v.enter()
	s.start()
	s.readToken()
	r := s.repository(s.app("shop"))
	r.write("specs/functions.yaml", functionsSpec("python-env", "echo echo.main")+queueSpec("echo", "functionref: {name: echo}", "topic: in", "respTopic: out"),
		"specs/app.yaml", appSpec("shop"), "site/index.html", "page", "echo/echo.py", "def main(event):\n    return event['data'][:8]\n")
	s.pushed(r, "shop", "A function")
	var want []string
	padding := strings.Repeat("x", 10_000)
	publish := func() error {
		text := fmt.Sprintf("%08d", len(want))
		_, err := s.Publish(context.Background(), "shop", "in", text, "text/plain", []byte(text+padding))
		if err == nil {
			want = append(want, text)
		}
		return err
	}
	for range 5 {
		if err := publish(); err != nil {
			t.Fatal(err)
		}
	}
	v.fill(0)
	s.eventually("a message is refused", func() bool { return publish() != nil })
	v.drain()
	s.eventually("messages are taken again", func() bool { return publish() == nil })
	s.eventually("all are answered", func() bool { return slices.Equal(slices.Compact(texts(s.messages("shop", "out"))), want) })
}
