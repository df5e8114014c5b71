package function_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/runtime/trigger/queue/natstest"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/test/machine"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// A message that a person publishes runs the function of the live release, and the person reads the answer.
func TestQueue(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]func(t *testing.T) []string{
		"embedded": func(*testing.T) []string { return nil },
		"server":   func(t *testing.T) []string { t.Helper(); return []string{"LANDFALL_NATS=" + natstest.New(t).URL} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := site.New(t, settings(t)...)
			r := s.Repository(s.App("shop"))
			r.Write("specs/app.yaml", site.AppSpec("shop", "config: {currency: EUR}"), "site/index.html", "page",
				"specs/functions.yaml", site.FunctionsSpec("python-env", "f3 f3.main")+
					site.QueueSpec("t1", "functionref: {name: f3}", "topic: orders.*",
						"respTopic: bills", "errorTopic: problems", "maxRetries: 1", "contentType: application/vnd.order+json",
						"config: {rate: '2'}", "filters:", "  - suffix: {subject: .new}"),
				"f3/f3.py", "def main(event):\n    import json\n    config = json.loads(event['config'])\n"+
					"    return '%s %s x%s %s %s' % (event['data']['id'], config['currency'], config['rate'], event['source'], "+
					"event['datacontenttype'])\n")
			s.Pushed(r, "shop", "A queue")
			for _, topic := range []string{"orders.old", "other", "orders.new"} {
				out, code := s.Run(t.TempDir(), "queue", "publish", "shop", topic, "--data", `{"id": "`+topic+`"}`)
				testkit.Equal(t, "exit code", code, 0)
				testkit.Contains(t, site.Told{out}, "stored as message", topic)
			}
			s.Eventually("there is an answer", func() bool { return len(s.Messages("shop", "bills")) > 0 })
			out, code := s.Run(t.TempDir(), "queue", "read", "shop", "bills")
			testkit.Equal(t, "exit code", code, 0)
			testkit.Contains(t, site.Told{out}, "orders.new EUR x2 /r/default/shop/t1")
			// E-032, E-064: a queue trigger listens to a topic, filters what comes, and runs its function for each that passes
			testkit.EqualList(t, "answers", site.Texts(s.Messages("shop", "bills")),
				[]string{"orders.new EUR x2 /r/default/shop/t1 application/vnd.order+json"})
			testkit.Equal(t, "messages", len(s.Messages("shop", "orders.*")), 2)

			r.Write("f3/f3.py", "def main(event):\n    raise ValueError('no more')\n")
			s.Pushed(r, "shop", "A mistake")
			out, code = s.Run(t.TempDir(), "queue", "publish", "shop", "orders.new")
			testkit.Equal(t, "exit code of a message without data", code, 2)
			testkit.Contains(t, site.Told{out}, "--data is missing: text, @FILE, or - for standard input")
			_, code = s.Run(t.TempDir(), "queue", "publish", "shop", "orders.new", "--data", `{"id": 8}`, "--key", "eight")
			testkit.Equal(t, "exit code", code, 0)
			s.Eventually("it is a dead letter", func() bool { return len(s.Messages("shop", "problems")) > 0 })
			dead := s.Messages("shop", "problems")[0]
			testkit.Equal(t, "what is kept", dead.Data, `{"id": 8}`)
			// N-031: at the topic that the trigger names, after the retries that it has
			testkit.Equal(t, "attempts", strings.Join(dead.Headers["Landfall-Attempts"], " "), "2")
			testkit.Contains(t, site.Told{strings.Join(dead.Headers["Landfall-Error"], " ")}, "no more")
			out, _ = s.Run(t.TempDir(), "queue", "publish", "shop", "orders.new", "--data", `{"id": 8}`, "--key", "eight")
			testkit.Contains(t, site.Told{out}, "was stored before")

			// An event without data is one.
			bare := s.Post(s.URL+"/api/v1/apps/shop/messages/signals", "", "", "ce-specversion", "1.0", "ce-id", "9",
				"ce-source", "/me", "ce-type", "signal")
			testkit.Equal(t, "status of an event without data", bare.Status, http.StatusAccepted)
			testkit.Equal(t, "messages without data", len(s.Messages("shop", "signals")), 1)

			out, code = s.Run(t.TempDir(), "queue", "publish", "shop", "orders.*", "--data", "x")
			testkit.Equal(t, "exit code for a topic that is none", code, 2)
			testkit.Contains(t, site.Told{out}, `the word "*"`)
		})
	}
}

