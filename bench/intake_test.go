package bench_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// target is a webhook of an app.
type target struct {
	path, secret string
	body         []byte // of a push, with marks where it says what was pushed
}

// The marks in a body, as long as what they stand for.
var (
	commitMark = strings.Repeat("\x01", 40)
	branchMark = strings.Repeat("\x02", 8)
)

// newTarget returns a webhook for a repository.
func newTarget(b *testing.B, path, secret, owner, name, address string, id int) target {
	b.Helper()
	payload := testkit.Decode[map[string]any](b, forge.Fixture(b, "push_branch_create"))
	const commit, branch = "1111111111111111111111111111111111111111", "22222222"
	maps.Copy(payload, map[string]any{"after": commit, "ref": "refs/heads/" + branch})
	forge.Object(b, payload, "head_commit")["id"] = commit
	repository := forge.Object(b, payload, "repository")
	maps.Copy(repository, map[string]any{"clone_url": address, "html_url": strings.TrimSuffix(address, ".git"),
		"name": name, "id": id})
	maps.Copy(forge.Object(b, repository, "owner"), map[string]any{"login": owner, "name": owner})
	const size = 8 << 10
	payload["padding"] = ""
	payload["padding"] = strings.Repeat("x", max(0, size-len(testkit.Encode(b, payload))))
	data := bytes.ReplaceAll(testkit.Encode(b, payload), []byte(commit), []byte(commitMark))
	return target{path, secret, bytes.ReplaceAll(data, []byte(branch), []byte(branchMark))}
}

