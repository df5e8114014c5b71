// Package api_test asks for every operation of the API as its clients do, over a real database and the real pipeline.
package api_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	gocmp "github.com/google/go-cmp/cmp"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/testkit"
)

// operation is one operation as the OpenAPI document has it.
type operation struct {
	row

	method, template string // the template is the path with elements in braces
	described        *openapi3.Operation
	takesJSON        bool // whether it takes a body of JSON
}

// request returns the path and the body of the request that succeeds, or with what is not there.
func (o operation) request(s *seed, missing string) (path, body string) {
	path, query, body := o.path(o.template), o.query, o.body
	element, rest, _ := strings.Cut(missing, " ")
	switch {
	case strings.HasPrefix(missing, "?"):
		query = missing
	case strings.HasPrefix(missing, "{"):
		body = missing
	case missing != "":
		path, body = o.path(o.template, element+"="+lost), cmp.Or(rest, body)
	}
	return s.words.Replace(path + query), s.words.Replace(body)
}

// foreign is the id of an app that the operation is not about.
func (o operation) foreign() string {
	if strings.Contains(o.with, "app=bakery") {
		return shopID
	}
	return bakeryID
}

// operations returns all operations of the document, and fails the test for one that has no row, or a row that has
// none.
func operations(t *testing.T) []operation {
	t.Helper()
	document := testkit.Must(openapi3.NewLoader().LoadFromData(testkit.Must(api.Document())(t)))(t)
	left := map[string]row{}
	for _, r := range rows() {
		if _, twice := left[r.id]; twice {
			t.Errorf("got two rows of %s, want one", r.id)
		}
		left[r.id] = r
	}
	var all []operation
	for path, item := range document.Paths.Map() {
		for method, described := range item.Operations() {
			r, known := left[described.OperationID]
			if !known {
				t.Errorf("got no row of %s (%s %s), want one: write it", described.OperationID, method, path)
				continue
			}
			delete(left, described.OperationID)
			r.status = cmp.Or(r.status, http.StatusOK)
			takesJSON := described.RequestBody != nil && described.RequestBody.Value.Content["application/json"] != nil
			all = append(all, operation{row: r, method: method, template: path, described: described, takesJSON: takesJSON})
		}
	}
	for id := range left {
		t.Errorf("got a row of %s, want none: there is no such operation", id)
	}
	slices.SortFunc(all, func(x, y operation) int { return strings.Compare(x.id, y.id) })
	return all
}

// Every operation answers as its row says, refuses whom and what it must, and changes nothing when it does.
func TestOperations(t *testing.T) {
	t.Parallel()
	all := operations(t)
	s := newSeed(t)
	for engine, open := range map[string]func(t *testing.T) *world{
		"sqlite":   s.copy,
		"postgres": func(t *testing.T) *world { return s.copyInto(t, storetest.Postgres(t)) },
	} {
		t.Run("what changes nothing/"+engine, func(t *testing.T) {
			t.Parallel()
			// N-039: who has no token, an unknown one, one for others or one that lacks the scope is refused everywhere
			w := open(t)
			before := w.state()
			for _, o := range all {
				before = w.changesNothing(s, o, before)
			}
		})
	}
	for what, test := range map[string]func(*testing.T, *world){
		"no operation":        noOperation,
		"a deleted app":       func(t *testing.T, w *world) { ofDeletedApp(t, s, w, all) },
		"more than the scope": moreThanTheScope,
		"new tokens":          newTokens,
		"a namespace's first": firstOfNamespace,
		"what goes is named":  namesWhatGoes,
		"misspelt":            misspelt,
		"only told":           dryDeletion,
		"kept fields":         keptFields,
		"repository names":    repositoryNames,
		"refused by hand":     refusedByHand,
		"during a backup":     func(t *testing.T, w *world) { importDuringABackup(t, s, w) },
		"a tag of two apps":   tagOfTwoApps,
		"bare paths":          func(t *testing.T, w *world) { barePaths(t, s, w, all) },
		"made or set":         func(t *testing.T, w *world) { madeOrSet(t, w, all) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			test(t, s.copy(t))
		})
	}
	for _, o := range all {
		if o.method == http.MethodGet {
			continue
		}
		t.Run("for whom/"+o.id, func(t *testing.T) {
			t.Parallel()
			s.copy(t).wantBound(s, o)
		})
		for _, scope := range slices.Compact([]landfall.Scope{o.scope, landfall.ScopeAdmin}) {
			t.Run("what changes something/"+o.id+"/"+string(scope), func(t *testing.T) {
				t.Parallel()
				w := s.copy(t)
				sent := w.sent()
				w.wantSuccess(s, o, tokenOf(scope, ""))
				if w.state() == s.state && w.sent() == sent {
					t.Errorf("%s: nothing is changed, want a change", o.id)
				}
			})
		}
	}
}

