package webhook_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/webhook"
)

// A signed push is stored and answered with its addresses.
func TestPushIsAccepted(t *testing.T) {
	t.Parallel()
	d := open(t)
	body := fixture(t, "push_branch_update")
	r := d.delivery(t, "push", "d-1", body)
	got := send(t, r)
	want := []string{"http://landfall.test/runs/shop-c3d9a1f", "http://landfall.test/runs/admin-c3d9a1f"}
	// P-001: a signed push is received: 202 with the address of the delivery and of each app's run
	if got.status != http.StatusAccepted || got.Delivery != "http://landfall.test/deliveries/d-1" ||
		!slices.Equal(got.Runs, want) {
		t.Errorf("got %d %q %q, want 202 with the delivery and %q", got.status, got.Delivery, got.Runs, want)
	}
	if got.contentType != "application/json" || got.Decision != "Branch main is now at c3d9a1f." {
		t.Errorf("got %s with decision %q", got.contentType, got.Decision)
	}
	stored := d.store.deliveries()
	// L-020: when the answer comes, delivery and push are stored
	if len(stored) != 1 || stored[0].Push == nil || stored[0].Delivery.Digest != landfall.DigestOf(body) ||
		!stored[0].Delivery.Received.Equal(received()) || stored[0].Push.Delivery != "d-1" {
		t.Errorf("stored is %+v, want the push with its delivery", stored)
	}
}

// A branch may have any name that git allows, also one that looks like an option.
func TestPushOfAnUnusualBranch(t *testing.T) {
	t.Parallel()
	d := open(t)
	for i, ref := range []string{"refs/heads/-fix", "refs/heads/team/--upload-pack=x", "refs/tags/-1"} {
		body := bytes.ReplaceAll(fixture(t, "push_branch_update"), []byte("refs/heads/main"), []byte(ref))
		got := send(t, d.delivery(t, "push", fmt.Sprint("d-", i), body))
		// N-014: the push is accepted under its name.
		if got.status != http.StatusAccepted || string(d.store.deliveries()[i].Push.Ref) != ref {
			t.Errorf("%s: got %d %q, want 202", ref, got.status, got.Detail)
		}
	}
}

// A hook's own address takes the hook's own secret, and stands for the hook's apps.
func TestHookOfOneRepository(t *testing.T) {
	t.Parallel()
	d := open(t)
	body := fixture(t, "push_branch_update")
	to := func(id, key string) *http.Request {
		r := d.delivery(t, "push", id, body)
		r.URL.Path += "/" + hook
		r.Header.Set("X-Hub-Signature-256", sign(key, body))
		return r
	}
	if got := send(t, to("d-1", hookSecret)); got.status != http.StatusAccepted || len(got.Runs) != 1 {
		t.Errorf("got %d with runs %q, want 202 with the hook's app only", got.status, got.Runs)
	}
	// N-005: the installation's secret does not sign for a hook of one repository
	if got := send(t, to("d-2", secret)); got.status != http.StatusUnauthorized {
		t.Errorf("got %d, want 401", got.status)
	}

	// What is signed with this hook's secret may name any repository.
	foreign := bytes.ReplaceAll(body, []byte("harbor/shop"), []byte("harbor/bank"))
	r := d.delivery(t, "push", "d-3", foreign)
	r.URL.Path += "/" + hook
	r.Header.Set("X-Hub-Signature-256", sign(hookSecret, foreign))
	got := send(t, r)
	// N-005: a payload that names another repository is recorded under its hook and makes no run
	if got.status != http.StatusAccepted || len(got.Runs) != 0 || d.store.deliveries()[1].Delivery.Hook != hook {
		t.Errorf("got %d with runs %q, want 202 without any", got.status, got.Runs)
	}
}

