package api_test

import (
	"cmp"
	"net/http"
	"strings"

	"landfall.dev/landfall"
)

// row is what clients may rely on of one operation.
type row struct {
	id     string         // of the operation
	scope  landfall.Scope // that a token needs
	status int            // of success; 0: 200

	// The request that succeeds, in which words in capitals stand for what the seed made. Its path is the operation's,
	// with the elements that "with" names ("app=bakery tag=extra") and else with the usual ones.
	with, query, body string
	says              string // is in the answer

	// lost are requests of what is not there: the element of the path, the query ("?…") or the body ("{…") that names
	// it "nosuch", or an element and a body.
	lost []string

	// other is what a token of the needed scope gets that is good for another app only. With 200, it sees nothing of the
	// shop.
	other int

	// bound is what a token of the needed scope gets that is good for the namespace; 0: the status of success. The others
	// are about more than a namespace.
	bound int
}

// usual are the elements of paths, where a row has no others.
const usual = "app=shop ns=default uid=live tag=spare secret=STRIPE_KEY name=hello version=latest alias=stable " +
	"id=RUN function=hello " +
	"trigger=hello topic=orders canary=careful"

// uploadID is an upload of which one byte is there.
const uploadID = "aaaaaaaaaaaaaaaaaaaaaaaaaa"

// hostKey is the key of a host for ssh.
const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"

// lost is the name of what is not there.
const lost = "nosuch"

// refusedOther is what a token for another app is answered, unless the row says otherwise.
func (r row) refusedOther() int { return cmp.Or(r.other, http.StatusForbidden) }

// path returns the row's path for an operation's, with an element changed.
func (r row) path(template string, changed ...string) string {
	for _, list := range []string{strings.Join(changed, " "), r.with, usual} {
		for element := range strings.FieldsSeq(list) {
			name, value, _ := strings.Cut(element, "=")
			template = strings.ReplaceAll(template, "{"+name+"}", value)
		}
	}
	return template
}

