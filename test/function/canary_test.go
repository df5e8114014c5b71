package function_test

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
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// canary is a secret that is looked for wherever something is kept or told.
const canary = `c4n4ry/"é+7f0d2b91`

// leaks are how it would show.
func leaks(t *testing.T) map[string]string {
	t.Helper()
	quoted := testkit.Must(json.Marshal(canary))(t)
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

// S32: a secret is nowhere but in what is sealed: not in the database, the objects, the log, the answers of the API
// and the pages, what the forge is told, the metrics, nor a backup.
func TestSecretCanary(t *testing.T) {
	t.Parallel()
	w := forge.NewReportingWorld(t, "LANDFALL_SANDBOX=off")
	s := w.Site
	h, _ := w.Follow("shop")
	s.SetSecret("shop", "CANARY", canary)
	specs := site.Naming(site.FunctionsSpec("python-env", "leak leak.main"), "CANARY")
	specs = strings.Replace(specs, "packageref: {name: leak-pkg}, functionName: leak.main}",
		"packageref: {name: leak-pkg}, functionName: leak.main}\n  functionTimeout: 10", 1)
	h.Write("specs/functions.yaml", specs, "specs/app.yaml", site.AppSpec("shop"), "site/index.html", "zero",
		"leak/leak.py", leaky)
	h.Commit("A function that leaks")
	w.Hears(h.Send("main"))
	forge.WantEnds(t, w, "shop", h.Head(), landfall.RunSucceeded)

	var told strings.Builder // all that is told to others than the function's own callers
	for how, status := range map[string]int{
		"log": http.StatusOK, "throw": http.StatusInternalServerError, "exit": http.StatusBadGateway,
		"abort": http.StatusBadGateway, "hang": http.StatusGatewayTimeout, "502": http.StatusBadGateway,
	} {
		answer := s.Get(s.At("shop", "/api/leak?how="+how))
		if answer.Status != status {
			t.Errorf("%s: got the status %d, want %d", how, answer.Status, status)
		}
		if how == "502" {
			testkit.Equal(t, "what the function answers to its own caller", answer.Body, canary)
			continue
		}
		told.WriteString(answer.Body)
	}
	out, _ := s.Run(t.TempDir(), "function", "invoke", "leak", "--data", `{}`)
	told.WriteString(out)

	// A build finds it in the repository, and a spec names it.
	h.Git("switch", "--quiet", "-c", "feature")
	h.Write("build.sh", "printf '%s%s\\n' 'c4n4ry/\"' 'é+7f0d2b91' >&2\nprintf '%s%s' 'c4n4ry/\"' 'é+7f0d2b91' | "+
		"base64\nexit 7\n", "specs/app.yaml",
		site.AppSpec("shop", "build: {command: 'sh build.sh', outputs: [out]}"))
	h.Commit("A build that leaks")
	w.Hears(h.Send("feature"), h.Pull("opened", 12, "feature"))
	failed := forge.WantEnds(t, w, "shop", h.Head(), landfall.RunFailed, "[secret CANARY:1]")
	h.Write("specs/app.yaml", site.AppSpec("shop", "release: {live: '"+strings.ReplaceAll(canary, "'", "")+"'}"))
	h.Commit("A spec that leaks")
	w.Hears(h.Send("feature"))
	wrong := forge.WantEnds(t, w, "shop", h.Head(), landfall.RunFailed)
	w.Says(h, 12, "### shop · failed", wrong.Commit.Short())
	s.SetSecret("shop", "CANARY", canary+"2")
	s.Run(t.TempDir(), "release", "rollback", "shop")

	for _, path := range []string{
		"/apps/shop/secrets", "/apps/shop/releases", "/apps/shop/groups",
		"/apps/shop/groups/" + string(s.ShowApp("shop").Live), "/apps/shop/moves", "/apps/shop", "/apps", "/runs",
		"/runs/" + failed.ID, "/runs/" + wrong.ID, "/runs/" + failed.ID + "/log", "/runs/" + wrong.ID + "/log", "/functions",
		"/functions/leak/versions", "/status", "/deliveries",
	} {
		p := s.ReadAs(s.URL + "/api/v1" + path)
		if p.Status != http.StatusOK {
			t.Errorf("%s: got the status %d", path, p.Status)
		}
		told.WriteString(p.Body)
	}
	told.WriteString(s.ReadAs(s.URL + "/metrics").Body)
	told.WriteString(s.ReadAs(s.URL + "/functions/default/leak").Body)
	for _, args := range [][]string{
		{"secret", "list", "shop", "-o", "json"}, {"run", "show", failed.ID}, {"run", "logs", failed.ID},
		{"run", "show", wrong.ID}, {"app", "history", "shop"},
		{"app", "diff", "shop", "live", "latest"}, {"fsck", "-o", "json"},
	} {
		out, _ := s.Run(t.TempDir(), args...)
		told.WriteString(out)
	}
	fmt.Fprint(&told, w.API.Statuses(""), w.API.Comments(h.Name, 12))
	archive := filepath.Join(t.TempDir(), "backup")
	out, code := s.Run(t.TempDir(), "backup", archive)
	testkit.Equal(t, "exit code of a backup", code, 0)
	testkit.Contains(t, textOf(out), "the key of the secrets is not in it", "secret-key")
	told.WriteString(out)
	s.Stop()
	told.WriteString(s.Log.String())
	if !strings.Contains(s.Log.String(), "[secret CANARY]") {
		t.Error("the log has nothing in the place of the secret: did the function log it?")
	}

	kept := keeps(s, archive)
	key, err := os.ReadFile(filepath.Join(s.Data, "secret-key"))
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
	info, err := os.Stat(filepath.Join(s.Data, "secret-key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode of the key's file is %v, %v", info, err)
	}
}

// textOf is what was printed.
func textOf(out string) fmt.Stringer { return bytes.NewBufferString(out) }

// keeps returns all that a stopped site and a backup of it keep.
func keeps(s *site.Site, archive string) map[string][]byte {
	s.T.Helper()
	kept := map[string][]byte{}
	check := func(err error) {
		if err != nil {
			s.T.Fatal(err)
		}
	}
	check(filepath.WalkDir(s.Data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		kept[path], err = os.ReadFile(path)
		return err
	}))
	db, err := s.OpenState()
	check(err)
	var rows bytes.Buffer
	check(db.Snapshot(context.Background(), func(at *store.Snapshot) error {
		_, err := at.Dump(context.Background(), &rows)
		return err
	}))
	check(db.Close())
	kept["rows"] = rows.Bytes()
	objects, err := s.OpenObjects()
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
		s.T.Errorf("hardly anything is kept: %d", len(kept))
	}
	return kept
}
