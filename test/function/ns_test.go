package function_test

import (
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// rest sends a request to the API as a program does, and returns the answer as it is.
func rest(s *site.Site, method, path, body string, headers ...string) site.Page {
	s.T.Helper()
	return s.Send(method, s.URL+"/api/v1"+path, body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// wantRest fails the test unless a request to the API is answered with a status, and returns what is answered.
func wantRest[T any](t *testing.T, s *site.Site, status int, method, path, body string) T {
	t.Helper()
	answer := rest(s, method, path, body)
	if answer.Status != status {
		t.Fatalf("%s %s %s: got %d %s, want %d", method, path, body, answer.Status, answer.Body, status)
	}
	return testkit.Decode[T](t, []byte(answer.Body))
}

// twoFunctions pushes two functions, one with resources of its own; both name a secret.
func twoFunctions(s *site.Site) *site.Repository {
	s.T.Helper()
	r := s.Repository(s.App("shop"))
	specs := strings.Replace(site.FunctionsSpec("python-env", "tell tell.main", "pay pay.main"),
		"functionName: tell.main}",
		"functionName: tell.main}\n  resources: {limits: {memory: 128Mi, cpu: 500m, ephemeral-storage: 1Mi}}\n  "+
			"functionTimeout: 20\n  idletimeout: 60", 1)
	r.Write("specs/functions.yaml", site.Naming(specs, "STRIPE_KEY"), "specs/app.yaml",
		site.AppSpec("shop", "config: {currency: EUR, delivery: {cost: 490}}"), "site/index.html", "page", "tell/tell.py",
		site.TellingCode, "pay/pay.py", secretly)
	s.SetSecret("shop", "STRIPE_KEY", "first-value")
	s.Pushed(r, "shop", "Two functions")
	return r
}

// An app is made with its annotations, or not at all: whoever asks again makes it.
func TestAppIsMadeWithItsAnnotations(t *testing.T) {
	t.Parallel()
	s := site.NewOn(t, site.Engine{})
	s.Stop()
	storetest.RefuseAnnotations(t, filepath.Join(s.Data, "landfall.db"))
	s.Start()
	testkit.Equal(t, "status", rest(s, http.MethodPut, "/ns/default/apps/noted",
		`{"annotations": {"team": "blue"}}`).Status, http.StatusConflict)
	testkit.Equal(t, "status of the app", rest(s, http.MethodGet, "/ns/default/apps/noted", "").Status,
		http.StatusNotFound)
	testkit.Equal(t, "status without annotations", rest(s, http.MethodPut, "/ns/default/apps/noted", `{}`).Status,
		http.StatusCreated)
}

// The resources of namespaces and apps are made, shown, changed and deleted.
func TestNamespacesAndApps(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	names := func(path string) string {
		var all []string
		for _, n := range site.List[client.Namespace](s, path) {
			all = append(all, n.Name)
		}
		return strings.Join(all, " ")
	}
	made := wantRest[client.Namespace](t, s, http.StatusCreated, http.MethodPut, "/ns/war-party", "")
	// E-091: PUT makes a namespace, and once more it changes nothing
	testkit.Equal(t, "the same again", wantRest[client.Namespace](t, s, http.StatusOK, http.MethodPut,
		"/ns/war-party", ""), made)
	// E-089
	testkit.Equal(t, "namespaces", names("/ns"), "default war-party")
	// E-090
	testkit.Equal(t, "the namespace", wantRest[client.Namespace](t, s, http.StatusOK, http.MethodGet, "/ns/war-party",
		"").Name, "war-party")
	for _, name := range []string{"War", "a", "a--b", "-war", "war_party", "w%20r", strings.Repeat("w", 41)} {
		// E-088: a namespace is a URL-safe name
		testkit.Equal(t, "status of the namespace "+name, rest(s, http.MethodPut, "/ns/"+name, "").Status,
			http.StatusBadRequest)
		// E-088: so is an app
		testkit.Equal(t, "status of the app "+name, rest(s, http.MethodPut, "/ns/war-party/apps/"+name, "{}").Status,
			http.StatusBadRequest)
	}
	testkit.Equal(t, "namespaces after bad ones", names("/ns"), "default war-party")

	app := wantRest[client.FnApp](t, s, http.StatusCreated, http.MethodPut, "/ns/war-party/apps/operation-kino",
		`{"annotations": {"team": "blue", "rank": 3}}`)
	// E-095: PUT makes an app in its namespace
	testkit.Equal(t, "its namespace", s.ShowApp("operation-kino").Namespace, "war-party")
	// E-087: an app has id, name, config and annotations
	testkit.Equal(t, "the app", rest(s, http.MethodGet, "/ns/war-party/apps/operation-kino", "").Body,
		`{"id":"`+app.ID+`","name":"operation-kino","config":{},"annotations":{"rank":3,"team":"blue"}}`+"\n")
	// E-093
	testkit.Equal(t, "apps of the namespace", len(site.List[client.FnApp](s, "/ns/war-party/apps")), 1)
	testkit.Equal(t, "apps of another namespace", len(site.List[client.FnApp](s, "/ns/default/apps")), 0)
	// E-094
	testkit.Equal(t, "the app's id", wantRest[client.FnApp](t, s, http.StatusOK, http.MethodGet,
		"/ns/war-party/apps/operation-kino", "").ID, app.ID)
	testkit.Equal(t, "status of the app in another namespace",
		rest(s, http.MethodGet, "/ns/default/apps/operation-kino", "").Status, http.StatusNotFound)
	site.WantRefused(t, s.Refused(http.MethodPut, "/ns/nowhere/apps/lost-app", map[string]any{}), landfall.NotFound,
		`there is no namespace "nowhere"`)
	site.WantRefused(t, s.Refused(http.MethodPut, "/ns/default/apps/early-app",
		map[string]any{"config": map[string]any{"a": 1}}), landfall.Conflict, "push it, and set config then")
	testkit.Equal(t, "status of the app that was refused",
		rest(s, http.MethodGet, "/ns/default/apps/early-app", "").Status, http.StatusNotFound)
	site.WantRefused(t, s.Refused(http.MethodDelete, "/ns/war-party", nil), landfall.Conflict,
		"it has 1 of them: delete them first")

	twoFunctions(s)
	shop := wantRest[client.FnApp](t, s, http.StatusOK, http.MethodGet, "/ns/default/apps/shop", "")
	testkit.Equal(t, "its currency", shop.Config["currency"], any("EUR"))
	before := s.ShowApp("shop").Live
	same := wantRest[client.FnApp](t, s, http.StatusOK, http.MethodPut, "/ns/default/apps/shop",
		rest(s, http.MethodGet, "/ns/default/apps/shop", "").Body)
	testkit.Equal(t, "what giving back what there is releases", same.Release, "")
	// E-095: PUT replaces the configuration, which is a part of a new version and release
	changed := wantRest[client.FnApp](t, s, http.StatusOK, http.MethodPut, "/ns/default/apps/shop",
		`{"config": {"currency": "CHF"}, "annotations": {"note": "<b>"}}`)
	testkit.Equal(t, "the live release", s.ShowApp("shop").Live, changed.Release)
	site.WantServed(t, s, "shop", "/api/pay", "first-value CHF")
	site.WantServed(t, s, "shop--"+string(before), "/api/pay", "first-value EUR")
	testkit.Equal(t, "its annotation", changed.Annotations["note"], any("<b>"))
	site.WantRefused(t, s.Refused(http.MethodDelete, "/ns/default/apps/shop", nil), landfall.Conflict,
		"2 accessible releases", "landfall app delete shop --force")
	site.WantRefused(t, s.Refused(http.MethodPut, "/ns/default/apps/shop",
		map[string]any{"annotations": map[string]any{"a": strings.Repeat("x", 70_000)}}),
		landfall.Invalid, "at most 65536 are kept")

	// E-096
	testkit.Equal(t, "status of deleting the app",
		rest(s, http.MethodDelete, "/ns/war-party/apps/operation-kino", "").Status, http.StatusNoContent)
	// E-050: the API has made, shown, changed and deleted an app, which is gone
	testkit.Equal(t, "status of the deleted app", rest(s, http.MethodGet, "/ns/war-party/apps/operation-kino", "").Status,
		http.StatusNotFound)
	testkit.Equal(t, "status of deleting a namespace that had an app",
		rest(s, http.MethodDelete, "/ns/war-party", "").Status, http.StatusNoContent)
	testkit.Equal(t, "status of that namespace", rest(s, http.MethodGet, "/ns/war-party", "").Status, http.StatusNotFound)
	testkit.Equal(t, "namespaces without it", names("/ns"), "default")
	wantRest[client.Namespace](t, s, http.StatusCreated, http.MethodPut, "/ns/war-party", "")
	site.WantRefused(t, s.Refused(http.MethodPut, "/ns/war-party/apps/operation-kino", map[string]any{}),
		landfall.Conflict, "stay reserved")
	wantRest[client.Namespace](t, s, http.StatusCreated, http.MethodPut, "/ns/bare", "")
	// E-092
	testkit.Equal(t, "status of deleting a namespace", rest(s, http.MethodDelete, "/ns/bare", "").Status,
		http.StatusNoContent)
	testkit.Equal(t, "status of the deleted namespace", rest(s, http.MethodGet, "/ns/bare", "").Status,
		http.StatusNotFound)
	for i := range 3 {
		wantRest[client.Namespace](t, s, http.StatusCreated, http.MethodPut, "/ns/team-"+strconv.Itoa(i), "")
	}
	testkit.Equal(t, "a page", names("/ns?limit=2&cursor=team-0"), "team-1 team-2")
	testkit.Equal(t, "the last page", names("/ns?limit=2&cursor=team-2"), "war-party")
	var p struct{ Next string }
	s.Call(http.MethodGet, "/ns?limit=2", nil, &p)
	testkit.Equal(t, "where the first page ends", p.Next, "team-0")
}

// Triggers are made by hand, and are parts of versions and releases as those of specs are.
func TestTriggersByHand(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	r := twoFunctions(s)
	const triggers = "/ns/default/apps/shop/triggers"
	host := strings.TrimPrefix(s.URL, "http://")
	before := s.ShowApp("shop").Live
	made := wantRest[client.FnTrigger](t, s, http.StatusCreated, http.MethodPut, triggers+"/bat",
		`{"function": "`+host+
			`/default/tell:1", "url": "/bat", "methods": ["POST"], "config": {"colour": "blue"}, "resources": {"memory": 67108864, "timeout": 3},
		"annotations": {"owner": "me"}}`)
	// E-099: PUT of a new trigger makes it, with a release
	testkit.Equal(t, "the live release", s.ShowApp("shop").Live, made.Release)
	testkit.Equal(t, "the version of the trigger", s.UnitsOf("shop", "live")["http-trigger bat"].UID, made.Release)
	testkit.Equal(t, "the trigger in the release before", s.UnitsOf("shop", string(before))["http-trigger bat"].Number, 0)
	got := wantRest[client.FnTrigger](t, s, http.StatusOK, http.MethodGet, triggers+"/bat", "")
	made.Release, made.Note = "", ""
	// E-098
	testkit.Contains(t, site.Told{rest(s, http.MethodGet, triggers+"/bat", "").Body},
		`"function":"`+host+`/default/tell:1"`)
	// E-083: a trigger has app_id, function (fully qualified), config, resources, annotations, created_at and updated_at
	testkit.Contains(t, site.Told{rest(s, http.MethodGet, triggers+"/bat", "").Body}, `"app_id":"`+appID(s, "shop")+`"`,
		`"function":"`+host+`/default/tell:1"`, `"config":{"colour":"blue"}`, `"resources":{"memory":67108864,"timeout":3}`,
		`"annotations":{"owner":"me"}`, `"created_at":"`, `"updated_at":"`)
	var all []string
	for _, trigger := range site.List[client.FnTrigger](s, triggers) {
		all = append(all, trigger.Name)
	}
	// E-097
	testkit.EqualList(t, "triggers", all, []string{"bat", "pay", "tell"})
	event := tellingOf(t, s.Send(http.MethodPost, s.At("shop", "/bat"), "{}", "Content-Type", "application/json").Body)
	testkit.Equal(t, "what its configuration gives the function", event.Config["colour"], "blue")
	// E-007: the event has the terms of CloudEvents: a source and a type
	testkit.Contains(t, site.Told{event.Source + " " + event.Type}, "/r/default/shop/bat dev.landfall.http.request")

	again := wantRest[client.FnTrigger](t, s, http.StatusOK, http.MethodPut, triggers+"/bat",
		rest(s, http.MethodGet, triggers+"/bat", "").Body)
	testkit.Equal(t, "what giving back what there is releases", again.Release, "")
	testkit.Equal(t, "when it was made", again.Created, got.Created)
	live := s.ShowApp("shop").Live
	closed := wantRest[client.FnTrigger](t, s, http.StatusOK, http.MethodPut, triggers+"/bat",
		`{"function": "tell", "url": "/bat", "methods": ["POST"], "access": "token"}`)
	// E-099: PUT of one that is there replaces it
	testkit.Equal(t, "what is left of its configuration", len(closed.Config), 0)
	// D-008: who may call is a part of the function's configuration, and changes with a version of the app
	testkit.Equal(t, "the status of the route without a token",
		s.Send(http.MethodPost, s.At("shop", "/bat"), "{}", "Authorization", "").Status, http.StatusUnauthorized)
	testkit.Equal(t, "the status of the release before",
		s.Send(http.MethodPost, s.At("shop--"+string(live), "/bat"), "{}", "Authorization", "").Status, http.StatusOK)
	testkit.Equal(t, "the version of the trigger", s.UnitsOf("shop", "live")["http-trigger bat"].Number, 2)

	weighted := wantRest[client.FnTrigger](t, s, http.StatusCreated, http.MethodPut, triggers+"/split",
		`{"weights": {"tell:1": 90, "pay": 10}, "url": "/split"}`)
	testkit.Equal(t, "its shares", weighted.Weights["tell:1"], 90)
	live = s.ShowApp("shop").Live
	for body, says := range map[string]string{
		`{"url": "/x"}`:                    "a trigger has a function, weights or a tag",
		`{"function": "tell", "url": "x"}`: "must begin with /",
		`{"function": "tell", "url": "/bat", "methods": ["POST"]}`:             "conflicts with",
		`{"function": "tell", "url": "/x", "methods": ["FETCH"]}`:              `unknown method "FETCH"`,
		`{"function": "funchub.example.com/jimbo/tell:1", "url": "/x"}`:        "is no function that can be named here",
		`{"function": "other/tell", "url": "/x"}`:                              "another namespace",
		`{"function": "Tell", "url": "/x"}`:                                    "cannot be a name",
		`{"weights": {"tell:1": 90}, "url": "/x"}`:                             "at most 2 with 100",
		`{"function": "tell", "cron": "x"}`:                                    "cron",
		`{"function": "tell", "topic": "a b"}`:                                 "MessageQueueTrigger x",
		`{"function": "tell", "url": "/x", "topic": "t"}`:                      "has no relativeurl",
		`{"function": "tell", "url": "/x", "filters": [{"near": {}}]}`:         "unknown field",
		`{"function": "tell", "url": "/x", "resources": {"timeout": 1000000}}`: "functionTimeout",
		`{"function": "tell", "url": "/x", "name": "y"}`:                       "a name does not change",
		`{"function": "tell", "url": "/x", "app_id": "y"}`:                     "app_id",
	} {
		answer := rest(s, http.MethodPut, triggers+"/x", body)
		testkit.Equal(t, "status of "+body, answer.Status, http.StatusBadRequest)
		testkit.Contains(t, site.Told{answer.Body}, strings.ReplaceAll(says, `"`, `\"`))
	}
	for name, says := range map[string]string{"Bat": "cannot be a name", "b%20t": "cannot be a name",
		"b%2Ft": "cannot be a name", strings.Repeat("b", 254): "cannot be a name"} {
		// E-088: a trigger is a URL-safe name
		testkit.Contains(t, site.Told{rest(s, http.MethodPut, triggers+"/"+name, `{"function": "tell", "url": "/x"}`).Body},
			says)
	}
	testkit.Equal(t, "status of another kind",
		rest(s, http.MethodPut, triggers+"/bat", `{"function": "tell", "cron": "@hourly"}`).Status, http.StatusConflict)
	testkit.Equal(t, "status of a function that is not there",
		rest(s, http.MethodPut, triggers+"/x", `{"function": "nobody", "url": "/x"}`).Status, http.StatusNotFound)
	testkit.Equal(t, "status of a version that is not there",
		rest(s, http.MethodPut, triggers+"/x", `{"function": "tell:9", "url": "/x"}`).Status, http.StatusNotFound)
	testkit.Equal(t, "status of a field that is not there",
		rest(s, http.MethodPut, triggers+"/x", `{"function": "tell", "uri": "/x"}`).Status, http.StatusUnprocessableEntity)
	testkit.Equal(t, "live after what was refused", s.ShowApp("shop").Live, live)

	// E-100
	testkit.Equal(t, "status of deleting", rest(s, http.MethodDelete, triggers+"/split", "").Status, http.StatusNoContent)
	testkit.Equal(t, "status of what is deleted", rest(s, http.MethodGet, triggers+"/split", "").Status,
		http.StatusNotFound)
	// E-051: the API has made, shown, changed and deleted a trigger, which is gone
	testkit.Equal(t, "status of deleting it again", rest(s, http.MethodDelete, triggers+"/split", "").Status,
		http.StatusNotFound)
	testkit.Equal(t, "its route", s.Get(s.At("shop", "/split")).Status, http.StatusNotFound)
	site.WantServed(t, s, "shop--"+string(live), "/api/pay", "first-value EUR")

	s.Landfall("release", "hold", "shop")
	held := wantRest[client.FnTrigger](t, s, http.StatusCreated, http.MethodPut, triggers+"/later",
		`{"function": "pay", "url": "/later"}`)
	testkit.Contains(t, site.Told{held.Note}, "live is held at")
	testkit.Equal(t, "the route while live is held", s.Get(s.At("shop", "/later")).Status, http.StatusNotFound)
	site.WantServed(t, s, "shop--"+string(held.Release), "/later", "first-value EUR")
	s.Landfall("release", "resume", "shop")
	r.Write("site/index.html", "another page")
	s.Pushed(r, "shop", "A push says what the app is")
	testkit.Equal(t, "status of what a push does not have", rest(s, http.MethodGet, triggers+"/bat", "").Status,
		http.StatusNotFound)
	out, code := s.Run(t.TempDir(), "fsck")
	testkit.Equal(t, "exit code of fsck: "+out, code, 0)
}

// Functions are shown, get other resources, are made like others, and go.
func TestFunctionsByHand(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	twoFunctions(s)
	const functions = "/ns/default/functions"
	host := strings.TrimPrefix(s.URL, "http://")
	names := func() string {
		var all []string
		for _, f := range site.List[client.FnFunction](s, functions) {
			all = append(all, f.Name)
		}
		return strings.Join(all, " ")
	}
	// E-101
	testkit.Equal(t, "functions", names(), "pay tell")
	f := wantRest[client.FnFunction](t, s, http.StatusOK, http.MethodGet, functions+"/tell", "")
	// E-102
	testkit.Equal(t, "its image", f.Image, host+"/default/tell:"+string(s.ShowApp("shop").Live))
	text := rest(s, http.MethodGet, functions+"/tell", "").Body
	// E-079: a function has id, namespace, name, image, resources, config, created_at and updated_at
	testkit.Contains(t, site.Told{text}, `"id":"`+f.ID+`"`, `"namespace":"default"`, `"name":"tell"`,
		`"image":"`+f.Image+`"`, `"resources":{"memory":134217728,"cpus":500,"disk":1048576,"timeout":20,"idle_timeout":60}`,
		`"created_at":"`, `"updated_at":"`)
	// E-081: the configuration of a function is its app's
	testkit.Contains(t, site.Told{text}, `"config":{"currency":"EUR","delivery":"{\"cost\":490}"}`)
	if strings.Contains(text, "first-value") {
		t.Errorf("a secret is shown: %s", text)
	}
	same := wantRest[client.FnFunction](t, s, http.StatusOK, http.MethodPut, functions+"/tell", text)
	testkit.Equal(t, "what giving back what there is releases", same.Release, "")

	before := s.ShowApp("shop").Live
	less := wantRest[client.FnFunction](t, s, http.StatusOK, http.MethodPut, functions+"/tell",
		`{"resources": {"memory": 67108864}, "annotations": {"owner": "me"}}`)
	// E-103: PUT of a function that is there sets its resources, with a version and a release
	testkit.Equal(t, "its version", s.UnitsOf("shop", "live")["function tell"].UID, less.Release)
	testkit.Equal(t, "its number", s.UnitsOf("shop", "live")["function tell"].Number, 2)
	testkit.Equal(t, "the number in the release before", s.UnitsOf("shop", string(before))["function tell"].Number, 1)
	for number, resources := range map[string]string{"1": `"resources":{"memory":134217728,"cpus":500,`,
		"2": `"resources":{"memory":67108864}`} {
		// D-010: processors and memory are a part of a function's version, and change with it alone
		testkit.Contains(t, site.Told{s.ReadAs(s.URL + "/functions/default/tell:" + number).Body}, resources)
	}
	// E-081: a function has annotations
	testkit.Contains(t, site.Told{rest(s, http.MethodGet, functions+"/tell", "").Body}, `"resources":{"memory":67108864}`,
		`"annotations":{"owner":"me"}`)
	testkit.Equal(t, "the other function's number", s.UnitsOf("shop", "live")["function pay"].Number, 1)

	like := wantRest[client.FnFunction](t, s, http.StatusCreated, http.MethodPut, functions+"/pay-again",
		`{"image": "`+host+`/default/pay:latest", "resources": {"timeout": 9}}`)
	// E-103: PUT of a new one makes it of the code of another
	testkit.Equal(t, "the image of the new one", like.Image, host+"/default/pay-again:"+string(like.Release))
	testkit.Equal(t, "its timeout", like.Resources.Timeout, 9)
	testkit.Equal(t, "functions", names(), "pay pay-again tell")
	testkit.Equal(t, "what it answers", strings.TrimSpace(s.Landfall("function", "invoke", "pay-again")),
		"first-value EUR")
	wantRest[client.FnTrigger](t, s, http.StatusCreated, http.MethodPut, "/ns/default/apps/shop/triggers/again",
		`{"function": "pay-again", "url": "/again"}`)
	site.WantServed(t, s, "shop", "/again", "first-value EUR")
	live := s.ShowApp("shop").Live
	for _, c := range []struct {
		name, body string
		status     int
		says       string
	}{
		{"new", `{}`, http.StatusNotFound, "a push makes it, or give in image"},
		{"new", `{"image": "docker.io/library/pay"}`, http.StatusBadRequest, "is no function that can be named here"},
		{"new", `{"image": "nobody"}`, http.StatusNotFound, "there is no function nobody"},
		{"new", `{"image": "tell:1"}`, http.StatusConflict, "is not the version that production has"},
		{"tell", `{"image": "pay"}`, http.StatusConflict, "takes its code from a push"},
		{"tell", `{"config": {"currency": "USD"}}`, http.StatusBadRequest, "PUT /ns/default/apps/shop"},
		{"tell", `{"resources": {"timeout": 1000000}}`, http.StatusBadRequest, "functionTimeout"},
		{"tell", `{"namespace": "other"}`, http.StatusBadRequest, "a name does not change"},
	} {
		answer := rest(s, http.MethodPut, functions+"/"+c.name, c.body)
		testkit.Equal(t, "status of "+c.name+" "+c.body, answer.Status, c.status)
		testkit.Contains(t, site.Told{answer.Body}, c.says)
	}
	// E-088: a function is a URL-safe name
	testkit.Contains(t, site.Told{rest(s, http.MethodPut, functions+"/N%20w", `{"image": "pay"}`).Body},
		"cannot be a name")
	site.WantRefused(t, s.Refused(http.MethodDelete, functions+"/pay-again", nil), landfall.Conflict,
		"landfall trigger delete shop again")
	testkit.Equal(t, "live after what was refused", s.ShowApp("shop").Live, live)
	s.Landfall("trigger", "delete", "shop", "again")
	s.Landfall("function", "alias", "create", "pay-again", "prod", "1")
	site.WantRefused(t, s.Refused(http.MethodDelete, functions+"/pay-again", nil), landfall.Conflict,
		"landfall function alias delete pay-again prod")
	s.Landfall("function", "alias", "delete", "pay-again", "prod")
	// E-104
	testkit.Equal(t, "status of deleting", rest(s, http.MethodDelete, functions+"/pay-again", "").Status,
		http.StatusNoContent)
	testkit.Equal(t, "functions", names(), "pay tell")
	testkit.Equal(t, "status of what is deleted", rest(s, http.MethodGet, functions+"/pay-again", "").Status,
		http.StatusNotFound)
	site.WantServed(t, s, "shop--"+string(live), "/again", "first-value EUR")
	site.WantServed(t, s, "shop", "/api/pay", "first-value EUR")
	out, code := s.Run(t.TempDir(), "fsck")
	testkit.Equal(t, "exit code of fsck: "+out, code, 0)
}

// A token for one app sees and changes nothing of another, and a token only does what its scope says.
func TestResourcesOfOneApp(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	twoFunctions(s)
	s.Call(http.MethodPut, "/ns/zoos", nil, nil)
	var zoo client.App
	s.Call(http.MethodPost, "/apps", client.NewApp{Name: "zoo", Namespace: "zoos"}, &zoo)
	deploy, read := strings.Repeat("deploy", 8), strings.Repeat("reader", 8)
	putTokens(s, landfall.Token{Hash: landfall.DigestOf([]byte(deploy)), Name: "deploy", Scope: landfall.ScopeDeploy,
		App: zoo.ID},
		landfall.Token{Hash: landfall.DigestOf([]byte(read)), Name: "read", Scope: landfall.ScopeRead})
	live := s.ShowApp("shop").Live
	const triggers, functions = "/ns/default/apps/shop/triggers", "/ns/default/functions"
	trigger := `{"function": "tell", "url": "/x"}`
	for _, c := range []struct {
		method, path, body string
		foreign            int // the answer to a token of another app
		reader             int // the answer to a token that may read
	}{
		{http.MethodGet, "/ns", "", 200, 200},
		{http.MethodGet, "/ns/default", "", 404, 200},
		{http.MethodPut, "/ns/another", "", 403, 403},
		{http.MethodDelete, "/ns/zoos", "", 403, 403},
		{http.MethodGet, "/ns/default/apps", "", 404, 200},
		{http.MethodGet, "/ns/default/apps/shop", "", 404, 200},
		{http.MethodPut, "/ns/default/apps/shop", "{}", 403, 403},
		{http.MethodPut, "/ns/zoos/apps/another", "{}", 403, 403},
		{http.MethodDelete, "/ns/default/apps/shop", "", 403, 403},
		{http.MethodGet, triggers, "", 404, 200},
		{http.MethodGet, triggers + "/tell", "", 404, 200},
		{http.MethodPut, triggers + "/x", trigger, 404, 403},
		{http.MethodDelete, triggers + "/tell", "", 404, 403},
		{http.MethodGet, functions, "", 404, 200},
		{http.MethodGet, functions + "/tell", "", 404, 200},
		{http.MethodPut, functions + "/tell", `{}`, 409, 403},
		{http.MethodPut, functions + "/new", `{"image": "tell"}`, 404, 403},
		{http.MethodDelete, functions + "/tell", "", 404, 403},
	} {
		answer := rest(s, c.method, c.path, c.body, "Authorization", "Bearer "+deploy)
		testkit.Equal(t, c.method+" "+c.path+" with another app's token", answer.Status, c.foreign)
		if strings.Contains(answer.Body, "shop") && !strings.Contains(c.path, "shop") {
			t.Errorf("%s %s tells another app's token: %s", c.method, c.path, answer.Body)
		}
		testkit.Equal(t, c.method+" "+c.path+" with a token that may read",
			rest(s, c.method, c.path, c.body, "Authorization", "Bearer "+read).Status, c.reader)
		testkit.Equal(t, c.method+" "+c.path+" without a token",
			rest(s, c.method, c.path, c.body, "Authorization", "").Status, http.StatusUnauthorized)
	}
	testkit.Equal(t, "live after all that", s.ShowApp("shop").Live, live)
	seen := testkit.Decode[struct{ Items []client.Namespace }](t,
		[]byte(rest(s, http.MethodGet, "/ns", "", "Authorization", "Bearer "+deploy).Body))
	testkit.Equal(t, "namespaces that another app's token sees", len(seen.Items), 1)
	testkit.Equal(t, "status of its own app",
		rest(s, http.MethodGet, "/ns/zoos/apps/zoo", "", "Authorization", "Bearer "+deploy).Status, http.StatusOK)
	if !slices.ContainsFunc(site.List[client.Namespace](s, "/ns"), func(n client.Namespace) bool {
		return n.Name == "zoos"
	}) {
		t.Error("a namespace is gone")
	}
}

// Changes by hand that are made at the same time are all there in the end, and each release has those before it.
func TestTriggersByHandAtOnce(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	twoFunctions(s)
	var group sync.WaitGroup
	for i := range 6 {
		group.Go(func() {
			path := "/ns/default/apps/shop/triggers/at-once-" + strconv.Itoa(i)
			trigger := client.FnTrigger{Function: "pay", URL: "/at-once/" + strconv.Itoa(i)}
			if err := s.Do(t.Context(), http.MethodPut, path, trigger, nil); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		})
	}
	group.Wait()
	made := map[int64]bool{}
	for i := range 6 {
		site.WantServed(t, s, "shop", "/at-once/"+strconv.Itoa(i), "first-value EUR")
	}
	for _, release := range s.Accessible("shop") {
		count := int64(0)
		for unit := range s.UnitsOf("shop", string(release)) {
			if strings.HasPrefix(unit, "http-trigger at-once-") {
				count++
			}
		}
		made[count] = true
	}
	testkit.Equal(t, "releases with different numbers of the triggers", len(made), 7)
}

// An administrator of one app makes no other: that is for who administers the whole installation. Deleting is of one
// app.
func TestAppsOfOneAdministrator(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	shop, zoo := s.App("shop"), s.App("zoo")
	whole, one := s.Token, strings.Repeat("zookeeper", 4)
	putTokens(s, landfall.Token{Hash: landfall.DigestOf([]byte(one)), Name: "zookeeper", Scope: landfall.ScopeAdmin,
		App: zoo.ID})
	status := func(token, method, path, body string) int {
		return s.Send(method, s.URL+"/api/v1"+path, body, "Content-Type", "application/json", "Authorization",
			"Bearer "+token).Status
	}
	for path, body := range map[string]string{"/apps": `{"name": "mine"}`, "/ns/default/apps/mine": `{}`} {
		method := map[bool]string{true: http.MethodPost, false: http.MethodPut}[path == "/apps"]
		testkit.Equal(t, method+" "+path, status(one, method, path, body), http.StatusForbidden)
	}
	testkit.Equal(t, "what was not made", status(whole, http.MethodGet, "/apps/mine", ""), http.StatusNotFound)
	testkit.Equal(t, "delete another app", status(one, http.MethodDelete, "/apps/"+shop.Name+"?force=true", ""),
		http.StatusForbidden)
	testkit.Equal(t, "delete its own app", status(one, http.MethodDelete, "/apps/"+zoo.Name+"?force=true", ""),
		http.StatusOK)
	// What an administrator granted an app by its name is nobody else's later: a name is given once.
	testkit.Equal(t, "a name of a deleted app", status(whole, http.MethodPost, "/apps", `{"name": "zoo"}`),
		http.StatusConflict)
}