// Whatever is not signed with the secret by SHA-256 is refused alike, and logged.
func TestBadSignature(t *testing.T) {
	t.Parallel()
	body := fixture(t, "push_branch_update")
	weak := hmac.New(sha1.New, []byte(secret))
	weak.Write(body)
	sha1Signature := "sha1=" + hex.EncodeToString(weak.Sum(nil))
	for name, change := range map[string]func(d *door, r *http.Request){
		"none":      func(_ *door, r *http.Request) { r.Header.Del("X-Hub-Signature-256") },
		"empty":     func(_ *door, r *http.Request) { r.Header.Set("X-Hub-Signature-256", "") },
		"no digits": func(_ *door, r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256=") },
		"no hexadecimal": func(_ *door, r *http.Request) {
			r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("zz", 32))
		},
		"too short":      func(_ *door, r *http.Request) { r.Header.Set("X-Hub-Signature-256", sign(secret, body)[:20]) },
		"another secret": func(_ *door, r *http.Request) { r.Header.Set("X-Hub-Signature-256", sign("another", body)) },
		"another body": func(_ *door, r *http.Request) {
			r.Header.Set("X-Hub-Signature-256", sign(secret, []byte("{}")))
		},
		"the empty secret":  func(_ *door, r *http.Request) { r.Header.Set("X-Hub-Signature-256", sign("", body)) },
		"of another hook":   func(_ *door, r *http.Request) { r.Header.Set("X-Hub-Signature-256", sign(hookSecret, body)) },
		"an unknown hook":   func(_ *door, r *http.Request) { r.URL.Path += "/nobody" },
		"nothing is secret": func(d *door, r *http.Request) { emptySecret(d, r, body) },
		"SHA-1 only": func(_ *door, r *http.Request) {
			r.Header.Del("X-Hub-Signature-256")
			r.Header.Set("X-Hub-Signature", sha1Signature)
		},
		"SHA-1 beside a wrong one": func(_ *door, r *http.Request) {
			r.Header.Set("X-Hub-Signature-256", sign("another", body))
			r.Header.Set("X-Hub-Signature", sha1Signature)
		},
		"SHA-1 in the place of SHA-256": func(_ *door, r *http.Request) {
			r.Header.Set("X-Hub-Signature-256", sha1Signature)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			r := d.delivery(t, "push", "d-1", body)
			change(d, r)
			got := send(t, r)
			// N-001: a wrong, missing, empty-secret or SHA-1-only signature is 401 S4: whatever the secret is not
			if got.status != http.StatusUnauthorized || got.contentType != "application/problem+json" || got.Detail == "" {
				t.Errorf("got %d %s %q, want 401 with a reason", got.status, got.contentType, got.Detail)
			}
			// N-001: it leaves no row
			if stored := d.store.deliveries(); len(stored) != 0 {
				t.Errorf("%d deliveries were stored, want none", len(stored))
			}
			// P-001: a bad signature is refused and logged, with the delivery and without the secret
			if log := d.log.String(); !strings.Contains(log, "status=401") || !strings.Contains(log, "delivery=d-1") ||
				strings.Contains(log, secret) {
				t.Errorf("the log is %q, want one line about d-1", log)
			}
		})
	}
}

// What is wrong with a signature is said: that there is none, or that it is none.
func TestSignatureThatIsNone(t *testing.T) {
	t.Parallel()
	body := fixture(t, "push_branch_update")
	for value, want := range map[string]string{
		"": "there is no X-Hub-Signature-256", "sha256=00": "X-Hub-Signature-256 is malformed",
		"sha256=": "X-Hub-Signature-256 is malformed", "sha1=" + strings.Repeat("00", 20): "X-Hub-Signature-256 is malformed",
		"sha256=" + strings.Repeat("00", 32): "the signature does not match",
	} {
		r := open(t).delivery(t, "push", "d-1", body)
		r.Header.Set("X-Hub-Signature-256", value)
		if got := send(t, r); got.status != http.StatusUnauthorized || !strings.Contains(got.Detail, want) {
			t.Errorf("%q: got %d %q, want 401 and %q", value, got.status, got.Detail, want)
		}
	}
}

// emptySecret makes the installation have no secret, and signs with none.
func emptySecret(d *door, r *http.Request, body []byte) {
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	d.store.secrets[""] = ""
	r.Header.Set("X-Hub-Signature-256", sign("", body))
}