// A topic that an administrator grants an app is meant as it stands, at the NATS server: there, a trigger of the app
// hears what others say, and an app without the grant does not.
func TestQueueGranted(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_SUBJECTS=shop=default.zoo.orders.*")
	zoo := s.App("zoo")
	specs := func(name string) string {
		return site.FunctionsSpec("python-env", name+" echo.main") +
			site.QueueSpec("heard-"+name, "functionref: {name: "+name+"}", "topic: default.zoo.orders.*", "respTopic: heard")
	}
	for name, app := range map[string]client.App{"shop": s.App("shop"), "park": s.App("park")} {
		r := s.Repository(app)
		r.Write("specs/functions.yaml", specs(name), "specs/app.yaml", site.AppSpec(name), "site/index.html", "page",
			name+"/echo.py", "def main(event):\n    return event['data'] + ' at ' + event['subject']\n")
		s.Pushed(r, name, "A trigger of others' messages")
	}
	publish := func(app, topic, text string) {
		t.Helper()
		if _, err := s.Publish(t.Context(), app, topic, "", "text/plain", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	publish(zoo.Name, "orders.new", "of the zoo")
	publish("park", "default.zoo.orders.new", "of the park") // which is its own topic, of the same name
	s.Eventually("both have heard something", func() bool {
		return len(s.Messages("shop", "heard")) > 0 && len(s.Messages("park", "heard")) > 0
	})
	testkit.EqualList(t, "what the shop has heard", site.Texts(s.Messages("shop", "heard")),
		[]string{"of the zoo at default.zoo.orders.new"})
	testkit.EqualList(t, "what the park has heard", site.Texts(s.Messages("park", "heard")),
		[]string{"of the park at default.zoo.orders.new"})
}

// A queue trigger that names a version keeps to it while its function moves.
func TestQueueVersions(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := s.Repository(s.App("shop"))
	specs := site.FunctionsSpec("python-env", "hello hello.main")
	r.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page",
		"hello/hello.py", "def main():\n    return 'one'\n")
	s.Pushed(r, "shop", "A function")
	r.Write("specs/functions.yaml", specs+site.QueueSpec("pinned", "functionref: {type: name, name: hello, version: 1}",
		"topic: in", "respTopic: pinned")+
		site.QueueSpec("moving", "functionref: {type: name, name: hello}", "topic: in", "respTopic: moving"),
		"hello/hello.py", "def main():\n    return 'two'\n")
	s.Pushed(r, "shop", "Another version, and triggers")
	s.Call(http.MethodPost, "/apps/shop/messages/in", "a message", nil)
	s.Eventually("both have answered", func() bool {
		return len(s.Messages("shop", "pinned")) > 0 && len(s.Messages("shop", "moving")) > 0
	})
	//
	testkit.Equal(t, "answer of the version that is named", s.Messages("shop", "pinned")[0].Data, "one")
	testkit.Equal(t, "answer of the latest", s.Messages("shop", "moving")[0].Data, "two")
}

// Every message that was taken is answered, although the server is killed while messages come and go; and none of a
// silent trigger is lost when the release that had it is live again.
func TestQueueWhenKilled(t *testing.T) {
	t.Parallel()
	s := site.New(t, "LANDFALL_LEASE=2s")
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "echo echo.main")+
		site.QueueSpec("echo", "functionref: {name: echo}", "topic: in", "respTopic: out"),
		"specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page", "echo/echo.py",
		"def main(event):\n    return event['data']\n")
	s.Pushed(r, "shop", "A function")
	var want []string
	for round := range 3 {
		for i := range 20 {
			text := fmt.Sprintf("%d-%d", round, i)
			if _, err := s.Publish(context.Background(), "shop", "in", text, "text/plain", []byte(text)); err == nil {
				want = append(want, text)
			}
		}
		s.Kill()
	}
	testkit.Equal(t, "messages taken", len(want), 60)
	slices.Sort(want)
	s.Eventually("all are answered", func() bool {
		return slices.Equal(slices.Compact(site.Texts(s.Messages("shop", "out"))), want)
	})
	testkit.Equal(t, "dead letters", len(s.Messages("shop", "dead.>")), 0)
}

// The messages of an app are nobody else's, and go with it.
func TestQueueOfOneApp(t *testing.T) {
	t.Parallel()
	s := site.NewStopped(t, site.EngineOf(t, "sqlite+folder"))
	s.Start()
	s.ReadToken()
	shop, zoo := s.App("shop"), s.App("zoo")
	tokens := map[string]landfall.Token{
		"invoke of the zoo": {Scope: landfall.ScopeInvoke, App: zoo.ID},
		"read":              {Scope: landfall.ScopeRead},
		"invoke":            {Scope: landfall.ScopeInvoke, App: shop.ID},
	}
	s.Stop()
	db, err := s.OpenState()
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
	s.Start()
	for secret, kind := range map[string]landfall.Kind{"invoke of the zoo": landfall.Forbidden, "read": landfall.Forbidden,
		"invoke": 0, "nothing": landfall.Unauthorized} {
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
	testkit.Equal(t, "messages of the other", len(s.Messages("zoo", ">")), 0)
	folder := filepath.Join(s.Data, "nats", "jetstream", "$G", "streams", "landfall-"+shop.ID)
	if _, err := os.Stat(folder); err != nil {
		t.Fatal(err)
	}
	s.Call(http.MethodDelete, "/apps/shop?force=true", nil, nil)
	s.Eventually("its messages are gone", func() bool {
		_, err := os.Stat(folder)
		return os.IsNotExist(err)
	})
}

// While the disk is full messages are refused, and when there is space again they are taken and answered, without a
// restart. None of those that were taken is lost.
func TestFaultFullDiskOfMessages(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	s := site.NewStopped(t, site.EngineOf(t, "sqlite+folder"), "LANDFALL_LEASE=2s", "LANDFALL_SANDBOX=off")
	v := machine.NewVolume(t, size, s.Data, "nats")
	s.Within = v.Enter()
	s.Start()
	s.ReadToken()
	r := s.Repository(s.App("shop"))
	r.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "echo echo.main")+
		site.QueueSpec("echo", "functionref: {name: echo}", "topic: in", "respTopic: out"),
		"specs/app.yaml", site.AppSpec("shop"), "site/index.html", "page", "echo/echo.py",
		"def main(event):\n    return event['data'][:8]\n")
	s.Pushed(r, "shop", "A function")
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
	v.Fill(0)
	s.Eventually("a message is refused", func() bool { return publish() != nil })
	v.Drain()
	s.Eventually("messages are taken again", func() bool { return publish() == nil })
	s.Eventually("all are answered", func() bool {
		return slices.Equal(slices.Compact(site.Texts(s.Messages("shop", "out"))), want)
	})
}
