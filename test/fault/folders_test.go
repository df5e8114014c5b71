package fault_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/store/storetest"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// Data folders that earlier commits of the program wrote, each with what its server answered (tools/folder/make.sh),
// open with the program of today: every address answers the same, and pushes come in.
func TestEarlierFolders(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("../../testdata/folders/*.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatalf("there are no folders of earlier commits: %v", err)
	}
	for _, archive := range archives {
		for _, name := range []string{"sqlite", site.WithPostgres} {
			commit := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
			t.Run(commit+" "+name, func(t *testing.T) {
				t.Parallel()
				folder := t.TempDir()
				if out, err := exec.Command("tar", "-xzf", archive, "-C", folder, name).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", archive, err, out)
				}
				testEarlierFolder(t, filepath.Join(folder, name))
			})
		}
	}
}

func testEarlierFolder(t *testing.T, folder string) {
	t.Helper()
	var on site.Engine
	if dump, err := os.ReadFile(filepath.Join(folder, "database.sql")); err == nil {
		on.Database = storetest.Load(t, string(dump))
	}
	s := site.NewStopped(t, on)
	s.Data = filepath.Join(folder, "data")
	s.Start()
	s.ReadToken()

	// K-024: every address, the function behind it and its secrets answer what they answered when the folder was written
	for _, answer := range recorded(t, folder, "answers", 4) {
		host, path, status, body := answer[0], answer[1], answer[2], answer[3]
		got := s.Get(s.At(host, path))
		testkit.Equal(t, "the status of "+host+path, fmt.Sprint(got.Status), status)
		if got.Status == http.StatusOK {
			testkit.Equal(t, "the body of "+host+path, strings.TrimSpace(got.Body), body)
		}
	}
	// K-024: a version of a function is called by its number and its alias
	for _, call := range recorded(t, folder, "calls", 2) {
		out, code := s.Run(folder, "function", "invoke", call[0])
		testkit.Equal(t, "the exit code of a call of "+call[0], code, 0)
		testkit.Equal(t, "what "+call[0]+" answers", strings.TrimSpace(out), call[1])
	}
	// K-024: releases, history, versions, aliases and secrets are as they were
	for _, name := range []string{"apps_shop", "apps_shop_releases", "apps_shop_moves", "apps_shop_groups",
		"apps_shop_secrets", "functions", "functions_greet_aliases", "functions_greet_versions"} {
		var got any
		s.Call(http.MethodGet, "/"+strings.ReplaceAll(name, "_", "/"), nil, &got)
		if name == "functions_greet_aliases" {
			got = withoutLatest(t, got)
		}
		wantHas(t, name, portless(s, got), testkit.Decode[any](t,
			testkit.Must(os.ReadFile(filepath.Join(folder, name+".json")))(t)))
	}
	goesOn(s)
	out, code := s.Run(folder, "fsck")
	testkit.Equal(t, "the exit code of fsck: "+out, code, 0)
}

// goesOn makes a release of what the built-in remote has, with a change.
func goesOn(s *site.Site) {
	s.T.Helper()
	r := s.Repository(s.ShowApp("shop"))
	r.Git("fetch", "--quiet", "origin")
	r.Git("reset", "--quiet", "--hard", "origin/main")
	r.Write("site/index.html", "page of today\n")
	uid := string(s.Pushed(r, "shop", "Today"))
	site.WantServed(s.T, s, "shop--"+uid, "/", "page of today\n")
	site.WantServed(s.T, s, "shop--"+uid, "/api/greet", "greeting 5 second-value EUR")
	var app client.App
	s.Call(http.MethodPost, "/apps/shop/live", map[string]string{"release": uid}, &app)
	site.WantServed(s.T, s, "shop", "/", "page of today\n")
}

// recorded reads lines of so many fields.
func recorded(t *testing.T, folder, name string, fields int) (lines [][]string) {
	t.Helper()
	for line := range strings.Lines(string(testkit.Must(os.ReadFile(filepath.Join(folder, name)))(t))) {
		fieldsOf := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", fields)
		if len(fieldsOf) != fields {
			t.Fatalf("%s: %q has not %d fields", name, line, fields)
		}
		lines = append(lines, fieldsOf)
	}
	return lines
}

// withoutLatest returns a list of aliases without the one that every function has: earlier programs did not list it.
func withoutLatest(t *testing.T, got any) any {
	t.Helper()
	list, _ := got.(map[string]any)
	items, _ := list["items"].([]any)
	list["items"] = slices.DeleteFunc(items, func(alias any) bool {
		fields, _ := alias.(map[string]any)
		return fields["name"] == "latest"
	})
	return list
}

// portless returns what the API answered without the server's port.
func portless(s *site.Site, answer any) any {
	s.T.Helper()
	text := strings.ReplaceAll(string(testkit.Must(json.Marshal(answer))(s.T)), "localhost:"+s.Port, "localhost")
	return testkit.Decode[any](s.T, []byte(text))
}

// wantHas fails the test unless got has all that want has; it may have more fields.
func wantHas(t *testing.T, what string, got, want any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		has, _ := got.(map[string]any)
		for name, value := range want {
			wantHas(t, what+"."+name, has[name], value)
		}
	case []any:
		has, _ := got.([]any)
		if len(has) != len(want) {
			t.Errorf("%s: got %d items, want %d", what, len(has), len(want))
			return
		}
		for i, value := range want {
			wantHas(t, fmt.Sprintf("%s[%d]", what, i), has[i], value)
		}
	default:
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
}
