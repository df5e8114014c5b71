package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/backup"
	"landfall.dev/landfall/store"
)

// canary is a secret that is looked for wherever something is kept or told.
const canary = `c4n4ry/"é+7f0d2b91`

// leaks are how it would show.
func leaks(t *testing.T) map[string]string {
	t.Helper()
	quoted := must(json.Marshal(canary))(t)
	return map[string]string{
		"plain": canary, "its end": canary[8:], "as JSON": string(quoted[1 : len(quoted)-1]),
		"as JSON in ASCII": `c4n4ry/\"\u00e9+7f0d2b91`,
		"in base64":        base64.RawStdEncoding.EncodeToString([]byte(canary))[:20],
		"in hexadecimal":   hex.EncodeToString([]byte(canary)), "in a URL": url.QueryEscape(canary),
		"in a path": url.PathEscape(canary), "as Python quotes it": `c4n4ry/%22%C3%A9%2B7f0d2b91`,
	}
}

// leaky is a function that gives its secret away in every way that happens by accident.
const leaky = `import base64
import json
import os
import sys
import urllib.parse

from flask import request

key = os.environ['CANARY']
forms = [key, base64.b64encode(key.encode()).decode(), base64.b64encode(('me:' + key).encode()).decode(), key.encode().hex(),
         urllib.parse.quote(key), urllib.parse.quote_plus(key), json.dumps(key), json.dumps({'key': key}, ensure_ascii=False), repr([key])]


def main():
    how = request.args.get('how')
    for form in forms:
        print('log: ' + form, file=sys.stderr)
    sys.stderr.flush()
    os.write(2, key[:9].encode())
    os.write(2, key[9:].encode() + b'\n')
    if how == 'throw':
        raise ValueError('no such key: ' + ' '.join(forms))
    if how == 'exit':
        os._exit(3)
    if how == 'abort':
        os.abort()
    if how == '502':
        return key, 502
    if how == 'hang':
        os.write(2, b'half of it: ' + key[:9].encode())
        import time
        time.sleep(600)
    return 'fine'
`