// rows are all operations.
func rows() []row {
	const (
		created, accepted, gone = http.StatusCreated, http.StatusAccepted, http.StatusNoContent
		refused                 = http.StatusForbidden
		seen, hidden, taken     = http.StatusOK, http.StatusNotFound, http.StatusConflict
		read, invoke            = landfall.ScopeRead, landfall.ScopeInvoke
		deploying, admin        = landfall.ScopeDeploy, landfall.ScopeAdmin
	)
	return []row{
		// The server, and apps.
		{id: "status", scope: read, says: `"apps":3`, other: seen},
		{id: "list-apps", scope: read, says: `"name":"shop"`, other: seen},
		{id: "create-app", scope: admin, bound: refused, status: created, body: `{"name":"fresh-app"}`,
			says: `"name":"fresh-app"`},
		{id: "show-app", scope: read, says: `"previous":"PREVIOUS"`, lost: []string{"app"}},
		{id: "delete-app", scope: admin, query: "?force=true", says: `"deleted":`, lost: []string{"app"}},
		{
			id: "set-credentials", scope: admin, with: "app=bakery", body: `{"password":"another one"}`,
			says: `"repository_token_set":`, lost: []string{"app"},
		},
		{id: "drop-credentials", scope: admin, with: "app=bakery", says: `"name":"bakery"`, lost: []string{"app"}},
		{id: "set-deploy-key", scope: admin, with: "app=young", body: `{"private_key":""}`, says: `"public_key":"ssh-ed25519 `,
			lost: []string{"app"}},
		{id: "drop-deploy-key", scope: admin, with: "app=young", says: `"host_keys":`, lost: []string{"app"}},
		{id: "set-host-keys", scope: admin, with: "app=young", says: `"host_keys":["ssh-ed25519 SHA256:`,
			body: `{"host_keys":["` + hostKey + `"]}`, lost: []string{"app"}},
		{id: "rotate-hook", scope: admin, with: "app=bakery", says: `"secret":`, lost: []string{"app"}},
		{id: "set-repository", scope: admin, with: "app=young", body: `{"repository":"tide/young"}`,
			says: `"name":"young"`, lost: []string{"app"}},
		{id: "set-branch", scope: admin, body: `{"branch":"trunk"}`, says: `"branch":"trunk"`, lost: []string{"app"}},
		{id: "set-previews", scope: admin, body: `{"previews":"signed-in"}`, says: `"previews":"signed-in"`,
			lost: []string{"app"}},
		{id: "set-keep-files", scope: admin, body: `{"keep_files":"30d"}`, says: `"keep_files":"30d"`, lost: []string{"app"}},
		{id: "list-moves", scope: read, says: `"pointer":"live"`, lost: []string{"app"}},
		{id: "list-deliveries", scope: deploying, with: "app=bakery", query: "?app=bakery", says: `"id":"delivery-3"`,
			lost: []string{"?app=nosuch"}},
		{id: "show-delivery", scope: deploying, with: "app=bakery id=delivery-3", says: `"event":"push"`, lost: []string{"id"},
			other: hidden},
		{id: "replay-delivery", scope: deploying, with: "app=bakery id=delivery-3", says: `(Replayed by `, lost: []string{"id"},
			other: hidden},
		{id: "list-triggers", scope: read, says: `"name":"hello"`, lost: []string{"app"}},

		// Versions of apps, and their releases.
		{id: "app-history", scope: read, says: `"uid":"OLD"`, lost: []string{"app"}},
		{id: "show-group", scope: read, says: `"GroupVersionTracker"`, lost: []string{"app", "uid"}},
		{id: "app-state", scope: read, query: "?at=live", says: `"at":`, lost: []string{"app", "?at=nosuch"}},
		{
			id: "diff-groups", scope: read, query: "?from=OLD&to=live", says: `"kind":"static"`,
			lost: []string{"app", "?from=nosuch&to=live", "?from=live&to=nosuch"},
		},
		{
			id: "diff-files", scope: read, query: "?from=OLD&to=live", says: `"path":"/index.html"`,
			lost: []string{"app", "?from=nosuch&to=live", "?from=live&to=nosuch"},
		},
		{
			id: "diff-commits", scope: read, query: "?from=OLD&to=live", says: `"items":[`,
			lost: []string{"app", "?from=nosuch&to=live", "?from=live&to=nosuch"},
		},
		{id: "list-files", scope: read, says: `"path":"/index.html"`, lost: []string{"app", "uid"}},
		{
			id: "apply", scope: deploying, body: `{"id":"abcdefgh","commit":"DRAFT","base":"DRAFT","clean":true}`,
			says: `"commit":"DRAFT"`, lost: []string{"app"},
		},
		{id: "list-releases", scope: read, says: `"id":"OLD"`, lost: []string{"app"}},
		{id: "show-release", scope: read, says: `"live":true`, lost: []string{"app", "uid"}},
		{
			id: "reach-release", scope: deploying, body: `{"version":"OLD"}`, says: `"id":"OLD"`,
			lost: []string{"app", `{"version":"nosuch"}`},
		},
		{id: "expire-release", scope: deploying, with: "uid=PREVIOUS", says: `"name":"shop"`, lost: []string{"app", "uid"}},
		{id: "export-release", scope: read, says: "imageLayoutVersion", lost: []string{"app", "uid"}},
		{
			id: "import-release", scope: deploying, status: created, body: "ARCHIVE", says: `"from":"shop"`,
			lost: []string{"app"},
		},
		{id: "preview-collection", scope: read, query: "?expired=OLD", says: `"releases":["OLD"]`,
			lost: []string{"app", "?expired=nosuch"}},
		{id: "collect", scope: deploying, says: `"bytes":`, lost: []string{"app"}},
		{id: "promote", scope: deploying, body: `{"release":"spare"}`, says: `"held":false`,
			lost: []string{"app", `{"release":"nosuch"}`}},
		{
			id: "rollback", scope: deploying, body: `{"reason":"it was wrong"}`, says: `"live":"PREVIOUS"`,
			lost: []string{"app", `{"release":"nosuch"}`},
		},
		{id: "show-release-canary", scope: read, says: `"state":"ended"`, lost: []string{"app"}},
		{
			id: "start-release-canary", scope: deploying, body: `{"release":"spare","weight":30,"threshold":0}`,
			says: `"weight":30,"step":20,"interval":"5m0s","threshold":0,`, lost: []string{"app", `{"release":"nosuch"}`},
		},
		{id: "stop-release-canary", scope: deploying, with: "app=bakery", query: "?reason=slow", says: `"reason":"slow"`,
			lost: []string{"app"}},
		{id: "hold", scope: deploying, body: `{"held":true}`, says: `"held":true`, lost: []string{"app"}},
		{
			id: "tag-release", scope: deploying, with: "tag=extra", body: `{"release":"live"}`, says: `"name":"shop"`,
			lost: []string{"app", `{"release":"nosuch"}`},
		},
		{id: "untag-release", scope: deploying, says: `"name":"shop"`, lost: []string{"app", "tag"}},

		// Runs.
		{id: "list-runs", scope: read, query: "?app=shop", says: `"id":"RUN"`, lost: []string{"?app=nosuch"}},
		{id: "show-run", scope: read, says: `"state":"succeeded"`, lost: []string{"id"}},
		{id: "run-log", scope: read, says: "data: {", lost: []string{"id"}},
		{id: "run-files", scope: read, says: `"items":[`, lost: []string{"id"}},
		{id: "retry-run", scope: deploying, says: `"state":"queued"`, lost: []string{"id"}},
		{id: "approve-run", scope: deploying, with: "id=" + waitingRun, says: `"by":"`, lost: []string{"id"}},
		{id: "decline-run", scope: deploying, with: "id=" + waitingRun, body: `{"reason":"no"}`, says: `"state":"declined"`,
			lost: []string{"id"}},
		{id: "cancel-run", scope: deploying, with: "id=" + queuedRun, says: `"state":"cancelled"`, lost: []string{"id"}},

		// Functions and packages, their versions, aliases and executions.
		{id: "list-functions", scope: read, says: `"name":"hello"`, other: seen},
		{id: "list-versions-of-functions", scope: read, says: `"number":1`, lost: []string{"name"}, other: hidden},
		{id: "show-version-of-functions", scope: read, says: `"latest":true`, lost: []string{"name", "version"},
			other: hidden},
		{
			id: "describe-version-of-functions", scope: deploying, body: `{"description":"The first one"}`,
			says: `"description":"The first one"`, lost: []string{"name", "version"}, other: hidden,
		},
		{
			id: "delete-versions-of-functions", scope: deploying, with: "name=unneeded version=1",
			says: `"name":"unneeded-dddddddd"`, lost: []string{"name", "version"}, other: hidden,
		},
		{
			id: "make-version-of-functions", scope: deploying, status: accepted, with: "name=by-hand",
			body: `{"environment":"python","code":{"name":"a.py","literal":"cGFzcw=="}}`, says: `"state":"queued"`,
			lost: []string{`name {"description":"Again"}`},
		},
		{id: "show-function", scope: read, says: `"name":"hello_master"`, lost: []string{"name"}, other: hidden},
		{id: "master-of-function", scope: read, says: `"name":"hello_master"`, lost: []string{"name"}, other: hidden},
		{id: "delete-function", scope: deploying, with: "name=unneeded", says: `"name":"unneeded-dddddddd"`,
			lost: []string{"name"}, other: hidden},
		{id: "tracker-of-functions", scope: read, says: `"FunctionVersionTracker"`, lost: []string{"name"}, other: hidden},
		{id: "list-packages", scope: read, says: `"name":"hello-pkg"`, other: seen},
		{
			id: "list-versions-of-packages", scope: read, with: "name=hello-pkg", says: `"kind":"Package"`,
			lost: []string{"name"}, other: hidden,
		},
		{
			id: "show-version-of-packages", scope: read, with: "name=hello-pkg", says: `"latest":true`,
			lost: []string{"name", "version"}, other: hidden,
		},
		{
			id: "describe-version-of-packages", scope: deploying, with: "name=hello-pkg",
			body: `{"description":"The first one"}`, says: `"description":"The first one"`, lost: []string{"name", "version"},
			other: hidden,
		},
		{
			id: "make-version-of-packages", scope: deploying, status: created, with: "name=hello-pkg", body: `{"label":"v2"}`,
			says: `"label":"v2"`, lost: []string{"name"},
		},
		{
			id: "delete-versions-of-packages", scope: deploying, with: "name=unneeded-pkg version=all",
			says: `"name":"unneeded-pkg-dddddddd"`, lost: []string{"name", "version"}, other: hidden,
		},
		{
			id: "tracker-of-packages", scope: read, with: "name=hello-pkg", says: `"PackageVersionTracker"`,
			lost: []string{"name"}, other: hidden,
		},
		{id: "list-environments", scope: read, says: `"name":"env"`, other: seen},
		{id: "delete-environment", scope: deploying, status: gone, with: "name=unneeded-env", lost: []string{"name", "?app=nosuch"},
			other: hidden},
		{id: "list-aliases", scope: read, says: `"name":"stable"`, lost: []string{"name"}, other: hidden},
		{
			id: "create-alias", scope: deploying, status: created, body: `{"alias":"canary","version":"latest"}`,
			says: `"name":"canary"`, lost: []string{"name", `{"alias":"canary","version":"nosuch"}`}, other: hidden,
		},
		{id: "show-alias", scope: read, says: `"percent":100`, lost: []string{"name", "alias"}, other: hidden},
		{
			id: "update-alias", scope: deploying, body: `{"version":"latest"}`, says: `"name":"stable"`,
			lost: []string{"name", "alias", `{"version":"nosuch"}`}, other: hidden,
		},
		{id: "delete-alias", scope: deploying, status: gone, lost: []string{"name", "alias"}, other: hidden},
		{id: "list-canaries", scope: read, says: `"name":"careful"`, other: seen},
		{
			id: "create-canary", scope: deploying, status: created, says: `"weight":30`,
			body: `{"name":"next","function":"paced","alias":"qa","version":"2","step":30,"interval":"1m"}`,
			lost: []string{"app", `{"name":"next","function":"paced","alias":"nosuch","version":"2"}`},
		},
		{id: "show-canary", scope: read, says: `"verdict":"start"`, lost: []string{"app", "canary"}},
		{id: "delete-canary", scope: deploying, status: gone, lost: []string{"app", "canary"}},
		{id: "list-moves-of-alias", scope: read, says: `"actor":"ada"`, lost: []string{"name"}, other: hidden},
		{id: "list-moves-of-function-tag", scope: read, with: "tag=morning", says: `"function":"hello"`, other: seen},
		{id: "list-function-tags", scope: read, says: `"name":"morning"`, other: seen},
		{
			id: "create-function-tag", scope: deploying, status: created, body: `{"name":"evening","functions":["hello:1"]}`,
			says: `"functionref":[{"name":"hello"`, lost: []string{`{"name":"evening","functions":["nosuch"]}`,
				`{"name":"evening","functions":["hello:nosuch"]}`}, other: hidden,
		},
		{id: "show-function-tag", scope: read, with: "tag=morning", says: `"actor":"ada"`, lost: []string{"tag"},
			other: hidden},
		{
			id: "update-function-tag", scope: deploying, with: "tag=morning", body: `{"functions":["hello"]}`,
			says: `"name":"morning"`, lost: []string{"tag", `{"functions":["hello:nosuch"]}`}, other: hidden,
		},
		{id: "delete-function-tag", scope: deploying, status: gone, with: "tag=morning", lost: []string{"tag"},
			other: hidden},
		{
			id: "function-log", scope: read, query: "?follow=false", says: "a line of the log",
			lost: []string{"name", "?follow=false&version=nosuch"}, other: hidden,
		},
		{
			id: "list-executions", scope: read, query: "?app=shop", says: `"id":"` + executionID + `"`,
			lost: []string{"?app=nosuch", "?function=nosuch", "?function=hello:nosuch"},
		},
		{
			id: "create-execution", scope: invoke, status: created, body: `{"function":"hello","sync":false}`,
			says: `"state":"queued"`, lost: []string{`{"function":"nosuch"}`}, other: hidden,
		},
		{id: "show-execution", scope: read, with: "id=" + executionID, says: `"state":"succeeded"`, lost: []string{"id"},
			other: hidden},
		{id: "retry-execution", scope: invoke, with: "id=" + deadID, says: `"state":"queued"`, lost: []string{"id"},
			other: hidden},
		{id: "delete-execution", scope: deploying, status: gone, with: "id=" + executionID, lost: []string{"id"},
			other: hidden},
		{id: "list-jobs", scope: read, says: `"id":"` + jobID + `"`, lost: []string{"?function=nosuch"}, other: seen},
		{
			id: "create-job", scope: deploying, status: created, body: `{"function_id":"hello","pattern":"0 3 * * *"}`,
			says: `"status":"running"`, other: hidden,
			lost: []string{`{"function":"nosuch","pattern":"0 3 * * *"}`, `{"function":"hello:nosuch","pattern":"0 3 * * *"}`},
		},
		{id: "show-job", scope: read, with: "id=" + jobID, says: `"function_version":1`, lost: []string{"id"}, other: hidden},
		{id: "update-job", scope: deploying, with: "id=" + jobID, body: `{"status":"paused"}`, says: `"status":"paused"`,
			lost: []string{"id"}, other: hidden},
		{id: "delete-job", scope: deploying, status: gone, with: "id=" + jobID, lost: []string{"id"}, other: hidden},
		{id: "list-webhooks", scope: deploying, says: `"id":"` + jobID + `"`, lost: []string{"?function=nosuch"},
			other: seen},
		{
			id: "create-webhook", scope: deploying, status: created, body: `{"function":"hello"}`,
			says: `"webhook_url":"http://localhost:8080/hooks/`, other: hidden,
			lost: []string{`{"function":"nosuch"}`, `{"function":"hello:nosuch"}`},
		},
		{id: "show-webhook", scope: deploying, with: "id=" + jobID, says: `"function_version":1`, lost: []string{"id"},
			other: hidden},
		{id: "update-webhook", scope: deploying, with: "id=" + jobID, body: `{"function_version":0}`,
			says: `"function_version":0`, lost: []string{"id"}, other: hidden},
		{id: "delete-webhook", scope: deploying, status: gone, with: "id=" + jobID, lost: []string{"id"}, other: hidden},
		{id: "execution-log", scope: read, with: "id=" + executionID, says: "a line of the log", lost: []string{"id"},
			other: hidden},

		// Secrets, messages, and all that is kept.
		{id: "list-secrets", scope: read, says: `"name":"UNUSED_KEY"`, lost: []string{"app"}},
		{id: "set-secret", scope: deploying, body: `{"value":"fourth-value"}`, says: `"name":"STRIPE_KEY"`,
			lost: []string{"app"}},
		{
			id: "revoke-secret", scope: deploying, body: `{"version":"1"}`, says: `"revoked":`,
			lost: []string{"app", "secret", `{"version":"nosuch"}`},
		},
		{id: "delete-secret", scope: deploying, status: gone, with: "secret=UNUSED_KEY", lost: []string{"app", "secret"}},
		{id: "publish", scope: invoke, status: accepted, body: `{"order":1}`, says: `"sequence":1`, lost: []string{"app"}},
		{id: "read-messages", scope: invoke, says: `"items":[]`, lost: []string{"app"}},
		{id: "backup", scope: admin, bound: refused, says: "an archive"},
		{id: "check", scope: admin, bound: refused, says: `{"done":`},

		{
			id: "begin-upload", scope: deploying, status: created,
			body: `{"size":3,"digest":"sha256:` + strings.Repeat("a", 64) + `"}`, says: `"offset":0`, other: created,
		},
		{id: "show-upload", scope: deploying, bound: hidden, with: "upload=" + uploadID, says: `"offset":1`,
			lost:  []string{"upload"},
			other: hidden},
		{id: "send-part", scope: deploying, bound: hidden, with: "upload=" + uploadID, query: "?offset=1",
			body: "b", says: `"offset":2`,
			lost: []string{"upload"}, other: hidden},

		// What is below /ns.
		{id: "list-tokens", scope: admin, says: `"name":"admin"`, other: seen},
		{id: "create-token", scope: admin, bound: refused, status: created, body: `{"name":"ci","scope":"read"}`,
			says: `"token":"landfall_`,
			lost: []string{`{"name":"ci","scope":"read","app":"nosuch"}`, `{"name":"ci","scope":"read","namespace":"nosuch"}`}},
		{id: "delete-token", scope: admin, bound: hidden, status: gone, with: "token=invoke", lost: []string{"token"},
			other: hidden},
		{id: "show-github", scope: admin, bound: refused, says: `"slug":"landfall-of-the-test"`},
		{id: "list-github-repositories", scope: admin, bound: refused, query: "?filter=tide", says: `"items":[]`},
		{id: "begin-github-connection", scope: admin, bound: refused, status: created, body: `{"organization":"harbor"}`,
			says: `"state":"waiting"`},
		{id: "show-github-connection", scope: admin, bound: refused, with: "id=CONNECTION", says: `"state":"waiting"`,
			lost: []string{"id"}},
		{id: "connect-github-app", scope: admin, bound: refused, body: `{"state":"STATE","code":"code"}`,
			says: `"slug":"landfall-of-the-test"`, lost: []string{`{"state":"nosuch","code":"code"}`}},
		{id: "disconnect-github-app", scope: admin, bound: refused, says: `"slug":"landfall-of-the-test"`},
		{id: "list-plans", scope: admin, says: `"namespace":"bare"`, other: seen},
		{id: "show-plan", scope: admin, bound: hidden, with: "ns=bare", says: `"used":{"apps":0`, lost: []string{"ns"},
			other: hidden},
		{id: "set-plan", scope: admin, bound: refused, body: `{"apps":7}`, says: `"limits":{"apps":7}`, lost: []string{"ns"}},
		{id: "list-namespaces", scope: read, says: `"name":"bare"`, other: seen},
		{id: "show-namespace", scope: read, bound: hidden, with: "ns=bare", says: `"name":"bare"`, lost: []string{"ns"},
			other: hidden},
		{id: "put-namespace", scope: admin, bound: refused, status: created, with: "ns=fresh", says: `"name":"fresh"`},
		{id: "delete-namespace", scope: admin, bound: refused, status: gone, with: "ns=bare", lost: []string{"ns"}},
		{id: "list-fn-apps", scope: read, says: `"name":"shop"`, lost: []string{"ns"}, other: seen},
		{id: "show-fn-app", scope: read, says: `"currency":"EUR"`, lost: []string{"ns", "app"}, other: hidden},
		{id: "put-fn-app", scope: deploying, body: `{"config":{"currency":"CHF"}}`, says: `"currency":"CHF"`,
			lost: []string{"ns"}},
		{id: "delete-fn-app", scope: admin, status: gone, with: "app=young", lost: []string{"ns", "app"}, other: hidden},
		{id: "list-fn-triggers", scope: read, says: `"url":"/api/hello"`, lost: []string{"ns", "app"}, other: hidden},
		{id: "show-fn-trigger", scope: read, says: `"url":"/api/hello"`, lost: []string{"ns", "app", "trigger"},
			other: hidden},
		{
			id: "put-fn-trigger", scope: deploying, status: created, with: "trigger=nightly",
			body: `{"cron":"0 3 * * *","function":"hello"}`, says: `"kind":"time-trigger"`,
			lost: []string{"ns", "app", `{"cron":"0 3 * * *","function":"nosuch"}`}, other: hidden,
		},
		{id: "delete-fn-trigger", scope: deploying, status: gone, lost: []string{"ns", "app", "trigger"}, other: hidden},
		{id: "list-fn-functions", scope: read, says: `"name":"hello"`, lost: []string{"ns"}, other: seen},
		{id: "show-fn-function", scope: read, says: `"image":"localhost:8080/default/hello:`,
			lost: []string{"ns", "function"}, other: hidden}, {
			id: "put-fn-function", scope: deploying, body: `{"resources":{"memory":67108864}}`, says: `"memory":67108864`,
			lost: []string{"ns", "function", `function {"image":"nosuch:1"}`}, other: taken,
		},
		{id: "delete-fn-function", scope: deploying, status: gone, with: "function=idle", lost: []string{"ns", "function"},
			other: hidden},
	}
}
