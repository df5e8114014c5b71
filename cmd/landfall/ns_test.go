package main

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
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/store/storetest"
)

// rest sends a request to the API as a program does, and returns the answer as it is.
func (s *site) rest(method, path, body string, headers ...string) page {
	s.t.Helper()
	return s.send(method, s.URL+"/api/v1"+path, body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// wantRest fails the test unless a request to the API is answered with a status, and returns what is answered.
func wantRest[T any](t *testing.T, s *site, status int, method, path, body string) T {
	t.Helper()
	answer := s.rest(method, path, body)
	if answer.status != status {
		t.Fatalf("%s %s %s: got %d %s, want %d", method, path, body, answer.status, answer.body, status)
	}
	return decode[T](t, []byte(answer.body))
}

// twoFunctions pushes two functions, one with resources of its own; both name a secret.
func (s *site) twoFunctions() *repository {
	s.t.Helper()
	r := s.repository(s.app("shop"))
	specs := strings.Replace(functionsSpec("python-env", "tell tell.main", "pay pay.main"), "functionName: tell.main}",
		"functionName: tell.main}\n  resources: {limits: {memory: 128Mi, cpu: 500m, ephemeral-storage: 1Mi}}\n  functionTimeout: 20\n  idletimeout: 60", 1)
	r.write("specs/functions.yaml", naming(specs, "STRIPE_KEY"), "specs/app.yaml", appSpec("shop", "config: {currency: EUR, delivery: {cost: 490}}"),
		"site/index.html", "page", "tell/tell.py", tellingCode, "pay/pay.py", secretly)
	s.setSecret("shop", "STRIPE_KEY", "first-value")
	s.pushed(r, "shop", "Two functions")
	return r
}

// An app is made with its annotations, or not at all: whoever asks again makes it.
func TestAppIsMadeWithItsAnnotations(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, engine{})
	s.stop()
	storetest.RefuseAnnotations(t, filepath.Join(s.data, "landfall.db"))
	s.start()
	wantEqual(t, "status", s.rest(http.MethodPut, "/ns/default/apps/noted", `{"annotations": {"team": "blue"}}`).status, http.StatusConflict)
	wantEqual(t, "status of the app", s.rest(http.MethodGet, "/ns/default/apps/noted", "").status, http.StatusNotFound)
	wantEqual(t, "status without annotations", s.rest(http.MethodPut, "/ns/default/apps/noted", `{}`).status, http.StatusCreated)
}

// The resources of namespaces and apps are made, shown, changed and deleted.
func TestNamespacesAndApps(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	names := func(path string) string {
		var all []string
		for _, n := range list[client.Namespace](s, path) {
			all = append(all, n.Name)
		}
		return strings.Join(all, " ")
	}
	made := wantRest[client.Namespace](t, s, http.StatusCreated, http.MethodPut, "/ns/war-party", "")
	// E-091: PUT makes a namespace, and once more it changes nothing
	wantEqual(t, "the same again", wantRest[client.Namespace](t, s, http.StatusOK, http.MethodPut, "/ns/war-party", ""), made)
	// E-089
	wantEqual(t, "namespaces", names("/ns"), "default war-party")
	// E-090
	wantEqual(t, "the namespace", wantRest[client.Namespace](t, s, http.StatusOK, http.MethodGet, "/ns/war-party", "").Name, "war-party")
	for _, name := range []string{"War", "a", "a--b", "-war", "war_party", "w%20r", strings.Repeat("w", 41)} {
		// E-088: a namespace is a URL-safe name
		wantEqual(t, "status of the namespace "+name, s.rest(http.MethodPut, "/ns/"+name, "").status, http.StatusBadRequest)
		// E-088: so is an app
		wantEqual(t, "status of the app "+name, s.rest(http.MethodPut, "/ns/war-party/apps/"+name, "{}").status, http.StatusBadRequest)
	}
	wantEqual(t, "namespaces after bad ones", names("/ns"), "default war-party")

	app := wantRest[client.FnApp](t, s, http.StatusCreated, http.MethodPut, "/ns/war-party/apps/operation-kino", `{"annotations": {"team": "blue", "rank": 3}}`)
	// E-095: PUT makes an app in its namespace
	wantEqual(t, "its namespace", s.showApp("operation-kino").Namespace, "war-party")
	// E-087: an app has id, name, config and annotations
	wantEqual(t, "the app", s.rest(http.MethodGet, "/ns/war-party/apps/operation-kino", "").body,
		`{"id":"`+app.ID+`","name":"operation-kino","config":{},"annotations":{"rank":3,"team":"blue"}}`+"\n")
	// E-093
	wantEqual(t, "apps of the namespace", len(list[client.FnApp](s, "/ns/war-party/apps")), 1)
	wantEqual(t, "apps of another namespace", len(list[client.FnApp](s, "/ns/default/apps")), 0)
	// E-094
	wantEqual(t, "the app's id", wantRest[client.FnApp](t, s, http.StatusOK, http.MethodGet, "/ns/war-party/apps/operation-kino", "").ID, app.ID)
	wantEqual(t, "status of the app in another namespace", s.rest(http.MethodGet, "/ns/default/apps/operation-kino", "").status, http.StatusNotFound)
	wantRefused(t, s.refused(http.MethodPut, "/ns/nowhere/apps/lost-app", map[string]any{}), landfall.NotFound, `there is no namespace "nowhere"`)
	wantRefused(t, s.refused(http.MethodPut, "/ns/default/apps/early-app", map[string]any{"config": map[string]any{"a": 1}}), landfall.Conflict, "push it, and set config then")
	wantEqual(t, "status of the app that was refused", s.rest(http.MethodGet, "/ns/default/apps/early-app", "").status, http.StatusNotFound)
	wantRefused(t, s.refused(http.MethodDelete, "/ns/war-party", nil), landfall.Conflict, "it has 1 of them: delete them first")

	s.twoFunctions()
	shop := wantRest[client.FnApp](t, s, http.StatusOK, http.MethodGet, "/ns/default/apps/shop", "")
	wantEqual(t, "its currency", shop.Config["currency"], any("EUR"))
	before := s.showApp("shop").Live
	same := wantRest[client.FnApp](t, s, http.StatusOK, http.MethodPut, "/ns/default/apps/shop", s.rest(http.MethodGet, "/ns/default/apps/shop", "").body)
	wantEqual(t, "what giving back what there is releases", same.Release, "")
	// E-095: PUT replaces the configuration, which is a part of a new version and release
	changed := wantRest[client.FnApp](t, s, http.StatusOK, http.MethodPut, "/ns/default/apps/shop", `{"config": {"currency": "CHF"}, "annotations": {"note": "<b>"}}`)
	wantEqual(t, "the live release", s.showApp("shop").Live, changed.Release)
	wantServed(t, s, "shop", "/api/pay", "first-value CHF")
	wantServed(t, s, "shop--"+string(before), "/api/pay", "first-value EUR")
	wantEqual(t, "its annotation", changed.Annotations["note"], any("<b>"))
	wantRefused(t, s.refused(http.MethodDelete, "/ns/default/apps/shop", nil), landfall.Conflict, "2 accessible releases", "landfall app delete shop --force")
	wantRefused(t, s.refused(http.MethodPut, "/ns/default/apps/shop", map[string]any{"annotations": map[string]any{"a": strings.Repeat("x", 70_000)}}),
		landfall.Invalid, "at most 65536 are kept")

	// E-096
	wantEqual(t, "status of deleting the app", s.rest(http.MethodDelete, "/ns/war-party/apps/operation-kino", "").status, http.StatusNoContent)
	// E-050: the API has made, shown, changed and deleted an app, which is gone
	wantEqual(t, "status of the deleted app", s.rest(http.MethodGet, "/ns/war-party/apps/operation-kino", "").status, http.StatusNotFound)
	wantEqual(t, "status of deleting a namespace that had an app", s.rest(http.MethodDelete, "/ns/war-party", "").status, http.StatusNoContent)
	wantEqual(t, "status of that namespace", s.rest(http.MethodGet, "/ns/war-party", "").status, http.StatusNotFound)
	wantEqual(t, "namespaces without it", names("/ns"), "default")
	wantRest[client.Namespace](t, s, http.StatusCreated, http.MethodPut, "/ns/war-party", "")
	wantRefused(t, s.refused(http.MethodPut, "/ns/war-party/apps/operation-kino", map[string]any{}), landfall.Conflict, "stay reserved")
	wantRest[client.Namespace](t, s, http.StatusCreated, http.MethodPut, "/ns/bare", "")
	// E-092
	wantEqual(t, "status of deleting a namespace", s.rest(http.MethodDelete, "/ns/bare", "").status, http.StatusNoContent)
	wantEqual(t, "status of the deleted namespace", s.rest(http.MethodGet, "/ns/bare", "").status, http.StatusNotFound)
	for i := range 3 {
		wantRest[client.Namespace](t, s, http.StatusCreated, http.MethodPut, "/ns/team-"+strconv.Itoa(i), "")
	}
	wantEqual(t, "a page", names("/ns?limit=2&cursor=team-0"), "team-1 team-2")
	wantEqual(t, "the last page", names("/ns?limit=2&cursor=team-2"), "war-party")
	var p struct{ Next string }
	s.call(http.MethodGet, "/ns?limit=2", nil, &p)
	wantEqual(t, "where the first page ends", p.Next, "team-0")
}

// Triggers are made by hand, and are parts of versions and releases as those of specs are.
func TestTriggersByHand(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.twoFunctions()
	const triggers = "/ns/default/apps/shop/triggers"
	host := strings.TrimPrefix(s.URL, "http://")
	before := s.showApp("shop").Live
	made := wantRest[client.FnTrigger](t, s, http.StatusCreated, http.MethodPut, triggers+"/bat",
		`{"function": "`+host+`/default/tell:1", "url": "/bat", "methods": ["POST"], "config": {"colour": "blue"}, "resources": {"memory": 67108864, "timeout": 3},
		"annotations": {"owner": "me"}}`)
	// E-099: PUT of a new trigger makes it, with a release
	wantEqual(t, "the live release", s.showApp("shop").Live, made.Release)
	wantEqual(t, "the version of the trigger", s.unitsOf("shop", "live")["http-trigger bat"].UID, made.Release)
	wantEqual(t, "the trigger in the release before", s.unitsOf("shop", string(before))["http-trigger bat"].Number, 0)
	got := wantRest[client.FnTrigger](t, s, http.StatusOK, http.MethodGet, triggers+"/bat", "")
	made.Release, made.Note = "", ""
	// E-098
	wantText(t, told{s.rest(http.MethodGet, triggers+"/bat", "").body}, `"function":"`+host+`/default/tell:1"`)
	// E-083: a trigger has app_id, function (fully qualified), config, resources, annotations, created_at and updated_at
	wantText(t, told{s.rest(http.MethodGet, triggers+"/bat", "").body}, `"app_id":"`+s.appID("shop")+`"`, `"function":"`+host+`/default/tell:1"`, `"config":{"colour":"blue"}`,
		`"resources":{"memory":67108864,"timeout":3}`, `"annotations":{"owner":"me"}`, `"created_at":"`, `"updated_at":"`)
	var all []string
	for _, trigger := range list[client.FnTrigger](s, triggers) {
		all = append(all, trigger.Name)
	}
	// E-097
	wantList(t, "triggers", all, []string{"bat", "pay", "tell"})
	event := tellingOf(t, s.send(http.MethodPost, s.at("shop", "/bat"), "{}", "Content-Type", "application/json").body)
	wantEqual(t, "what its configuration gives the function", event.Config["colour"], "blue")
	// E-007: the event has the terms of CloudEvents: a source and a type
	wantText(t, told{event.Source + " " + event.Type}, "/r/default/shop/bat dev.landfall.http.request")

	again := wantRest[client.FnTrigger](t, s, http.StatusOK, http.MethodPut, triggers+"/bat", s.rest(http.MethodGet, triggers+"/bat", "").body)
	wantEqual(t, "what giving back what there is releases", again.Release, "")
	wantEqual(t, "when it was made", again.Created, got.Created)
	live := s.showApp("shop").Live
	closed := wantRest[client.FnTrigger](t, s, http.StatusOK, http.MethodPut, triggers+"/bat", `{"function": "tell", "url": "/bat", "methods": ["POST"], "access": "token"}`)
	// E-099: PUT of one that is there replaces it
	wantEqual(t, "what is left of its configuration", len(closed.Config), 0)
	// D-008: who may call is a part of the function's configuration, and changes with a version of the app
	wantEqual(t, "the status of the route without a token", s.send(http.MethodPost, s.at("shop", "/bat"), "{}", "Authorization", "").status, http.StatusUnauthorized)
	wantEqual(t, "the status of the release before", s.send(http.MethodPost, s.at("shop--"+string(live), "/bat"), "{}", "Authorization", "").status, http.StatusOK)
	wantEqual(t, "the version of the trigger", s.unitsOf("shop", "live")["http-trigger bat"].Number, 2)

	weighted := wantRest[client.FnTrigger](t, s, http.StatusCreated, http.MethodPut, triggers+"/split", `{"weights": {"tell:1": 90, "pay": 10}, "url": "/split"}`)
	wantEqual(t, "its shares", weighted.Weights["tell:1"], 90)
	live = s.showApp("shop").Live
	for body, says := range map[string]string{
		`{"url": "/x"}`:                    "a trigger has a function or weights",
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
		answer := s.rest(http.MethodPut, triggers+"/x", body)
		wantEqual(t, "status of "+body, answer.status, http.StatusBadRequest)
		wantText(t, told{answer.body}, strings.ReplaceAll(says, `"`, `\"`))
	}
	for name, says := range map[string]string{"Bat": "cannot be a name", "b%20t": "cannot be a name", "b%2Ft": "cannot be a name", strings.Repeat("b", 254): "cannot be a name"} {
		// E-088: a trigger is a URL-safe name
		wantText(t, told{s.rest(http.MethodPut, triggers+"/"+name, `{"function": "tell", "url": "/x"}`).body}, says)
	}
	wantEqual(t, "status of another kind", s.rest(http.MethodPut, triggers+"/bat", `{"function": "tell", "cron": "@hourly"}`).status, http.StatusConflict)
	wantEqual(t, "status of a function that is not there", s.rest(http.MethodPut, triggers+"/x", `{"function": "nobody", "url": "/x"}`).status, http.StatusNotFound)
	wantEqual(t, "status of a version that is not there", s.rest(http.MethodPut, triggers+"/x", `{"function": "tell:9", "url": "/x"}`).status, http.StatusNotFound)
	wantEqual(t, "status of a field that is not there", s.rest(http.MethodPut, triggers+"/x", `{"function": "tell", "uri": "/x"}`).status, http.StatusUnprocessableEntity)
	wantEqual(t, "live after what was refused", s.showApp("shop").Live, live)

	// E-100
	wantEqual(t, "status of deleting", s.rest(http.MethodDelete, triggers+"/split", "").status, http.StatusNoContent)
	wantEqual(t, "status of what is deleted", s.rest(http.MethodGet, triggers+"/split", "").status, http.StatusNotFound)
	// E-051: the API has made, shown, changed and deleted a trigger, which is gone
	wantEqual(t, "status of deleting it again", s.rest(http.MethodDelete, triggers+"/split", "").status, http.StatusNotFound)
	wantEqual(t, "its route", s.get(s.at("shop", "/split")).status, http.StatusNotFound)
	wantServed(t, s, "shop--"+string(live), "/api/pay", "first-value EUR")

	s.landfall("release", "hold", "shop")
	held := wantRest[client.FnTrigger](t, s, http.StatusCreated, http.MethodPut, triggers+"/later", `{"function": "pay", "url": "/later"}`)
	wantText(t, told{held.Note}, "live is held at")
	wantEqual(t, "the route while live is held", s.get(s.at("shop", "/later")).status, http.StatusNotFound)
	wantServed(t, s, "shop--"+string(held.Release), "/later", "first-value EUR")
	s.landfall("release", "resume", "shop")
	r.write("site/index.html", "another page")
	s.pushed(r, "shop", "A push says what the app is")
	wantEqual(t, "status of what a push does not have", s.rest(http.MethodGet, triggers+"/bat", "").status, http.StatusNotFound)
	out, code := s.run(t.TempDir(), "fsck")
	wantEqual(t, "exit code of fsck: "+out, code, 0)
}

// Functions are shown, get other resources, are made like others, and go.
func TestFunctionsByHand(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.twoFunctions()
	const functions = "/ns/default/functions"
	host := strings.TrimPrefix(s.URL, "http://")
	names := func() string {
		var all []string
		for _, f := range list[client.FnFunction](s, functions) {
			all = append(all, f.Name)
		}
		return strings.Join(all, " ")
	}
	// E-101
	wantEqual(t, "functions", names(), "pay tell")
	f := wantRest[client.FnFunction](t, s, http.StatusOK, http.MethodGet, functions+"/tell", "")
	// E-102
	wantEqual(t, "its image", f.Image, host+"/default/tell:"+string(s.showApp("shop").Live))
	text := s.rest(http.MethodGet, functions+"/tell", "").body
	// E-079: a function has id, namespace, name, image, resources, config, created_at and updated_at
	wantText(t, told{text}, `"id":"`+f.ID+`"`, `"namespace":"default"`, `"name":"tell"`, `"image":"`+f.Image+`"`,
		`"resources":{"memory":134217728,"cpus":500,"disk":1048576,"timeout":20,"idle_timeout":60}`, `"created_at":"`, `"updated_at":"`)
	// E-081: the configuration of a function is its app's
	wantText(t, told{text}, `"config":{"currency":"EUR","delivery":"{\"cost\":490}"}`)
	if strings.Contains(text, "first-value") {
		t.Errorf("a secret is shown: %s", text)
	}
	same := wantRest[client.FnFunction](t, s, http.StatusOK, http.MethodPut, functions+"/tell", text)
	wantEqual(t, "what giving back what there is releases", same.Release, "")

	before := s.showApp("shop").Live
	less := wantRest[client.FnFunction](t, s, http.StatusOK, http.MethodPut, functions+"/tell", `{"resources": {"memory": 67108864}, "annotations": {"owner": "me"}}`)
	// E-103: PUT of a function that is there sets its resources, with a version and a release
	wantEqual(t, "its version", s.unitsOf("shop", "live")["function tell"].UID, less.Release)
	wantEqual(t, "its number", s.unitsOf("shop", "live")["function tell"].Number, 2)
	wantEqual(t, "the number in the release before", s.unitsOf("shop", string(before))["function tell"].Number, 1)
	for number, resources := range map[string]string{"1": `"resources":{"memory":134217728,"cpus":500,`, "2": `"resources":{"memory":67108864}`} {
		// D-010: processors and memory are a part of a function's version, and change with it alone
		wantText(t, told{s.readAs(s.URL + "/functions/default/tell:" + number).body}, resources)
	}
	// E-081: a function has annotations
	wantText(t, told{s.rest(http.MethodGet, functions+"/tell", "").body}, `"resources":{"memory":67108864}`, `"annotations":{"owner":"me"}`)
	wantEqual(t, "the other function's number", s.unitsOf("shop", "live")["function pay"].Number, 1)

	like := wantRest[client.FnFunction](t, s, http.StatusCreated, http.MethodPut, functions+"/pay-again", `{"image": "`+host+`/default/pay:latest", "resources": {"timeout": 9}}`)
	// E-103: PUT of a new one makes it of the code of another
	wantEqual(t, "the image of the new one", like.Image, host+"/default/pay-again:"+string(like.Release))
	wantEqual(t, "its timeout", like.Resources.Timeout, 9)
	wantEqual(t, "functions", names(), "pay pay-again tell")
	wantEqual(t, "what it answers", strings.TrimSpace(s.landfall("function", "invoke", "pay-again")), "first-value EUR")
	wantRest[client.FnTrigger](t, s, http.StatusCreated, http.MethodPut, "/ns/default/apps/shop/triggers/again", `{"function": "pay-again", "url": "/again"}`)
	wantServed(t, s, "shop", "/again", "first-value EUR")
	live := s.showApp("shop").Live
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
		answer := s.rest(http.MethodPut, functions+"/"+c.name, c.body)
		wantEqual(t, "status of "+c.name+" "+c.body, answer.status, c.status)
		wantText(t, told{answer.body}, c.says)
	}
	// E-088: a function is a URL-safe name
	wantText(t, told{s.rest(http.MethodPut, functions+"/N%20w", `{"image": "pay"}`).body}, "cannot be a name")
	wantRefused(t, s.refused(http.MethodDelete, functions+"/pay-again", nil), landfall.Conflict, "landfall trigger delete shop again")
	wantEqual(t, "live after what was refused", s.showApp("shop").Live, live)
	s.landfall("trigger", "delete", "shop", "again")
	s.landfall("function", "alias", "create", "pay-again", "prod", "1")
	wantRefused(t, s.refused(http.MethodDelete, functions+"/pay-again", nil), landfall.Conflict, "landfall function alias delete pay-again prod")
	s.landfall("function", "alias", "delete", "pay-again", "prod")
	// E-104
	wantEqual(t, "status of deleting", s.rest(http.MethodDelete, functions+"/pay-again", "").status, http.StatusNoContent)
	wantEqual(t, "functions", names(), "pay tell")
	wantEqual(t, "status of what is deleted", s.rest(http.MethodGet, functions+"/pay-again", "").status, http.StatusNotFound)
	wantServed(t, s, "shop--"+string(live), "/again", "first-value EUR")
	wantServed(t, s, "shop", "/api/pay", "first-value EUR")
	out, code := s.run(t.TempDir(), "fsck")
	wantEqual(t, "exit code of fsck: "+out, code, 0)
}

