package accept_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/webhook"
)

// presses has a button of a check run delivered, and returns the decision and what waits.
func (a *asker) presses(t *testing.T, request landfall.CheckRequest) (string, []landfall.Command) {
	t.Helper()
	a.n++
	stored := a.deliver(t, webhook.Event{
		Delivery:   landfall.Delivery{ID: fmt.Sprintf("check-%d", a.n), Event: "check_run"},
		Repository: webhook.Repository{ID: 1, Owner: "harbor", Name: "shop"},
		Command: &landfall.Command{Kind: landfall.CheckCommand, Sender: landfall.GitHubUser{ID: 7, Login: "ada"},
			Data: string(testkit.Must(json.Marshal(request))(t))},
	})
	return stored.Decision, testkit.Must(a.queue.Due(t.Context(), time.Now().Add(time.Hour), 100))(t)
}

// What a button of a check run asks for is done for who may ask for it, about the commit of the check run.
func TestCommandsOfChecks(t *testing.T) {
	t.Parallel()
	a, head := newAsker(t)
	first := a.runOf(t, head)
	retry := landfall.CheckRequest{Action: landfall.RetryAction, Commit: head, App: "hooked"}
	promote, approve := retry, retry
	promote.Action, approve.Action = landfall.PromoteAction, landfall.ApproveAction
	all, none, elsewhere := retry, retry, retry
	all.App, none.App, elsewhere.Commit = "", "zoo", "1111111111111111111111111111111111111111"
	if decision, due := a.presses(t, none); len(due) != 0 || decision != "The repository has no app of that name." {
		t.Errorf("an unknown app: got %q and %+v, want that nothing waits", decision, due)
	}
	for _, c := range []struct {
		request    landfall.CheckRequest
		permission landfall.Permission
		says       string
	}{
		{retry, landfall.PermissionTriage, "retry needs the role write in harbor/shop, and ada has triage"},
		{retry, landfall.PermissionWrite, "is still queued"},
		{promote, landfall.PermissionWrite, "promote needs the role maintain"},
		{promote, landfall.PermissionMaintain, "has no release: its run is queued"},
		{approve, landfall.PermissionRead, "approve needs the role write"},
		{approve, landfall.PermissionWrite, "does not wait for approval: it is queued"},
		{elsewhere, landfall.PermissionAdmin, "1111111 has no run"},
		{retry, "", "GitHub did not say in time what ada may do; ask again"},
	} {
		decision, due := a.presses(t, c.request)
		if len(due) != 1 || !strings.Contains(decision, "is done or refused once GitHub has said what ada may do") {
			t.Fatalf("got %q and %+v, want that one waits", decision, due)
		}
		a.wants(t, due[0], c.permission, "", "ada asked to "+string(c.request.Action)+": hooked: ")
		a.wants(t, due[0], c.permission, "", c.says)
	}
	a.wants(t, a.asks(t, "cancel"), landfall.PermissionWrite, landfall.ReactionDone, "is cancelled")
	_, due := a.presses(t, all)
	a.wants(t, due[len(due)-1], landfall.PermissionWrite, "", head.Short()+" is queued again")
	if second := a.runOf(t, head); second.ID == first.ID || second.State != landfall.RunQueued {
		t.Errorf("got %+v, want a new run", second)
	}
	for _, c := range testkit.Must(a.queue.Due(t.Context(), time.Now().Add(time.Hour), 100))(t) {
		if c.Kind == landfall.CheckCommand {
			t.Errorf("%+v waits still", c)
		}
	}
	_, err := a.DB.Comment(t.Context(), landfall.GitHubRepository{ID: 1, Owner: "harbor", Name: "shop"}, 0)
	testkit.Kind(t, "a comment on no pull request", err, landfall.NotFound)
}