// The secret that a hook had when it was last asked for is not good any more once it has another one, whoever set that.
func TestSecretReplaced(t *testing.T) {
	t.Parallel()
	d := open(t)
	deliver := func(id, key string) int {
		t.Helper()
		body := fixture(t, "push_branch_update")
		r := d.delivery(t, "push", id, body)
		r.URL.Path += "/" + hook
		r.Header.Set("X-Hub-Signature-256", sign(key, body))
		return send(t, r).status
	}
	secretIs := func(keys map[string]string) {
		d.store.mu.Lock()
		defer d.store.mu.Unlock()
		d.store.secrets = keys
	}
	const fresh = "another secret of one repository"
	for i, step := range []struct {
		secrets   map[string]string
		key       string
		status    int
		delivered int
	}{
		{map[string]string{hook: hookSecret}, hookSecret, http.StatusAccepted, 1},
		{map[string]string{hook: hookSecret}, hookSecret, http.StatusAccepted, 2},
		{map[string]string{hook: fresh}, hookSecret, http.StatusUnauthorized, 2},
		{map[string]string{hook: fresh}, fresh, http.StatusAccepted, 3},
		{map[string]string{hook: hookSecret}, hookSecret, http.StatusAccepted, 4},
		{map[string]string{hook: ""}, hookSecret, http.StatusUnauthorized, 4},
		{map[string]string{}, hookSecret, http.StatusUnauthorized, 4},
		{map[string]string{}, "", http.StatusUnauthorized, 4},
	} {
		secretIs(step.secrets)
		if got := deliver(fmt.Sprintf("d-%d", i), step.key); got != step.status {
			t.Errorf("step %d: got %d, want %d", i, got, step.status)
		}
		if got := len(d.store.deliveries()); got != step.delivered {
			t.Errorf("step %d: %d deliveries are stored, want %d", i, got, step.delivered)
		}
	}
}

// A repeat is answered with the first answer's addresses, whenever it comes and however many come at once.
func TestRepeats(t *testing.T) {
	t.Parallel()
	d := open(t)
	body := fixture(t, "push_branch_update")
	answers := make([]answer, 9)
	var all sync.WaitGroup
	for i := range answers[:8] {
		all.Go(func() { answers[i] = send(t, d.delivery(t, "push", "d-1", body)) })
	}
	all.Wait()
	answers[8] = send(t, d.delivery(t, "push", "d-1", body))
	statuses := map[int]int{}
	for _, a := range answers {
		statuses[a.status]++
		// N-003: a repeated delivery is answered with the first one's run
		if a.Delivery != answers[0].Delivery || !slices.Equal(a.Runs, answers[0].Runs) || len(a.Runs) != 2 {
			t.Errorf("got %q %q, want %q %q", a.Delivery, a.Runs, answers[0].Delivery, answers[0].Runs)
		}
	}
	// N-003: it is 200, the first one 202
	if statuses[http.StatusAccepted] != 1 || statuses[http.StatusOK] != 8 {
		t.Errorf("got the statuses %v, want 202 once and 200 else", statuses)
	}
	// P-002: a delivery is handled once, also when it comes several times at once
	if stored := d.store.deliveries(); len(stored) != 1 {
		t.Errorf("%d deliveries were stored, want 1", len(stored))
	}

	r := d.delivery(t, "push", "d-1", body)
	r.URL.Path += "/" + hook
	r.Header.Set("X-Hub-Signature-256", sign(hookSecret, body))
	if got := send(t, r); got.status != http.StatusAccepted {
		t.Errorf("the same ID under another hook: got %d, want 202: it is another delivery", got.status)
	}
}