// deliver writes a script for wrk that sends so many signed deliveries, each of its own; then it begins anew.
func deliver(b *testing.B, targets []target, event string, count int) string {
	b.Helper()
	var bodies, lines bytes.Buffer
	for _, t := range targets {
		bodies.Write(t.body)
		bodies.WriteByte('\n')
	}
	random := make([]byte, 20)
	for i := range count {
		t := targets[i%len(targets)]
		_, _ = rand.Read(random)
		commit, branch := hex.EncodeToString(random), hex.EncodeToString(random[:4])
		mac := hmac.New(sha256.New, []byte(t.secret))
		mac.Write(bytes.ReplaceAll(bytes.ReplaceAll(t.body, []byte(commitMark), []byte(commit)), []byte(branchMark),
			[]byte(branch)))
		fmt.Fprintf(&lines, "%s%s%s%s\n", commit, branch, hex.EncodeToString(mac.Sum(nil)), t.path)
	}
	dir := b.TempDir()
	text := fmt.Sprintf(`local bodies, deliveries, i, out = {}, {}, 0, {}
init = function(args)
  for line in io.lines(%q) do
    local parts, at = {}, 1
    for mark in line:gmatch("[\1\2]+") do
      local from, to = line:find(mark, at, true)
      parts[#parts + 1] = line:sub(at, from - 1)
      parts[#parts + 1] = mark:byte()
      at = to + 1
    end
    parts[#parts + 1] = line:sub(at)
    bodies[#bodies + 1] = {parts, #line}
  end
  for line in io.lines(%q) do deliveries[#deliveries + 1] = line end
end
request = function()
  local d, body = deliveries[i + 1], bodies[i %% #bodies + 1]
  i = (i + 1) %% #deliveries
  local commit, branch = d:sub(1, 40), d:sub(41, 48)
  out[1] = "POST " .. d:sub(113) .. " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-GitHub-Event: %s\r\nX-GitHub-Delivery: "
    .. commit .. "\r\nX-Hub-Signature-256: sha256=" .. d:sub(49, 112) .. "\r\nContent-Length: " .. body[2] .. "\r\n\r\n"
  local parts = body[1]
  for n = 1, #parts do
    local p = parts[n]
    out[n + 1] = p == 1 and commit or p == 2 and branch or p
  end
  return table.concat(out, "", 1, #parts + 1)
end
`, filepath.Join(dir, "bodies"), filepath.Join(dir, "deliveries"), event)
	for name, data := range map[string][]byte{"bodies": bodies.Bytes(), "deliveries": lines.Bytes(),
		"deliver.lua": []byte(text)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return filepath.Join(dir, "deliver.lua")
}

// newPeer starts the program in peer, on one core unless that is empty, with the database at a path, if any.
func newPeer(b *testing.B, core, secret, database string) *web {
	b.Helper()
	w := &web{name: "gin", port: site.FreePort(b)}
	w.start(b, onCore(core, compiled(b, "./peer"), "-listen", "127.0.0.1:"+w.port, "-secret", secret,
		"-database", database))
	return w
}

// newSilentForge returns the address of a forge that never answers: nothing is fetched, and what was accepted waits.
func newSilentForge(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// count returns how many deliveries a database has.
func count(b *testing.B, path string) int {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=query_only(1)")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	var n int
	if err := db.QueryRowContext(b.Context(), `SELECT COUNT(*) FROM deliveries`).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkP4 takes signed deliveries of 8 KiB from 64 connections: an event that is only recorded, and pushes of new
// branches of 100 repositories, each of which becomes a run.
func BenchmarkP4(b *testing.B) {
	const connections, duration, apps, enough = 64, 2 * time.Second, 100, 40_000
	silent := newSilentForge(b)
	s := newServer(b, serverCore, "LANDFALL_ALLOWED_HOSTS="+silent)
	var ours, theirs []target
	for i := range apps {
		name := townApp(i)
		address := "http://" + silent + "/harbor/" + name + ".git"
		var made client.App
		s.Call(http.MethodPost, "/apps", client.NewApp{Name: name, Repository: address, Branch: "main"}, &made)
		_, hook, _ := strings.Cut(made.Hook.URL, "/webhooks/")
		path := "/webhooks/" + hook
		ours = append(ours, newTarget(b, path, made.Hook.Secret, "harbor", name, address, 1000+i))
		theirs = append(theirs, newTarget(b, "/webhooks/github/"+name, forge.WebhookSecret, "harbor", name, address, 1000+i))
	}
	database := filepath.Join(b.TempDir(), "peer.db")
	bare, transactions := newPeer(b, serverCore, forge.WebhookSecret, ""),
		newPeer(b, serverCore, forge.WebhookSecret, database)
	row := func(what, peer string, floor, target float64) *bench.Row {
		return table.Row(bench.Row{Figure: "P4 deliveries/s, " + what, Unit: "1/s", Peer: peer, More: true, Floor: floor,
			Target: target})
	}
	const one = "gin, a transaction for each"
	cost := func(what string) *bench.Row {
		return table.Row(bench.Row{Figure: "P4 processor time of the server for a delivery, " + what, Unit: "ms", Peer: one})
	}
	rows := []struct {
		event           string
		bare, txn, cost *bench.Row
	}{
		{"issues", row("recorded", "bare gin", 0.12, 0.35), row("recorded", one, 3, 7), cost("recorded")},
		{"push", row("pushes that become runs", "bare gin", 0, 0), row("pushes that become runs", one, 0, 0),
			cost("pushes that become runs")},
	}
	prepared := func(w *web, targets []target, event string) func() rate {
		script := deliver(b, targets, event, enough)
		return func() rate { return wrk(b, w, connections, duration, "-s", script, "http://127.0.0.1:"+w.port) }
	}
	load := func(w *web, targets []target, event string) rate { return prepared(w, targets, event)() }
	own := &web{"landfall", s.Port, s.pid()}
	sent := 0.0
	for b.Loop() {
		for _, r := range rows {
			got := load(own, ours, r.event)
			sent += got.persecond * duration.Seconds()
			r.bare.Add(got.persecond, load(bare, theirs, r.event).persecond)
			peer := load(transactions, theirs, r.event)
			r.txn.Add(got.persecond, peer.persecond)
			r.cost.Add(got.cost, peer.cost)
			b.Logf("%s: %+v %+v", r.event, got, peer)
		}
	}
	for _, r := range rows {
		work := prepared(own, ours, r.event)
		table.Notef("P4, where our processor time goes, event %s: %s", r.event, s.profile(func() { work() }))
	}
	s.Stop() // nobody else reads its file while it runs
	if stored := count(b, filepath.Join(s.Data, "landfall.db")); float64(stored) < 0.95*sent {
		b.Fatalf("%d deliveries are stored, but about %.0f were accepted", stored, sent)
	}
	table.Notef("P4: the floors are those of a delivery that is stored, which is all that the peers do. A push is " +
		"besides an entry in the log of its branch, a run and a job.")
	table.Notef("P4: each server on one core, wrk with %d connections on the other; both databases are SQLite that "+
		"flushes each commit to the disk.", connections)
	summarize(b, rows[1].txn)
}