// S32: a secret is nowhere but in what is sealed: not in the database, the objects, the log, the answers of the API and the pages,
// what the forge is told, the metrics, nor a backup.
func TestSecretCanary(t *testing.T) {
	t.Parallel()
	w := newReportingWorld(t, "LANDFALL_SANDBOX=off")
	s := w.site
	h, _ := w.follow("shop")
	s.setSecret("shop", "CANARY", canary)
	specs := naming(functionsSpec("python-env", "leak leak.main"), "CANARY")
	specs = strings.Replace(specs, "packageref: {name: leak-pkg}, functionName: leak.main}", "packageref: {name: leak-pkg}, functionName: leak.main}\n  functionTimeout: 10", 1)
	h.write("specs/functions.yaml", specs, "specs/app.yaml", appSpec("shop"), "site/index.html", "zero", "leak/leak.py", leaky)
	h.commit("A function that leaks")
	w.hears(h.send("main"))
	wantEnds(t, w, "shop", h.head(), landfall.RunSucceeded)

	var told strings.Builder // all that is told to others than the function's own callers
	for how, status := range map[string]int{
		"log": http.StatusOK, "throw": http.StatusInternalServerError, "exit": http.StatusBadGateway, "abort": http.StatusBadGateway,
		"hang": http.StatusGatewayTimeout, "502": http.StatusBadGateway,
	} {
		answer := s.get(s.at("shop", "/api/leak?how="+how))
		if answer.status != status {
			t.Errorf("%s: got the status %d, want %d", how, answer.status, status)
		}
		if how == "502" {
			wantEqual(t, "what the function answers to its own caller", answer.body, canary)
			continue
		}
		told.WriteString(answer.body)
	}
	out, _ := s.run(t.TempDir(), "function", "invoke", "leak", "--data", `{}`)
	told.WriteString(out)

	// A build finds it in the repository, and a spec names it.
	h.git("switch", "--quiet", "-c", "feature")
	h.write("build.sh", "printf '%s%s\\n' 'c4n4ry/\"' 'é+7f0d2b91' >&2\nprintf '%s%s' 'c4n4ry/\"' 'é+7f0d2b91' | base64\nexit 7\n", "specs/app.yaml",
		appSpec("shop", "build: {command: 'sh build.sh', outputs: [out]}"))
	h.commit("A build that leaks")
	w.hears(h.send("feature"), h.pull("opened", 12, "feature"))
	failed := wantEnds(t, w, "shop", h.head(), landfall.RunFailed, "[secret CANARY:1]")
	h.write("specs/app.yaml", appSpec("shop", "release: {live: '"+strings.ReplaceAll(canary, "'", "")+"'}"))
	h.commit("A spec that leaks")
	w.hears(h.send("feature"))
	wrong := wantEnds(t, w, "shop", h.head(), landfall.RunFailed)
	w.says(h, 12, "### shop · failed", wrong.Commit.Short())
	s.setSecret("shop", "CANARY", canary+"2")
	s.run(t.TempDir(), "release", "rollback", "shop")

	for _, path := range []string{
		"/apps/shop/secrets", "/apps/shop/releases", "/apps/shop/groups", "/apps/shop/groups/" + string(s.showApp("shop").Live), "/apps/shop/moves",
		"/apps/shop", "/apps", "/runs", "/runs/" + failed.ID, "/runs/" + wrong.ID, "/runs/" + failed.ID + "/log", "/runs/" + wrong.ID + "/log", "/functions",
		"/functions/leak/versions", "/status", "/deliveries",
	} {
		p := s.readAs(s.URL + "/api/v1" + path)
		if p.status != http.StatusOK {
			t.Errorf("%s: got the status %d", path, p.status)
		}
		told.WriteString(p.body)
	}
	told.WriteString(s.readAs(s.URL + "/metrics").body)
	told.WriteString(s.readAs(s.URL + "/functions/default/leak").body)
	for _, args := range [][]string{
		{"secret", "list", "shop", "-o", "json"}, {"run", "show", failed.ID}, {"run", "logs", failed.ID}, {"run", "show", wrong.ID}, {"app", "history", "shop"},
		{"app", "diff", "shop", "live", "latest"}, {"fsck", "-o", "json"},
	} {
		out, _ := s.run(t.TempDir(), args...)
		told.WriteString(out)
	}
	fmt.Fprint(&told, w.api.Statuses(""), w.api.Comments(h.name, 12))
	archive := filepath.Join(t.TempDir(), "backup")
	out, code := s.run(t.TempDir(), "backup", archive)
	wantEqual(t, "exit code of a backup", code, 0)
	wantText(t, textOf(out), "the key of the secrets is not in it", "secret-key")
	told.WriteString(out)
	s.stop()
	told.WriteString(s.log.String())
	if !strings.Contains(s.log.String(), "[secret CANARY]") {
		t.Error("the log has nothing in the place of the secret: did the function log it?")
	}

	kept := s.keeps(archive)
	key, err := os.ReadFile(filepath.Join(s.data, "secret-key"))
	if err != nil {
		t.Fatal(err)
	}
	for what, leak := range leaks(t) {
		if i := strings.Index(told.String(), leak); i >= 0 {
			t.Errorf("the secret is told %s: %q", what, told.String()[max(0, i-300):i+len(leak)])
		}
		for where, data := range kept {
			if bytes.Contains(data, []byte(leak)) {
				t.Errorf("the secret is kept %s in %s", what, where)
			}
		}
	}
	for where, data := range kept {
		if bytes.Contains(data, bytes.TrimSpace(key)) && filepath.Base(where) != "secret-key" {
			t.Errorf("the key is in %s", where)
		}
	}
	info, err := os.Stat(filepath.Join(s.data, "secret-key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the key's file is %v, %v", info, err)
	}
}

// textOf is what was printed.
func textOf(out string) fmt.Stringer { return bytes.NewBufferString(out) }

// keeps returns all that a stopped site and a backup of it keep.
func (s *site) keeps(archive string) map[string][]byte {
	s.t.Helper()
	kept := map[string][]byte{}
	check := func(err error) {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	check(filepath.WalkDir(s.data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		kept[path], err = os.ReadFile(path)
		return err
	}))
	db, err := s.openState()
	check(err)
	var rows bytes.Buffer
	check(db.Snapshot(context.Background(), func(at *store.Snapshot) error {
		_, err := at.Dump(context.Background(), &rows)
		return err
	}))
	check(db.Close())
	kept["rows"] = rows.Bytes()
	objects, err := s.openObjects()
	check(err)
	for key, err := range objects.List(context.Background(), "") {
		check(err)
		object, err := objects.Open(context.Background(), key)
		check(err)
		kept["object "+key], err = io.ReadAll(object)
		check(err)
		check(object.Close())
	}
	check(objects.Close())
	file, err := os.Open(archive)
	check(err)
	defer file.Close()
	_, _, err = backup.Reader{Take: func(e backup.Entry, r io.Reader) (err error) {
		kept[fmt.Sprintf("backup %d %s", e.Kind, e.Name)], err = io.ReadAll(r)
		return err
	}}.Read(context.Background(), file)
	check(err)
	if len(kept) < 5 || len(rows.Bytes()) == 0 {
		s.t.Errorf("hardly anything is kept: %d", len(kept))
	}
	return kept
}