// What Landfall does not act on is recorded, and says so.
func TestRecordedOnly(t *testing.T) {
	t.Parallel()
	push := string(fixture(t, "push_branch_update"))
	for name, c := range map[string]struct {
		event, payload, decision string
	}{
		"an unknown event": {"star", string(fixture(t, "star_created")),
			"Event star is not one that Landfall acts on."},
		"an event without a body": {"gollum", "{}", "Event gollum is not one that Landfall acts on."},
		"an unknown action": {
			"pull_request", string(fixture(t, "pull_request_labeled")),
			"The label ready means nothing to Landfall.",
		},
		"a reference of another kind": {
			"push", strings.ReplaceAll(push, "refs/heads/main", "refs/notes/x"), "refs/notes/x is neither a branch nor a tag.",
		},
		"an unknown repository": {
			"push", strings.ReplaceAll(push, "harbor/shop", "harbor/bank"), "Branch main is now at c3d9a1f.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			got := send(t, d.delivery(t, c.event, "d-1", []byte(c.payload)))
			// N-002: an unknown event or repository is 202 and makes no run
			if got.status != http.StatusAccepted || len(got.Runs) != 0 || got.Decision != c.decision {
				t.Errorf("got %d, runs %q, %q; want 202, none, %q", got.status, got.Runs, got.Decision, c.decision)
			}
			// N-002: it is recorded
			if stored := d.store.deliveries(); len(stored) != 1 || stored[0].Delivery.Event != c.event {
				t.Errorf("stored is %+v, want the delivery", stored)
			}
		})
	}
}

// Requests that can be told from their head are refused before their body is read: here it never comes.
func TestRefusedByItsHead(t *testing.T) {
	t.Parallel()
	d := open(t)
	const (
		post   = "POST " + webhook.Path + " HTTP/1.1\r\nHost: landfall.test\r\n"
		asJSON = "Content-Type: application/json\r\n"
		signed = "X-Hub-Signature-256: sha256=0000000000000000000000000000000000000000000000000000000000000000\r\n"
	)
	for name, c := range map[string]struct {
		head   string
		status int
	}{
		"too large": {post + asJSON + signed + fmt.Sprintf("Content-Length: %d\r\n", webhook.MaxBody+1),
			http.StatusRequestEntityTooLarge},
		"wrong content type": {post + signed + "Content-Type: text/plain\r\nContent-Length: 8192\r\n",
			http.StatusUnsupportedMediaType},
		"no content type": {post + signed + "Content-Length: 8192\r\n", http.StatusUnsupportedMediaType},
		"broken content type": {post + signed + "Content-Type: application/json; =\r\nContent-Length: 8192\r\n",
			http.StatusUnsupportedMediaType},
		"no signature": {post + asJSON + "Transfer-Encoding: chunked\r\n", http.StatusUnauthorized},
		"another method": {strings.Replace(post, "POST", "PUT", 1) + asJSON + signed + "Content-Length: 8192\r\n",
			http.StatusMethodNotAllowed},
		"another address": {strings.Replace(post, "github", "github/a/b", 1) + asJSON + signed + "Content-Length: 8192\r\n",
			http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := headOnly(t, d, c.head)
			// N-001, N-004: the head is enough for 401, for 413 by the declared length, and for 415: nobody waits for the body
			if got.status != c.status || got.Detail == "" {
				t.Errorf("got %d %q, want %d with a reason", got.status, got.Detail, c.status)
			}
		})
	}
}

// headOnly sends the head of a request and reads the answer.
func headOnly(t *testing.T, d *door, head string) answer {
	t.Helper()
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(connection, head+"\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, response)
}

// A body of undeclared length is read up to 25 MiB and no further.
func TestLimitOfTheBody(t *testing.T) {
	t.Parallel()
	d := open(t)
	body := fixture(t, "push_branch_update")
	over := slices.Concat(body, bytes.Repeat([]byte(" "), webhook.MaxBody-len(body)+1))
	full := over[:webhook.MaxBody]
	if got := send(t, d.delivery(t, "push", "d-1", full)); got.status != http.StatusAccepted {
		t.Errorf("25 MiB: got %d %s, want 202", got.status, got.Detail)
	}
	r := d.delivery(t, "push", "d-2", over)
	r.ContentLength = -1
	r.Body = io.NopCloser(struct{ io.Reader }{bytes.NewReader(over)})
	// N-004: a body that turns out to be over 25 MiB is 413 at the limit
	if got := send(t, r); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("one byte more: got %d %s, want 413", got.status, got.Detail)
	}
}