// changesNothing makes all requests of an operation that are to change nothing, and fails the test unless they do not.
// It returns the state after them.
func (w *world) changesNothing(s *seed, o operation, before string) (after string) {
	w.t.Helper()
	w.wantAuthentication(s, o)
	w.wantScope(s, o)
	w.wantOther(s, o)
	w.wantLost(s, o)
	w.wantBody(s, o)
	w.wantQuery(s, o)
	if o.method == http.MethodGet {
		path, body := o.request(s, "")
		a := w.ask(tokenOf(o.scope, o.own()), o.method, path, body)
		testkit.Equal(w.t, a.String()+": with a token for the app, as with one for its namespace", a.status, w.wantBound(s, o))
		w.wantSuccess(s, o, tokenOf(landfall.ScopeAdmin, ""))
		w.wantSuccess(s, o, tokenOf(o.scope, ""))
		w.wantPages(s, o)
	}
	if after = w.state(); after != before {
		w.t.Errorf("%s: got a change of what is stored, want none (- before, + after):\n%s", o.id, gocmp.Diff(before, after))
	}
	return after
}

// wantSuccess fails the test unless the operation's request succeeds, as the document has it.
func (w *world) wantSuccess(s *seed, o operation, token string) {
	w.t.Helper()
	path, body := o.request(s, "")
	a := w.ask(token, o.method, path, body)
	testkit.Equal(w.t, a.String(), a.status, o.status)
	testkit.Contains(w.t, a, s.words.Replace(o.says))
	wantDescribed(w.t, o, a)
	if a.status == http.StatusNoContent {
		testkit.Equal(w.t, a.what+": body", a.body, "")
	}
}

// wantPages fails the test unless a list that has pages is the same one by one as in one piece.
func (w *world) wantPages(s *seed, o operation) {
	w.t.Helper()
	if o.described.Parameters.GetByInAndName("query", "cursor") == nil {
		return
	}
	path, _ := o.request(s, "")
	at, _ := url.Parse(path)
	read := func(limit, cursor string) (items []json.RawMessage, next string) {
		query := at.Query()
		query.Set("limit", limit)
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		a := w.ask(tokenOf(landfall.ScopeAdmin, ""), o.method, at.Path+"?"+query.Encode(), "")
		testkit.Equal(w.t, a.String(), a.status, http.StatusOK)
		var p struct {
			Items []json.RawMessage
			Next  string
		}
		if err := json.Unmarshal([]byte(a.body), &p); err != nil {
			w.t.Errorf("%s: %v", a, err)
		}
		return p.Items, p.Next
	}
	whole, _ := read("1000", "")
	one, next := read("1", "")
	all := one
	for next != "" && len(all) <= len(whole) {
		one, next = read("1", next)
		all = append(all, one...)
	}
	testkit.Same(w.t, o.id+": page by page", all, whole)
}

// problem is an error as clients read it.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Kind   string `json:"kind"`
}

