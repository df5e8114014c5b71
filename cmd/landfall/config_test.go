package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/pipeline"
)

// A setting that cannot be meant stops the start with one sentence that names it.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	keys := map[string]string{"LANDFALL_S3_ACCESS_KEY": "a", "LANDFALL_S3_SECRET_KEY": "open-sesame"}
	for _, test := range []struct {
		env, flags map[string]string
		words      []string
	}{
		{map[string]string{"LANDFALL_DATABASE": "mysql://db/x"}, nil, []string{"LANDFALL_DATABASE", "mysql://", "postgres://"}},
		{map[string]string{"LANDFALL_DATABASE": "POSTGRES://u:open-sesame@db/x"}, nil, []string{"LANDFALL_DATABASE", "POSTGRES://"}},
		{nil, map[string]string{"DATABASE": "postgres://u:open-sesame@db/x"}, []string{"LANDFALL_DATABASE", "password", "LANDFALL_DATABASE_FILE"}},
		{map[string]string{"LANDFALL_S3_ENDPOINT": "s3.example.com"}, nil, []string{"LANDFALL_S3_ACCESS_KEY", "LANDFALL_S3_ENDPOINT"}},
		{map[string]string{"LANDFALL_S3_ENDPOINT": "https://s3.example.com/bucket"}, nil, []string{"LANDFALL_S3_ENDPOINT", "HOST:PORT"}},
		{map[string]string{"LANDFALL_S3_ENDPOINT": "s3.example.com", "LANDFALL_S3_STYLE": "virtual"}, nil, []string{"LANDFALL_S3_STYLE", "virtual", "path"}},
		{map[string]string{"LANDFALL_ROLE": "gateway"}, nil, []string{"LANDFALL_ROLE", "SQLite", "LANDFALL_DATABASE=postgres://"}},
		{map[string]string{"LANDFALL_ROLE": "api,teapot"}, nil, []string{"LANDFALL_ROLE", "teapot", "pipeline"}},
		{map[string]string{"LANDFALL_ROLE": "api", "LANDFALL_DATABASE": "postgres://db/x"}, nil, []string{"LANDFALL_ROLE", "LANDFALL_S3_ENDPOINT"}},
		{map[string]string{"LANDFALL_ROLE": "api", "LANDFALL_DATABASE": "postgres://db/x", "LANDFALL_S3_ENDPOINT": "s3.example.com"}, nil,
			[]string{"LANDFALL_ROLE_SECRET", "LANDFALL_ROLE_SECRET_FILE"}},
		{map[string]string{"LANDFALL_ROLE_SECRET": "sesame"}, nil, []string{"LANDFALL_ROLE_SECRET", "32"}},
		{map[string]string{"LANDFALL_LEASE": "3"}, nil, []string{"LANDFALL_LEASE", "30s"}},
		{map[string]string{"LANDFALL_S3_ENDPOINT": "s3.example.com", "LANDFALL_S3_INSECURE": "perhaps"}, nil, []string{"LANDFALL_S3_INSECURE", "perhaps"}},
		{map[string]string{"LANDFALL_METRICS_TOKEN": "open-sesame"}, nil, []string{"LANDFALL_METRICS_TOKEN", "32"}},
		{map[string]string{"LANDFALL_KEEP_RUNS": "a while"}, nil, []string{"LANDFALL_KEEP_RUNS", "a while", "90d"}},
		{map[string]string{"LANDFALL_KEEP_LOGS": "-1h"}, nil, []string{"LANDFALL_KEEP_LOGS", "-1h"}},
		{map[string]string{"LANDFALL_KEEP_DELIVERIES": "1000000d"}, nil, []string{"LANDFALL_KEEP_DELIVERIES", "1000000d"}},
	} {
		_, err := loadConfig(os.DevNull, func(name string) string {
			if v, ok := test.env[name]; ok {
				return v
			}
			if test.words[0] != "LANDFALL_S3_ACCESS_KEY" {
				return keys[name]
			}
			return ""
		}, test.flags)
		text := landfall.MessageOf(err)
		for _, word := range test.words {
			if err == nil || !strings.Contains(text, word) {
				t.Errorf("%v %v: got %q (%v), want %q in it", test.env, test.flags, text, err, word)
			}
		}
		if strings.Contains(text, "sesame") {
			t.Errorf("the secret stands in %q", text)
		}
	}
}

// How long records are kept is said in days, or shorter, or not at all.
func TestRetentionSettings(t *testing.T) {
	t.Parallel()
	c, err := loadConfig(os.DevNull, func(name string) string {
		return map[string]string{"LANDFALL_KEEP_RUNS": "7d", "LANDFALL_KEEP_LOGS": "0"}[name]
	}, nil)
	want := pipeline.Retention{Runs: 7 * 24 * time.Hour, Deliveries: 30 * 24 * time.Hour}
	if err != nil || c.Retention != want {
		t.Errorf("got %+v (%v), want %+v", c.Retention, err, want)
	}
}

// The address of a database may come from a file, since it may hold a password.
func TestDatabaseFromFile(t *testing.T) {
	t.Parallel()
	const address = "postgres://landfall:open-sesame@db.example.com/landfall"
	file := filepath.Join(t.TempDir(), "address")
	if err := os.WriteFile(file, []byte(address+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := loadConfig(os.DevNull, func(name string) string { return map[string]string{"LANDFALL_DATABASE_FILE": file}[name] }, nil)
	if err != nil || c.Database != address {
		t.Errorf("got %q (%v), want %q", c.Database, err, address)
	}
}

// A worker may reach the process with the role api although its address is private, and nothing else on that machine.
func TestHostPort(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://landfall.example.com": "landfall.example.com:443", "http://10.0.0.1": "10.0.0.1:80",
		"http://localhost:8080": "localhost:8080", "https://[::1]/": "[::1]:443",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		wantEqual(t, text, hostPort(u), want)
	}
}