// A token for one app sees and changes nothing of another, and a token only does what its scope says.
func TestResourcesOfOneApp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.twoFunctions()
	s.call(http.MethodPut, "/ns/zoos", nil, nil)
	var zoo client.App
	s.call(http.MethodPost, "/apps", client.NewApp{Name: "zoo", Namespace: "zoos"}, &zoo)
	deploy, read := strings.Repeat("deploy", 8), strings.Repeat("reader", 8)
	s.putTokens(store.Token{Hash: landfall.DigestOf([]byte(deploy)), Name: "deploy", Scope: store.ScopeDeploy, App: zoo.ID},
		store.Token{Hash: landfall.DigestOf([]byte(read)), Name: "read", Scope: store.ScopeRead})
	live := s.showApp("shop").Live
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
		answer := s.rest(c.method, c.path, c.body, "Authorization", "Bearer "+deploy)
		wantEqual(t, c.method+" "+c.path+" with another app's token", answer.status, c.foreign)
		if strings.Contains(answer.body, "shop") && !strings.Contains(c.path, "shop") {
			t.Errorf("%s %s tells another app's token: %s", c.method, c.path, answer.body)
		}
		wantEqual(t, c.method+" "+c.path+" with a token that may read", s.rest(c.method, c.path, c.body, "Authorization", "Bearer "+read).status, c.reader)
		wantEqual(t, c.method+" "+c.path+" without a token", s.rest(c.method, c.path, c.body, "Authorization", "").status, http.StatusUnauthorized)
	}
	wantEqual(t, "live after all that", s.showApp("shop").Live, live)
	seen := decode[struct{ Items []client.Namespace }](t, []byte(s.rest(http.MethodGet, "/ns", "", "Authorization", "Bearer "+deploy).body))
	wantEqual(t, "namespaces that another app's token sees", len(seen.Items), 1)
	wantEqual(t, "status of its own app", s.rest(http.MethodGet, "/ns/zoos/apps/zoo", "", "Authorization", "Bearer "+deploy).status, http.StatusOK)
	if !slices.ContainsFunc(list[client.Namespace](s, "/ns"), func(n client.Namespace) bool { return n.Name == "zoos" }) {
		t.Error("a namespace is gone")
	}
}