// wantProblem fails the test unless an answer has a status, and a problem document that says so and names what is
// wrong.
func wantProblem(t *testing.T, a answer, status int, kind string, named ...string) {
	t.Helper()
	testkit.Equal(t, a.String(), a.status, status)
	testkit.Equal(t, a.what+": content type", a.header.Get("Content-Type"), "application/problem+json")
	var p problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Errorf("%s: got the error %v, want a problem document", a, err)
	}
	testkit.Equal(t, a.what+": status in the problem document", p.Status, status)
	testkit.Equal(t, a.what+": title", p.Title, http.StatusText(status))
	testkit.Equal(t, a.what+": kind", p.Kind, kind)
	for _, name := range named {
		if !strings.Contains(p.Detail, name) {
			t.Errorf("%s: got the detail %q, want %q in it", a.what, p.Detail, name)
		}
	}
}

// wantRefused is wantProblem for an operation, whose document describes such problems.
func wantRefused(t *testing.T, o operation, a answer, status int, kind string, named ...string) {
	t.Helper()
	wantProblem(t, a, status, kind, named...)
	wantDescribed(t, o, a)
}

// wantAuthentication fails the test unless the operation wants a token that is known.
func (w *world) wantAuthentication(s *seed, o operation) {
	w.t.Helper()
	path, body := o.request(s, "")
	for token, says := range map[string]string{"": "send a token", "of nobody": "the token is not known"} {
		a := w.ask(token, o.method, path, body)
		wantRefused(w.t, o, a, http.StatusUnauthorized, "unauthorized", says)
		testkit.Equal(w.t, a.what+": WWW-Authenticate", a.header.Get("WWW-Authenticate"), `Bearer realm="landfall"`)
	}
}

// wantScope fails the test unless tokens without the operation's scope are refused.
func (w *world) wantScope(s *seed, o operation) {
	w.t.Helper()
	path, body := o.request(s, "")
	for _, scope := range scopes() {
		if scope == o.scope || scope == landfall.ScopeAdmin ||
			scope == landfall.ScopeDeploy && o.scope == landfall.ScopeRead {
			continue
		}
		a := w.ask(tokenOf(scope, ""), o.method, path, body)
		wantRefused(w.t, o, a, http.StatusForbidden, "forbidden", "the token lacks the scope "+string(o.scope))
	}
}

// wantOther fails the test unless a token for another app, or for the apps of another namespace, is refused, or sees
// nothing of what is not its own.
func (w *world) wantOther(s *seed, o operation) {
	w.t.Helper()
	path, body := o.request(s, "")
	for _, bound := range []string{o.foreign(), otherNamespace} {
		a := w.ask(tokenOf(o.scope, bound), o.method, path, body)
		switch status := o.refusedOther(); status {
		case http.StatusForbidden:
			wantRefused(w.t, o, a, status, "forbidden", "the token lacks the scope")
		case http.StatusNotFound:
			wantRefused(w.t, o, a, status, "not-found", "there is no")
		case http.StatusConflict:
			wantRefused(w.t, o, a, status, "conflict", "is taken")
		case http.StatusOK:
			if bound == otherNamespace && a.status == http.StatusNotFound { // it does not see that there is this one
				continue
			}
			testkit.Equal(w.t, a.String(), a.status, status)
			for _, of := range []string{"shop", "hello", "bare", "young"} {
				if strings.Contains(a.body, of) {
					w.t.Errorf("%s: got %q in it, want nothing of another app", a, of)
				}
			}
		}
	}
}

// own returns the id of the app that an operation is about.
func (o operation) own() string {
	for element := range strings.FieldsSeq(o.with + " " + usual) {
		if app, ok := strings.CutPrefix(element, "app="); ok {
			return app + "-id"
		}
	}
	return shopID
}

// wantBound fails the test unless a token for the apps of a namespace may do what an operation is for, or is refused
// because the operation is about more than that.
func (w *world) wantBound(s *seed, o operation) (status int) {
	w.t.Helper()
	path, body := o.request(s, "")
	a := w.ask(tokenOf(o.scope, ownNamespace), o.method, path, body)
	testkit.Equal(w.t, a.String(), a.status, cmp.Or(o.bound, o.status))
	return a.status
}