// A payload that is signed well and is not what GitHub sends is refused with the reason.
func TestMalformed(t *testing.T) {
	t.Parallel()
	d := open(t)
	push := string(fixture(t, "push_branch_update"))
	pull := string(fixture(t, "pull_request_opened"))
	for name, c := range map[string]struct{ event, payload string }{
		"no JSON":                 {"push", "hello"},
		"nothing":                 {"push", ""},
		"two values":              {"push", push + "{}"},
		"cut off":                 {"push", push[:len(push)/2]},
		"no JSON, unknown event":  {"star", "{"},
		"another type":            {"push", `[1]`},
		"null":                    {"push", "null"},
		"no repository":           {"push", strings.Replace(push, `"repository"`, `"x"`, 1)},
		"no repository id":        {"push", strings.Replace(push, "710200300", "0", 1)},
		"an owner that is a path": {"push", strings.ReplaceAll(push, `"harbor"`, `"../harbor"`)},
		"a name that is a path":   {"push", strings.ReplaceAll(push, `"shop"`, `".."`)},
		"no ref":                  {"push", strings.Replace(push, "refs/heads/main", "", 1)},
		"a ref that is an option": {"push", strings.Replace(push, "refs/heads/main", "--upload-pack=x", 1)},
		"another ref that is one": {"push", strings.Replace(push, "refs/heads/main", "-refs/heads/main", 1)},
		"a ref with dots":         {"push", strings.Replace(push, "refs/heads/main", "refs/heads/../x", 1)},
		"after is no commit":      {"push", strings.Replace(push, `"after": "c3d9`, `"after": "HEAD`, 1)},
		"before is no commit":     {"push", strings.Replace(push, `"before": "5f1c`, `"before": "-5f1`, 1)},
		"a tag's head commit": {"push", strings.Replace(string(fixture(t, "push_tag_create_annotated")), `"id": "c3d9`,
			`"id": "HEAD`, 2)}, "a push named otherwise": {"pull_request", push},
		"no action": {"pull_request", strings.Replace(pull, `"opened"`, `""`, 1)},
		"no number": {"pull_request", strings.Replace(pull, `"number": 12,
    "state"`, `"number": -1, "state"`, 1)},
		"no base":                    {"pull_request", strings.Replace(pull, `"ref": "main"`, `"ref": ""`, 1)},
		"a head that is no branch":   {"pull_request", strings.Replace(pull, `"ref": "feature/tax"`, `"ref": "a b"`, 1)},
		"a head that is no commit":   {"pull_request", strings.Replace(pull, `"sha": "c3d9`, `"sha": "main`, 1)},
		"a ping of no repository id": {"ping", `{"repository": {"id": "x"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := send(t, d.delivery(t, c.event, "d-1", []byte(c.payload)))
			// N-004: what is malformed after a good signature is 400
			if got.status != http.StatusBadRequest || !strings.Contains(got.Detail, c.event) {
				t.Errorf("got %d %q, want 400 with the event in the reason", got.status, got.Detail)
			}
		})
	}
	for _, header := range []string{"X-Github-Delivery", "X-Github-Event"} {
		for _, value := range []string{"", "a b", "../x", strings.Repeat("x", 101)} {
			r := d.delivery(t, "push", "d-1", []byte(push))
			r.Header.Set(header, value)
			if got := send(t, r); got.status != http.StatusBadRequest {
				t.Errorf("%s %q: got %d, want 400", header, value, got.status)
			}
		}
	}
	if stored := d.store.deliveries(); len(stored) != 0 {
		t.Errorf("%d deliveries were stored, want none", len(stored))
	}
}

// While the store is down nothing is promised, and the same delivery is taken later.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	for method, down := range map[string]error{
		"Secret": &landfall.Error{Kind: landfall.Unavailable, Message: "the disk is full"},
		"Accept": context.Canceled,
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			body := fixture(t, "push_branch_update")
			d.store.fail(method, down)
			got := send(t, d.delivery(t, "push", "d-1", body))
			// L-020: what could not be stored is not acknowledged
			if got.status != http.StatusServiceUnavailable || strings.Contains(got.Detail, "disk") ||
				len(d.store.deliveries()) != 0 {
				t.Errorf("got %d %q, want 503", got.status, got.Detail)
			}
			d.store.fail("", nil)
			// L-020: a redelivery keeps its ID and is taken once the store works again
			if got := send(t, d.delivery(t, "push", "d-1", body)); got.status != http.StatusAccepted {
				t.Errorf("got %d, want 202", got.status)
			}
		})
	}
}
