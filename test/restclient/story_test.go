package restclient_test

import (
	"context"
	"net/http"
	"testing"

	"landfall.dev/landfall/test/restclient"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// The client is made from the OpenAPI document, as others would make one, with the operations of the story that is told
// here.
//go:generate go run ../../tools/openapi -3.0 ../../build/openapi-3.0.json
//go:generate ../../build/bin/oapi-codegen -config oapi-codegen.yaml ../../build/openapi-3.0.json

// speaking returns a client that sends a token.
func speaking(t *testing.T, s *site.Site, token string) *restclient.ClientWithResponses {
	t.Helper()
	return testkit.Must(restclient.NewClientWithResponses(s.URL,
		restclient.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+token)
			return nil
		})))(t)
}

// answered returns the body of an answer that must be there.
func answered[T any](t *testing.T, what string, body *T, problem *restclient.ErrorModel) *T {
	t.Helper()
	if body == nil {
		t.Fatalf("%s: got the problem %+v, want an answer", what, problem)
	}
	return body
}

// Others make a client of the API from its document, as this one is made: the life of an app with it, from the first push
// to a token that may do less.
func TestGeneratedClient(t *testing.T) {
	t.Parallel()
	s := site.New(t)
	api, ctx, hello := speaking(t, s, s.Token), t.Context(), "hello"

	key := "the first app"
	for range 2 {
		r := testkit.Must(api.CreateAppWithResponse(ctx, &restclient.CreateAppParams{IdempotencyKey: &key},
			restclient.NewApp{Name: "shop"}))(t)
		app := answered(t, "create-app", r.JSON201, r.ApplicationproblemJSONDefault)
		testkit.Equal(t, "name of the app", app.Name, "shop")
	}
	repository := s.Repository(s.ShowApp("shop"))
	for _, text := range []string{"one", "two"} {
		repository.Write("specs/functions.yaml", site.FunctionsSpec("python-env", "hello hello.main"), "specs/app.yaml",
			site.AppSpec("shop"), "site/index.html", text, "hello/hello.py", "def main():\n    return '"+text+"'\n")
		s.Pushed(repository, "shop", "It says "+text)
	}

	limit := int64(1)
	listed := testkit.Must(api.ListVersionsOfFunctionsWithResponse(ctx, hello,
		&restclient.ListVersionsOfFunctionsParams{Limit: &limit}))(t)
	page := answered(t, "list-versions", listed.JSON200, listed.ApplicationproblemJSONDefault)
	listed = testkit.Must(api.ListVersionsOfFunctionsWithResponse(ctx, hello,
		&restclient.ListVersionsOfFunctionsParams{Limit: &limit, Cursor: page.Next}))(t)
	second := answered(t, "the next page", listed.JSON200, listed.ApplicationproblemJSONDefault).Items[0]
	testkit.Equal(t, "numbers of the versions", [2]int64{page.Items[0].Number, second.Number}, [2]int64{1, 2})

	first := "1"
	aliased := testkit.Must(api.CreateAliasWithResponse(ctx, hello, nil,
		restclient.CreateAliasRequest{Alias: "prod", Version: &first}))(t)
	testkit.Equal(t, "name of the alias", answered(t, "create-alias", aliased.JSON201,
		aliased.ApplicationproblemJSONDefault).Name, "prod")
	prod, number := "hello:prod", int64(2)
	for _, asked := range []restclient.NewExecution{{Function: &prod}, {FunctionId: &hello, FunctionVersion: &number}} {
		asked.Input = map[string]string{}
		ran := testkit.Must(api.CreateExecutionWithResponse(ctx, nil, asked))(t)
		x := answered(t, "create-execution", ran.JSON201, ran.ApplicationproblemJSONDefault)
		testkit.Equal(t, "state of the execution", x.State, restclient.ExecutionStateSucceeded)
		if want := map[bool]int64{true: 1, false: 2}[asked.Function != nil]; x.FunctionVersion != want {
			t.Errorf("got an execution of version %d, want %d", x.FunctionVersion, want)
		}
	}
	hooked := testkit.Must(api.CreateWebhookWithResponse(ctx, nil, restclient.NewWebhook{FunctionId: &hello}))(t)
	hook := answered(t, "create-webhook", hooked.JSON201, hooked.ApplicationproblemJSONDefault)
	testkit.Equal(t, "what the webhook answers", s.Send(http.MethodPost, hook.WebhookUrl, "").Body, "two")

	releases := testkit.Must(api.ListReleasesWithResponse(ctx, "shop", &restclient.ListReleasesParams{Limit: &limit}))(t)
	all := answered(t, "list-releases", releases.JSON200, releases.ApplicationproblemJSONDefault).Items
	releases = testkit.Must(api.ListReleasesWithResponse(ctx, "shop",
		&restclient.ListReleasesParams{Cursor: releases.JSON200.Next}))(t)
	all = append(all, answered(t, "the next page", releases.JSON200, releases.ApplicationproblemJSONDefault).Items...)
	testkit.Equal(t, "releases", len(all), 2)
	rolled := testkit.Must(api.RollbackWithResponse(ctx, "shop", restclient.RollbackJSONRequestBody{}))(t)
	app := answered(t, "rollback", rolled.JSON200, rolled.ApplicationproblemJSONDefault)
	testkit.Equal(t, "live after the rollback", app.Live, all[1].Id)
	testkit.Equal(t, "what visitors get", s.Get(s.At("shop", "/")).Body, "one")

	shop := "shop"
	made := testkit.Must(api.CreateTokenWithResponse(ctx, nil,
		restclient.NewToken{Name: "reader", Scope: restclient.Read, App: &shop}))(t)
	reader := speaking(t, s, answered(t, "create-token", made.JSON201, made.ApplicationproblemJSONDefault).Token)
	shown := testkit.Must(reader.ShowAppWithResponse(ctx, "shop"))(t)
	testkit.Equal(t, "what a reader sees", answered(t, "show-app", shown.JSON200,
		shown.ApplicationproblemJSONDefault).Live, all[1].Id)
	refused := testkit.Must(reader.RollbackWithResponse(ctx, "shop", restclient.RollbackJSONRequestBody{}))(t)
	problem := answered(t, "what a reader may not", refused.ApplicationproblemJSONDefault, nil)
	testkit.Equal(t, "its kind", *problem.Kind, restclient.Forbidden)
}