// wantLost fails the test unless what is not there is said to be missing, by its name.
func (w *world) wantLost(s *seed, o operation) {
	w.t.Helper()
	for _, missing := range o.lost {
		path, body := o.request(s, missing)
		wantRefused(w.t, o, w.ask(tokenOf(landfall.ScopeAdmin, ""), o.method, path, body), http.StatusNotFound,
			"not-found", lost)
	}
}

// wantBody fails the test unless a body is refused that cannot be read, or has a field that is not known.
func (w *world) wantBody(s *seed, o operation) {
	w.t.Helper()
	if !o.takesJSON {
		return
	}
	path, body := o.request(s, "")
	unknown := strings.Replace(body, "{", `{"nosuch":1,`, 1)
	for bad, status := range map[string]int{
		"no JSON": http.StatusBadRequest, "": http.StatusBadRequest, unknown: http.StatusUnprocessableEntity,
	} {
		wantRefused(w.t, o, w.ask(tokenOf(landfall.ScopeAdmin, ""), o.method, path, bad), status, "")
	}
}

// wantQuery fails the test unless a query is refused that cannot be read, or has a parameter that there is not.
func (w *world) wantQuery(s *seed, o operation) {
	w.t.Helper()
	path, body := o.request(s, "")
	separator := "?"
	if o.query != "" {
		separator = "&"
	}
	a := w.ask(tokenOf(landfall.ScopeAdmin, ""), o.method, path+separator+"cursor=%zz", body)
	wantRefused(w.t, o, a, http.StatusBadRequest, "invalid", "cursor=%zz")
	a = w.ask(tokenOf(landfall.ScopeAdmin, ""), o.method, path+separator+"nosuch=1", body)
	wantRefused(w.t, o, a, http.StatusBadRequest, "invalid", `there is no query parameter "nosuch"`)
}

// misspelt fails the test unless who misspells a parameter is told the one that was meant, and what others there are.
func misspelt(t *testing.T, w *world) {
	t.Helper()
	a := w.ask(tokenOf(landfall.ScopeRead, ""), http.MethodGet, "/api/v1/functions/hello/versions?limt=1", "")
	wantProblem(t, a, http.StatusBadRequest, "invalid",
		`there is no query parameter "limt" (did you mean "limit"?); there are: cursor, limit, namespace`)
	a = w.ask(tokenOf(landfall.ScopeRead, ""), http.MethodGet, "/api/v1/jobs/"+jobID+"?limit=1", "")
	wantProblem(t, a, http.StatusBadRequest, "invalid", `there is no query parameter "limit": there are none here`)
}

