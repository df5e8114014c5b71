package server

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/testkit"
	"landfall.dev/landfall/upkeep"
)

// A setting that cannot be meant stops the start with one sentence that names it.
func TestWrongSettings(t *testing.T) {
	t.Parallel()
	keys := map[string]string{"LANDFALL_S3_ACCESS_KEY": "a", "LANDFALL_S3_SECRET_KEY": "open-sesame"}
	for _, test := range []struct {
		env, flags map[string]string
		words      []string
	}{
		{map[string]string{"LANDFALL_DATABASE": "mysql://db/x"}, nil,
			[]string{"LANDFALL_DATABASE", "mysql://", "postgres://"}},
		{map[string]string{"LANDFALL_DATABASE": "POSTGRES://u:open-sesame@db/x"}, nil,
			[]string{"LANDFALL_DATABASE", "POSTGRES://"}},
		{map[string]string{"LANDFALL_DATABASE": "host=db user=u password=open-sesame dbname=x"}, nil,
			[]string{"LANDFALL_DATABASE", "postgres://"}},
		{map[string]string{"LANDFALL_DATABASE": "host=db password=open-sesame://x"}, nil,
			[]string{"LANDFALL_DATABASE", "postgres://"}},
		{map[string]string{"LANDFALL_S3_STYLE": "moon"}, nil, []string{"LANDFALL_S3_STYLE", "auto, path or host"}},
		{map[string]string{"LANDFALL_S3_INSECURE": "maybe"}, nil, []string{"LANDFALL_S3_INSECURE", "true or false"}},
		{map[string]string{"LANDFALL_ALLOWED_HOSTS": "a.test, http://b.test"}, nil,
			[]string{"LANDFALL_ALLOWED_HOSTS", "http://b.test", "HOST:PORT"}},
		{map[string]string{"LANDFALL_ALLOWED_HOSTS": "http://u:open-sesame@b.test"}, nil,
			[]string{"LANDFALL_ALLOWED_HOSTS", "b.test"}},
		{map[string]string{"LANDFALL_ALLOWED_HOSTS": "a.test b.test"}, nil,
			[]string{"LANDFALL_ALLOWED_HOSTS", "with commas"}},
		{map[string]string{"HTTPS_PROXY": "ftp://u:open-sesame@proxy.test"}, nil,
			[]string{"HTTPS_PROXY names no proxy that can be used", "http://HOST:PORT"}},
		{map[string]string{"http_proxy": "http://u:open-sesame@"}, nil, []string{"http_proxy", "socks5://HOST:PORT"}},
		{map[string]string{"LANDFALL_MAX_FILES": "0"}, nil, []string{"LANDFALL_MAX_FILES", "above 0"}},
		{map[string]string{"LANDFALL_MAX_PUSH": "-1"}, nil, []string{"LANDFALL_MAX_PUSH", "above 0"}},
		{map[string]string{"LANDFALL_DATABASE": "dbname = x"}, nil, []string{"LANDFALL_DATABASE", "postgres://"}},
		{map[string]string{"LANDFALL_DATABASE": "postgres:/u:open-sesame@db/x"}, nil,
			[]string{"LANDFALL_DATABASE", "postgres://"}},
		{map[string]string{"LANDFALL_DATABASE": "jdbc:postgresql://db/x"}, nil, []string{"LANDFALL_DATABASE", "postgres://"}},
		{nil, map[string]string{"DATABASE": "postgres://u:open-sesame@db/x"},
			[]string{"LANDFALL_DATABASE", "password", "LANDFALL_DATABASE_FILE"}},
		{nil, map[string]string{"DATABASE": "postgres://u:open-sesame@db1:5432,db2:5432/x"},
			[]string{"LANDFALL_DATABASE", "password"}},
		{nil, map[string]string{"DATABASE": "postgres://u:open-sesame@db1:5432,db2/x"},
			[]string{"LANDFALL_DATABASE", "password"}},
		{nil, map[string]string{"DATABASE": "postgresql://u:open-sesame@[::1]:5432,[::2]/x"},
			[]string{"LANDFALL_DATABASE", "password"}},
		{nil, map[string]string{"DATABASE": "postgres://u:open%zzsesame@db1,db2/x"},
			[]string{"LANDFALL_DATABASE", "password"}},
		{nil, map[string]string{"DATABASE": "postgres://u:open-sesame/@db1,db2/x"},
			[]string{"LANDFALL_DATABASE", "password"}},
		{nil, map[string]string{"DATABASE": "postgres://u@db1,db2/x?sslmode=disable&password=open-sesame"},
			[]string{"LANDFALL_DATABASE", "password"}},
		{nil, map[string]string{"DATABASE": "postgres://db1,db2/x?user=u&p%61ssword=open-sesame"},
			[]string{"LANDFALL_DATABASE", "password"}},
		{nil, map[string]string{"DATABASE": "postgres://u@db/x?sslpassword=open-sesame"},
			[]string{"LANDFALL_DATABASE", "password"}},
		{map[string]string{"LANDFALL_S3_ENDPOINT": "s3.example.com"}, nil,
			[]string{"LANDFALL_S3_ACCESS_KEY", "LANDFALL_S3_ENDPOINT"}},
		{map[string]string{"LANDFALL_S3_ENDPOINT": "https://s3.example.com/bucket"}, nil,
			[]string{"LANDFALL_S3_ENDPOINT", "HOST:PORT"}},
		{map[string]string{"LANDFALL_S3_ENDPOINT": "s3.example.com", "LANDFALL_S3_STYLE": "virtual"}, nil,
			[]string{"LANDFALL_S3_STYLE", "virtual", "path"}},
		{map[string]string{"LANDFALL_ROLE": "gateway"}, nil,
			[]string{"LANDFALL_ROLE", "SQLite", "LANDFALL_DATABASE=postgres://"}},
		{map[string]string{"LANDFALL_ROLE": "api,teapot"}, nil, []string{"LANDFALL_ROLE", "teapot", "pipeline"}},
		{map[string]string{"LANDFALL_ROLE": "api", "LANDFALL_DATABASE": "postgres://db/x"}, nil,
			[]string{"LANDFALL_ROLE", "LANDFALL_S3_ENDPOINT"}},
		{map[string]string{"LANDFALL_ROLE": "api", "LANDFALL_DATABASE": "postgres://db/x",
			"LANDFALL_S3_ENDPOINT": "s3.example.com"}, nil,
			[]string{"LANDFALL_ROLE_SECRET", "LANDFALL_ROLE_SECRET_FILE"}},
		{map[string]string{"LANDFALL_ROLE": "router"}, nil, []string{"LANDFALL_RUNNERS", "router", "HOST:PORT"}},
		{map[string]string{"LANDFALL_ROLE": "router,runner", "LANDFALL_RUNNERS": "a:1"}, nil,
			[]string{"LANDFALL_ROLE", "/run", "a process for each"}},
		{map[string]string{"LANDFALL_ROLE": "router", "LANDFALL_RUNNERS": "a:1,u:open-sesame@b"}, nil,
			[]string{"LANDFALL_RUNNERS", "HOST:PORT"}},
		{map[string]string{"LANDFALL_ROLE": "router", "LANDFALL_RUNNERS": "a:1"}, nil, []string{"LANDFALL_ROLE_SECRET"}},
		{map[string]string{"LANDFALL_ROLE": "runner"}, nil, []string{"LANDFALL_REGISTRY", "runner", "HOST:PORT"}},
		{map[string]string{"LANDFALL_ROLE": "runner", "LANDFALL_REGISTRY": "r:1"}, nil,
			[]string{"LANDFALL_ROLE", "LANDFALL_S3_ENDPOINT"}},
		{map[string]string{"LANDFALL_ROLE": "trigger"}, nil, []string{"LANDFALL_ROUTER", "trigger", "LANDFALL_RUNNERS"}},
		{map[string]string{"LANDFALL_ROLE": "registry"}, nil, []string{"LANDFALL_ROLE", "SQLite"}},
		{map[string]string{"LANDFALL_ROUTER": "https://r:1"}, nil, []string{"LANDFALL_ROUTER", "HOST:PORT"}},
		{map[string]string{"LANDFALL_ROUTER": "r:1", "LANDFALL_RUNNERS": "a:1"}, nil,
			[]string{"LANDFALL_ROUTER", "LANDFALL_RUNNERS", "both"}},
		{map[string]string{"LANDFALL_ROUTER": "r:1"}, nil, []string{"LANDFALL_ROLE_SECRET", "other processes"}},
		{map[string]string{"LANDFALL_ROLE_SECRET": "sesame"}, nil, []string{"LANDFALL_ROLE_SECRET", "32"}},
		{map[string]string{"LANDFALL_LEASE": "3"}, nil, []string{"LANDFALL_LEASE", "30s"}},
		{map[string]string{"LANDFALL_S3_ENDPOINT": "s3.example.com", "LANDFALL_S3_INSECURE": "perhaps"}, nil,
			[]string{"LANDFALL_S3_INSECURE", "perhaps"}},
		{map[string]string{"LANDFALL_S3_ACCESS_KEY": "open-sesame", "LANDFALL_S3_SECRET_KEY": "open-sesame"}, nil,
			[]string{"LANDFALL_S3_ENDPOINT is not set", "LANDFALL_S3_ACCESS_KEY, LANDFALL_S3_SECRET_KEY", "data folder"}},
		{nil, map[string]string{"S3_BUCKET": "releases", "S3_REGION": "eu-north-1"},
			[]string{"LANDFALL_S3_ENDPOINT", "LANDFALL_S3_BUCKET, LANDFALL_S3_REGION"}},
		{map[string]string{"LANDFALL_NATS": "http://u:open-sesame@nats"}, nil, []string{"LANDFALL_NATS", "nats://HOST:4222"}},
		{map[string]string{"LANDFALL_NATS": "nats://a:4222,u:open-sesame@b"}, nil,
			[]string{"LANDFALL_NATS", "nats://HOST:4222"}},
		{map[string]string{"LANDFALL_NATS_CREDENTIALS": "open-sesame"}, nil,
			[]string{"LANDFALL_NATS_CREDENTIALS", "LANDFALL_NATS"}},
		{map[string]string{"LANDFALL_QUEUE_BYTES": "1 GiB"}, nil, []string{"LANDFALL_QUEUE_BYTES", "1 GiB", "above 0"}},
		{map[string]string{"LANDFALL_QUEUE_AGE": "0"}, nil, []string{"LANDFALL_QUEUE_AGE", "7d"}},
		{map[string]string{"LANDFALL_SUBJECTS": "shop=a.b,zoo"}, nil, []string{"LANDFALL_SUBJECTS", "zoo", "APP=SUBJECT"}},
		{map[string]string{"LANDFALL_SUBJECTS": "shop=>"}, nil, []string{"LANDFALL_SUBJECTS", "shop=>", "APP=SUBJECT"}},
		{map[string]string{"LANDFALL_METRICS_TOKEN": "open-sesame"}, nil, []string{"LANDFALL_METRICS_TOKEN", "32"}},
		{map[string]string{"LANDFALL_URL": "https://u:open-sesame@host/x"}, nil, []string{"LANDFALL_URL", "https://HOST"}},
		{map[string]string{"LANDFALL_URL": "https://host/x"}, nil, []string{"LANDFALL_URL", "https://host/x", "path"}},
		{map[string]string{"LANDFALL_URL": "https://host/?x=y"}, nil, []string{"LANDFALL_URL", "query"}},
		{map[string]string{"LANDFALL_URL": "host"}, nil, []string{"LANDFALL_URL", "host", "https://HOST"}},
		{map[string]string{"LANDFALL_S3_ENDPOINT": "http://user:open-sesame@s3.example.com"}, nil,
			[]string{"LANDFALL_S3_ENDPOINT", "HOST:PORT", "LANDFALL_S3_SECRET_KEY"}},
		{map[string]string{"LANDFALL_TOKEN": "open-sesame", "LANDFALL_TOKEN_FILE": "/token"}, nil,
			[]string{"LANDFALL_TOKEN and LANDFALL_TOKEN_FILE"}},
		{map[string]string{"LANDFALL_DATABASE": "a.db", "LANDFALL_DATABASE_FILE": "/address"}, nil,
			[]string{"LANDFALL_DATABASE and LANDFALL_DATABASE_FILE"}},
		{map[string]string{"LANDFALL_KEEP_RUNS": "a while"}, nil, []string{"LANDFALL_KEEP_RUNS", "a while", "90d"}},
		{map[string]string{"LANDFALL_KEEP_LOGS": "-1h"}, nil, []string{"LANDFALL_KEEP_LOGS", "-1h"}},
		{map[string]string{"LANDFALL_KEEP_DELIVERIES": "1000000d"}, nil, []string{"LANDFALL_KEEP_DELIVERIES", "1000000d"}},
	} {
		_, err := loadConfig(os.DevNull, func(name string) string {
			if v, ok := test.env[name]; ok {
				return v
			}
			// alone they are refused themselves
			if test.words[0] != "LANDFALL_S3_ACCESS_KEY" && test.env["LANDFALL_S3_ENDPOINT"] != "" {
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

// A line of the configuration file that is no setting, or a secret, stops the start; a secret is not repeated.
func TestWrongLines(t *testing.T) {
	t.Parallel()
	for line, words := range map[string][]string{
		"s3_secret_key: open-sesame": {":1: s3_secret_key holds a secret",
			"LANDFALL_S3_SECRET_KEY_FILE"},
		"domain: example.com\ntoken: open-sesame":         {":2: token holds a secret", "LANDFALL_TOKEN_FILE"},
		"database: postgres://u:open-sesame@db.test/name": {":1: database holds a secret", "LANDFALL_DATABASE_FILE"},
		"database: postgres://u:open-sesame@db1:1,db2/x":  {":1: database holds a secret", "LANDFALL_DATABASE_FILE"},
		"s3_buket: x": {`:1: unknown setting "s3_buket"`, `"s3_bucket"`},
		"domain: a.test\nlisten: :80\ndomain: b.test": {":3: domain stands here a second time"},
		"MAX_PUSH: 1":           {`:1: unknown setting "MAX_PUSH"`, `"max_push"`},
		"teapotteapotteapot: 1": {"unknown setting", "max_push"},
	} {
		file := filepath.Join(t.TempDir(), "landfall.yaml")
		if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := loadConfig(file, func(string) string { return "" }, nil)
		text := landfall.MessageOf(err)
		for _, word := range words {
			if landfall.KindOf(err) != landfall.Invalid || !strings.Contains(text, word) {
				t.Errorf("%s: got %q (%v), want %q in it", line, text, err, word)
			}
		}
		if strings.Contains(text, "sesame") || strings.Contains(text, "role_secret") {
			t.Errorf("%s: a secret, or the name of one, stands in %q", line, text)
		}
	}
}

// A wrong value is blamed on what has it: the line of the file, unless the environment has another.
func TestWrongValuesOfTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "landfall.yaml")
	if err := os.WriteFile(file, []byte("domain: a.test\n\nmax_push: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for variable, want := range map[string]string{
		"":     file + `:3: max_push is "x"; right would be a whole number above 0`,
		"many": `LANDFALL_MAX_PUSH is "many"; right would be a whole number above 0`,
	} {
		_, err := loadConfig(file, func(name string) string {
			return map[string]string{"LANDFALL_MAX_PUSH": variable}[name]
		}, nil)
		if got := landfall.MessageOf(err); got != want || landfall.KindOf(err) != landfall.Invalid {
			t.Errorf("%q: got %q, want %q", variable, got, want)
		}
	}
}

// A variable that begins like a setting and is none stops the start, with the name that was meant; those that the other
// commands, the tests and Kubernetes have are none of the server's business.
func TestWrongVariables(t *testing.T) {
	t.Parallel()
	for variable, meant := range map[string]string{
		"LANDFALL_S3_BUKET=x":            "LANDFALL_S3_BUCKET",
		"LANDFALL_ROLES=api":             "LANDFALL_ROLE",
		"LANDFALL_S3_BUCKET_FILE=/x":     "LANDFALL_S3_BUCKET",
		"LANDFALL_GITHUB_TOKENS_FILE=/x": "LANDFALL_GITHUB_TOKEN_FILE",
		"LANDFALL_PORT=8080":             "LANDFALL_",
		"LANDFALL_SESAME=open-sesame":    "LANDFALL_",
	} {
		name, value, _ := strings.Cut(variable, "=")
		text := landfall.MessageOf(checkEnvironment([]string{"HOME=/", variable}))
		if !strings.Contains(text, "there is no setting "+name) || !strings.Contains(text, meant) ||
			strings.Contains(text, value) && value == "open-sesame" {
			t.Errorf("%s: got %q, want it refused, and %s offered", variable, text, meant)
		}
	}
	for _, variable := range []string{
		"LANDFALL_DATA=x", "LANDFALL_TOKEN_FILE=/x", "LANDFALL_DATABASE_FILE=/x", "LANDFALL_SERVER=http://localhost",
		"LANDFALL_CRASH=x", "LANDFALL_TEST_ENGINE=x", "LANDFALL_CRASH_ROUNDS=1", "LANDFALL_SOAK_PUSHES=1",
		"LANDFALL_SOAK_FILE=x", "LANDFALL_OPENAPI_GITHUB=x", "LANDFALL_BENCH_JOB=x", "LANDFALL=x", "HOME=/",
		"LANDFALL_SERVICE_HOST=10.0.0.1", "LANDFALL_SERVICE_PORT_HTTP=80", "LANDFALL_PORT=tcp://10.0.0.1:80",
		"LANDFALL_PORT_80_TCP_ADDR=10.0.0.1", "LANDFALL_GATEWAY_PORT_80_TCP=tcp://10.0.0.1:80",
	} {
		if err := checkEnvironment([]string{variable}); err != nil {
			t.Errorf("%s: got %v, want it let be", variable, err)
		}
	}
}

// How long records are kept is said in days, or shorter, or not at all.
func TestRetentionSettings(t *testing.T) {
	t.Parallel()
	c, err := loadConfig(os.DevNull, func(name string) string {
		return map[string]string{"LANDFALL_KEEP_RUNS": "7d", "LANDFALL_KEEP_LOGS": "0"}[name]
	}, nil)
	want := upkeep.Retention{Runs: 7 * 24 * time.Hour, Deliveries: 30 * 24 * time.Hour, Executions: 30 * 24 * time.Hour}
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
	c, err := loadConfig(os.DevNull, func(name string) string {
		return map[string]string{"LANDFALL_DATABASE_FILE": file}[name]
	}, nil)
	if err != nil || c.Database != address {
		t.Errorf("got %q (%v), want %q", c.Database, err, address)
	}
}

// A database may be on several hosts, wherever its address stands.
func TestDatabaseHosts(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"postgres://landfall@db1:5432,db2:5432/landfall?target_session_attrs=read-write",
		"postgres://landfall@db1:5432,db2/landfall", "postgresql://landfall@[::1]:5432,[::2]:5432/landfall",
		"postgres://db1,db2/landfall?user=landfall&passfile=/etc/landfall/pgpass",
	} {
		file := filepath.Join(t.TempDir(), "landfall.yaml")
		if err := os.WriteFile(file, []byte("database: "+address+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		nothing := func(string) string { return "" }
		if c, err := loadConfig(file, nothing, nil); err != nil || c.Database != address {
			t.Errorf("in the file: got %q (%v), want %q", c.Database, err, address)
		}
		if c, err := loadConfig(os.DevNull, nothing, map[string]string{"DATABASE": address}); err != nil ||
			c.Database != address {
			t.Errorf("as a flag: got %q (%v), want %q", c.Database, err, address)
		}
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
		testkit.Equal(t, text, hostPort(u), want)
	}
}

// Everything that the server can be told stands in the table that people read, with what it is unless it is told.
func TestSettingsAreListed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(page)) {
		cell, rest, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for name := range strings.SplitSeq(cell, ", ") {
			rows[strings.TrimSuffix(name, " *")] = rest
		}
	}
	for _, s := range settings() {
		row, listed := rows["`"+envPrefix+s.name+"`"]
		if !listed || !strings.Contains(row, s.def) {
			t.Errorf("%s%s: got the row %q in README.md, want one with its default %q", envPrefix, s.name, row, s.def)
		}
	}
}