// Changes by hand that are made at the same time are all there in the end, and each release has those before it.
func TestTriggersByHandAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.twoFunctions()
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
		wantServed(t, s, "shop", "/at-once/"+strconv.Itoa(i), "first-value EUR")
	}
	for _, release := range s.accessible("shop") {
		count := int64(0)
		for unit := range s.unitsOf("shop", string(release)) {
			if strings.HasPrefix(unit, "http-trigger at-once-") {
				count++
			}
		}
		made[count] = true
	}
	wantEqual(t, "releases with different numbers of the triggers", len(made), 7)
}

// An administrator of one app makes no other: that is for who administers the whole installation. Deleting is of one app.
func TestAppsOfOneAdministrator(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	shop, zoo := s.app("shop"), s.app("zoo")
	whole, one := s.Token, strings.Repeat("zookeeper", 4)
	s.putTokens(store.Token{Hash: landfall.DigestOf([]byte(one)), Name: "zookeeper", Scope: store.ScopeAdmin, App: zoo.ID})
	status := func(token, method, path, body string) int {
		return s.send(method, s.URL+"/api/v1"+path, body, "Content-Type", "application/json", "Authorization", "Bearer "+token).status
	}
	for path, body := range map[string]string{"/apps": `{"name": "mine"}`, "/ns/default/apps/mine": `{}`} {
		method := map[bool]string{true: http.MethodPost, false: http.MethodPut}[path == "/apps"]
		wantEqual(t, method+" "+path, status(one, method, path, body), http.StatusForbidden)
	}
	wantEqual(t, "what was not made", status(whole, http.MethodGet, "/apps/mine", ""), http.StatusNotFound)
	wantEqual(t, "delete another app", status(one, http.MethodDelete, "/apps/"+shop.Name+"?force=true", ""), http.StatusForbidden)
	wantEqual(t, "delete its own app", status(one, http.MethodDelete, "/apps/"+zoo.Name+"?force=true", ""), http.StatusOK)
	// What an administrator granted an app by its name is nobody else's later: a name is given once.
	wantEqual(t, "a name of a deleted app", status(whole, http.MethodPost, "/apps", `{"name": "zoo"}`), http.StatusConflict)
}