// barePaths fails the test unless the operations on the resources of Fn's document answer at its paths as below /api/v1:
// with its slash or without, to who may, and with problems.
func barePaths(t *testing.T, s *seed, w *world, all []operation) {
	t.Helper()
	answered := 0
	for _, o := range all {
		path, body := o.request(s, "")
		short, ok := strings.CutPrefix(path, "/api/v1")
		if !ok || !strings.HasPrefix(short, "/ns") {
			continue
		}
		wantProblem(t, w.ask("", o.method, short, body), http.StatusUnauthorized, "unauthorized", "send a token")
		if o.method != http.MethodGet {
			continue
		}
		answered++
		token := tokenOf(landfall.ScopeRead, "")
		want := w.ask(token, o.method, path, body)
		for _, at := range []string{short, short + "/"} {
			got := w.ask(token, o.method, at, body)
			testkit.Equal(t, got.what, got.body, want.body)
			testkit.Equal(t, got.what, got.status, http.StatusOK)
		}
	}
	if answered < 7 {
		t.Errorf("got %d operations that read at bare paths, want those on namespaces, apps, triggers and functions", answered)
	}
	admin := tokenOf(landfall.ScopeAdmin, "")
	// The resources of the document in its order: each is put, read and deleted at the document's path.
	for _, step := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPut, "/ns/fresh", "", http.StatusCreated},
		{http.MethodPut, "/ns/fresh/apps/fresh-app", `{"config":{}}`, http.StatusCreated},
		{http.MethodGet, "/ns/fresh/apps/fresh-app", "", http.StatusOK},
		{http.MethodDelete, "/ns/fresh/apps/fresh-app", "", http.StatusNoContent},
		{http.MethodDelete, "/ns/fresh", "", http.StatusNoContent},
		{http.MethodPut, "/ns/default/apps/shop/triggers/nightly", `{"cron":"0 3 * * *","function":"hello"}`,
			http.StatusCreated},
		{http.MethodDelete, "/ns/default/apps/shop/triggers/nightly", "", http.StatusNoContent},
		{http.MethodPut, "/ns/default/functions/hello", `{"resources":{"memory":67108864}}`, http.StatusOK},
		{http.MethodDelete, "/ns/default/functions/idle", "", http.StatusNoContent},
		{http.MethodGet, "/ns/default/functions/idle", "", http.StatusNotFound},
		{http.MethodGet, "/ns/default/nosuch", "", http.StatusNotFound},
		{http.MethodPatch, "/ns/default", "", http.StatusMethodNotAllowed},
	} {
		a := w.ask(admin, step.method, step.path, step.body)
		testkit.Equal(t, a.String(), a.status, step.status)
	}
}

// noOperation fails the test unless what is no operation is refused with a problem document, and the methods that there
// are.
func noOperation(t *testing.T, w *world) {
	t.Helper()
	token := tokenOf(landfall.ScopeAdmin, "")
	wantProblem(t, w.ask(token, http.MethodGet, "/api/v1/nosuch", ""), http.StatusNotFound, "not-found",
		"GET /api/v1/nosuch")
	a := w.ask(token, http.MethodPatch, "/api/v1/apps/shop", "")
	wantProblem(t, a, http.StatusMethodNotAllowed, "not-found", "PATCH /api/v1/apps/shop")
	testkit.Equal(t, "Allow", a.header.Get("Allow"), "DELETE, GET, HEAD")
}

// ofDeletedApp fails the test unless of a deleted app nothing is there any more but what it was.
func ofDeletedApp(t *testing.T, s *seed, w *world, all []operation) {
	t.Helper()
	token := tokenOf(landfall.ScopeAdmin, "")
	deleted := w.ask(token, http.MethodDelete, "/api/v1/apps/shop?force=true", "")
	testkit.Equal(t, deleted.String(), deleted.status, http.StatusOK)
	before := w.state()
	for _, o := range all {
		if o.id == "put-fn-app" || !strings.Contains(o.path(o.template), "/shop") && !strings.Contains(o.query, "=shop") {
			continue
		}
		path, body := o.request(s, "")
		a := w.ask(token, o.method, path, body)
		if o.id == "show-app" {
			testkit.Equal(t, a.String(), a.status, http.StatusOK)
			testkit.Contains(t, a, `"deleted":`)
			continue
		}
		wantProblem(t, a, http.StatusNotFound, "not-found", `"shop"`)
	}
	testkit.Equal(t, "what is stored", w.state(), before)
}

// moreThanTheScope fails the test unless what else an operation asks for than its scope is asked for before anything is
// changed.
func moreThanTheScope(t *testing.T, w *world) {
	t.Helper()
	before := w.state()
	deployer, ofShop := tokenOf(landfall.ScopeDeploy, ""), tokenOf(landfall.ScopeAdmin, shopID)
	for _, token := range []string{tokenOf(landfall.ScopeDeploy, shopID), ofShop} {
		for _, path := range []string{"/api/v1/runs", "/api/v1/executions"} {
			wantProblem(t, w.ask(token, http.MethodGet, path, ""), http.StatusForbidden, "forbidden",
				"for the whole installation")
		}
		a := w.ask(token, http.MethodPut, "/api/v1/ns/default/apps/fresh-app", `{}`)
		wantProblem(t, a, http.StatusForbidden, "forbidden", "the scope admin for the whole installation")
	}
	a := w.ask(deployer, http.MethodPut, "/api/v1/ns/default/apps/fresh-app", `{}`)
	wantProblem(t, a, http.StatusForbidden, "forbidden", "the scope admin for the whole installation")
	a = w.ask(tokenOf(landfall.ScopeAdmin, ""), http.MethodDelete, "/api/v1/apps/shop", "")
	wantProblem(t, a, http.StatusConflict, "conflict", "--force")
	a = w.ask(ofShop, http.MethodPost, "/api/v1/apps/shop/hook/rotate", "")
	wantProblem(t, a, http.StatusNotFound, "not-found", "shop has no webhook")
	testkit.Equal(t, "what is stored", w.state(), before)
}

// madeOrSet fails the test unless a PUT is answered with 201 for what is new and with 200 for what is there, and the
// document says both.
func madeOrSet(t *testing.T, w *world, all []operation) {
	t.Helper()
	of := map[string]operation{}
	for _, o := range all {
		of[o.id] = o
	}
	for _, r := range []struct{ id, changed, first, second string }{
		{"put-namespace", "ns=fresh", "", ""},
		{"put-fn-app", "app=fresh-app", `{}`, `{}`},
		{"put-fn-trigger", "trigger=nightly", `{"cron":"0 3 * * *","function":"hello"}`,
			`{"cron":"0 4 * * *","function":"hello"}`},
		{"put-fn-function", "function=hello-too", `{"image":"hello"}`, `{"resources":{"memory":67108864}}`},
	} {
		o := of[r.id]
		path := o.path(o.template, r.changed)
		made := w.ask(tokenOf(landfall.ScopeAdmin, ""), http.MethodPut, path, r.first)
		testkit.Equal(t, made.String(), made.status, http.StatusCreated)
		wantDescribed(t, o, made)
		set := w.ask(tokenOf(landfall.ScopeAdmin, ""), http.MethodPut, path, r.second)
		testkit.Equal(t, set.String(), set.status, http.StatusOK)
		wantDescribed(t, o, set)
	}
}

// wantDescribed fails the test unless an answer is one that the document has, in what its status, its type and its JSON
// are.
func wantDescribed(t *testing.T, o operation, a answer) {
	t.Helper()
	described := o.described.Responses.Value(strconv.Itoa(a.status))
	if described == nil && a.status >= http.StatusBadRequest {
		described = o.described.Responses.Default()
	}
	if described == nil {
		t.Errorf("%s: got the status %d, want one that the OpenAPI document names", o.id, a.status)
		return
	}
	if len(described.Value.Content) == 0 {
		return // the document says nothing of archives and logs, and 204 has nothing
	}
	media := described.Value.Content[a.header.Get("Content-Type")]
	if media == nil {
		t.Errorf("%s: got the type %q, want one that the OpenAPI document names", o.id, a.header.Get("Content-Type"))
		return
	}
	if media.Schema.Value.Format == "binary" {
		return // an archive
	}
	value := testkit.Decode[any](t, []byte(a.body))
	if err := media.Schema.Value.VisitJSON(value, openapi3.MultiErrors()); err != nil {
		t.Errorf("%s: got %v, want an answer as the OpenAPI document has it", a, err)
	}
}

// importDuringABackup imports a release while a backup is made: neither waits for the other.
func importDuringABackup(t *testing.T, s *seed, w *world) {
	err := w.jobs.Upkeep.WithoutCollection(t.Context(), func() error {
		got := w.ask(tokenOf(landfall.ScopeDeploy, ""), http.MethodPost, "/api/v1/apps/shop/imports", s.words.Replace("ARCHIVE"))
		testkit.Equal(t, "status of an import during a backup", got.status, http.StatusCreated)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
