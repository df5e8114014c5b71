package server

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"landfall.dev/landfall"
	"landfall.dev/landfall/assets/s3"
	"landfall.dev/landfall/builder"
	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/outbound"
	"landfall.dev/landfall/runtime/execution"
	"landfall.dev/landfall/runtime/gateway/hostname"
	"landfall.dev/landfall/secret"
	"landfall.dev/landfall/spec"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/upkeep"
)

// config is everything that `landfall serve` can be told, with its defaults filled in.
type config struct {
	start
	roleSettings
	githubSettings
	functionSettings
	keepSettings
	limitSettings

	Data         string
	Listen       string
	Domain       string
	URL          *url.URL
	Database     string
	Token        string
	MetricsToken string
	AllowedHosts []string
	Proxy        *outbound.Proxy // nil: none
	Secrets      *secret.Keeper  // nil: the data folder has the key
	S3           s3.Config       // without an endpoint: objects are kept in the data folder
	Messages     messageSettings
}

// start is what a start is told that is no setting.
type start struct {
	Version      string        // of the program
	File         string        // the configuration file that was read; empty: there is none
	StallTimeout time.Duration // how long a client may read nothing of a backup; 0: as the API has it
	New          bool          // start although parts of the installation are gone, or are another's
}

// githubSettings are what GitHub is told, and tells, by.
type githubSettings struct {
	GitHubAPI     string
	GitHubToken   string
	Comments      bool // on pull requests
	Deployments   bool // at GitHub
	WebhookSecret string
}

// functionSettings are what holds for all functions.
type functionSettings struct {
	Sandbox      string
	Network      string // as their specs say, or off
	RequireTests bool   // only functions that have passed a test are released
}

// keepSettings are how long records are kept, and the content of deleted apps.
type keepSettings struct {
	Retention   upkeep.Retention
	KeepDeleted time.Duration
}

// limitSettings bound what people and functions may do.
type limitSettings struct {
	MaxPush       int64
	MaxBuildCache int64
	MaxImageCache int64
	MaxFunctions  int64 // bytes of the cache of unpacked packages
	Limits        builder.Limits
	Specs         spec.Limits
	Executions    execution.Limits
}

// These are what LANDFALL_FUNCTIONS_NETWORK may say.
const (
	networkBySpec = "spec"
	networkOff    = "off"
)

// setting is one thing that can be configured: by the environment, or by its name in lower case in the file.
type setting struct {
	name   string // of the environment variable, without the prefix
	def    string
	secret bool // may come from a file: NAME_FILE
	help   string
}

// mayBeFile reports whether NAME_FILE may name a file that the setting stands in. The address of a database may hold a
// password.
func (s setting) mayBeFile() bool { return s.secret || s.name == databaseSetting }

const (
	envPrefix       = "LANDFALL_"
	fileSuffix      = "_FILE"
	databaseSetting = "DATABASE"
)

// settings lists what `landfall serve` reads. Flags of the same name stand over the environment, and that over the
// file.
func settings() []setting {
	return []setting{
		{"DATA", "landfall-data", false, "data folder; made when missing"},
		{"LISTEN", "127.0.0.1:8080", false, "address to listen on"},
		{"DOMAIN", "localhost", false, "base domain of releases: APP.DOMAIN"},
		{"URL", "", false, "public URL of this server (default: from the listen address)"},
		{databaseSetting, "", false,
			"path of an SQLite file, or postgres://…, of one host or several (default: a file in the data folder)"},
		{"ROLE", "", false, "what this process does, comma separated: api, webhook, pipeline, gateway, trigger, router, " +
			"runner, registry (default: all)"},
		{"ROLE_SECRET", "", true, "what processes with different roles share, 32 or more characters"},
		{"ROUTER", "", false, "HOST:PORT of a process with the role router, or of a runner, that runs functions (default: " +
			"they run in this process)"},
		{"RUNNERS", "", false, "HOST:PORT of each runner, comma separated; of a name, each address is one: for the role " +
			"router, or in place of one"},
		{"REGISTRY", "", false, "HOST:PORT of a process with the role registry, for the role runner"},
		{"SECRET_KEY", "", true,
			"key of the secrets, one of age or several on a line each; roles share it (default: made at the first start)"},
		{"LEASE", "30s", false,
			"how long a worker may give no sign of life before another one takes its runs, or its messages"},
		{"S3_ENDPOINT", "", false, "object store: HOST, HOST:PORT or URL (default: a folder in the data folder)"},
		{"S3_BUCKET", "landfall", false, "bucket of the object store; made when missing"},
		{"S3_REGION", "us-east-1", false, "region of the object store"},
		{"S3_ACCESS_KEY", "", true, "access key of the object store"},
		{"S3_SECRET_KEY", "", true, "secret key of the object store"},
		{"S3_INSECURE", "false", false, "true: http instead of https to the object store"},
		{"S3_STYLE", "auto", false, "how the bucket is addressed: auto, path (HOST/BUCKET) or host (BUCKET.HOST)"},
		{"NATS", "", true, "NATS server with JetStream that keeps messages: nats://HOST:4222 or tls://HOST:4222 (default: " +
			"JetStream in the process)"},
		{"NATS_CREDENTIALS", "", true, "credentials for the NATS server, as the text of its credentials file"},
		{"QUEUE_BYTES", "1073741824", false, "bytes of the messages of one app; what does not fit is refused"},
		{"QUEUE_AGE", "7d", false, "how long a message is kept that nobody took"},
		{"SUBJECTS", "", false,
			"NATS subjects that an app may use beside its own: APP=SUBJECT, comma separated; * and > as in NATS"},
		{"TOKEN", "", true, "administrator's token, 32 or more characters (default: made at the first start)"},
		{"GITHUB_API", "https://api.github.com/", false, "base URL of GitHub's API"},
		{"GITHUB_TOKEN", "", true, "token for commit statuses and comments; without it reports stay local"},
		{"GITHUB_COMMENTS", "true", false, "false: pull requests get no comment, and their commits statuses all the same"},
		{"GITHUB_DEPLOYMENTS", "true", false, "false: GitHub is told of no deployments"},
		{"GITHUB_WEBHOOK_SECRET", "", true, "secret of /webhooks/github; without one it refuses everything"},
		{"METRICS_TOKEN", "", true,
			"token that reads /metrics and nothing else, 32 or more characters; without it the administrator's does"},
		{"ALLOWED_HOSTS", "", false,
			"hosts (or HOST:PORT, comma separated) that may be reached although their address is private, and over http"},
		{"MAX_PUSH", "1073741824", false, "bytes of one push"},
		{"MAX_FILES", "50000", false, "files of one commit"},
		{"MAX_COMMIT_BYTES", "2147483648", false, "bytes of the files of one commit"},
		{"MAX_FILE_BYTES", "104857600", false, "bytes of one file in git"},
		{"MAX_RECEIVED_BYTES", "4294967296", false, "bytes that one fetch may receive"},
		{"MAX_OBJECTS", "10000000", false, "git objects that one fetch may bring"},
		{"MAX_BUILD_CACHE", "4294967296", false,
			"bytes of what builds made that are kept for the next build of the same input"},
		{"MAX_IMAGE_CACHE", "4294967296", false, "bytes of container images of functions that are kept for the next pull"},
		{"MAX_FUNCTION_CACHE", "8589934592", false,
			"bytes of unpacked packages that are kept of functions that do not run at the moment"},
		{"KEEP_RUNS", "90d", false, "how long runs are kept that made no accessible release; 0: for ever"},
		{"KEEP_LOGS", "30d", false, "how long the logs of runs are kept; 0: for ever"},
		{"KEEP_DELIVERIES", "30d", false, "how long webhook deliveries are kept; 0: for ever"},
		{"KEEP_EXECUTIONS", "30d", false, "how long the records of executions and their logs are kept; 0: for ever"},
		{"KEEP_DELETED", "0", false, "how long what a deleted app stored is kept; 0: the next collection removes it"},
		{"MAX_EXECUTIONS", "1000", false, "records of executions that are kept of one version of a function, the newest"},
		{"MAX_EXECUTION_LOGS", "16777216", false,
			"bytes of the logs of executions that are kept of one version of a function, the newest"},
		{"MAX_EXECUTION_RATE", "200", false,
			"executions a second that are recorded; of those that failed, five times as many"},
		{"MAX_SPEC_BYTES", "8388608", false, "bytes of the spec files of one commit"},
		{"MAX_SPEC_OBJECTS", "10000", false, "objects in the spec files of one commit"},
		{"MAX_SPEC_VALUES", "100000", false, "values in one spec document"},
		{"MAX_SPEC_DEPTH", "100", false, "levels of nesting in one spec document"},
		{"REQUIRE_TESTS", "false", false, "true: a function is released only when its contract has a test, and passes it"},
		{"SANDBOX", "auto", false, "auto: build commands run in a sandbox or not at all; off: without one"},
		{"FUNCTIONS_NETWORK", networkBySpec, false,
			"spec: functions whose spec asks for it reach public addresses; off: none does"},
	}
}

// loadConfig reads the file (optional), the environment and the flags, in ascending order of precedence.
func loadConfig(file string, getenv func(string) string, flags map[string]string) (config, error) {
	values, lines, err := readConfigFile(file)
	if err != nil {
		return config{}, err
	}
	inFile := maps.Clone(values)
	for _, s := range settings() {
		v := getenv(envPrefix + s.name)
		if v != "" {
			values[s.name] = v
		}
		if path := getenv(envPrefix + s.name + fileSuffix); s.mayBeFile() && path != "" {
			if v != "" {
				return config{}, badSetting(s.name, "and %s%s%s are both set; right would be one of them", envPrefix, s.name,
					fileSuffix)
			}
			data, err := os.ReadFile(filepath.Clean(path))
			if err != nil {
				return config{}, badSetting(s.name+fileSuffix, "cannot be read: %v", err)
			}
			values[s.name] = strings.TrimSpace(string(data))
		}
		if v, ok := flags[s.name]; ok {
			if s.name == databaseSetting && hasPassword(v) {
				return config{}, badSetting(s.name, "holds a password, and other users of this machine can read arguments; "+
					"right would be the environment, LANDFALL_DATABASE_FILE or PGPASSFILE")
			}
			values[s.name] = v
		}
		if values[s.name] == "" {
			values[s.name] = s.def
		}
	}
	c, err := parseConfig(values)
	if err != nil {
		return c, atLine(err, file, lines, func(name string) bool {
			return inFile[name] != "" && inFile[name] == values[name]
		})
	}
	if info, stat := os.Stat(file); stat == nil && info.Mode().IsRegular() {
		if c.File, err = filepath.Abs(file); err != nil {
			return c, err
		}
	}
	c.Proxy, err = outbound.ParseProxy(getenv)
	return c, err
}

// hasPassword reports whether the address of a database holds one. It may name several hosts, which is no URL to others
// than PostgreSQL's libraries, so it is not parsed as one; when in doubt, there is a password.
func hasPassword(address string) bool {
	_, rest, ok := strings.Cut(address, "://")
	if !ok {
		return false
	}
	before, parameters, _ := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(before, '@'); at >= 0 && strings.Contains(before[:at], ":") {
		return true
	}
	for parameter := range strings.SplitSeq(parameters, "&") {
		name, _, _ := strings.Cut(parameter, "=")
		if name, err := url.QueryUnescape(name); err != nil || name == "password" || name == "sslpassword" {
			return true
		}
	}
	return false
}

// atLine names the line of the configuration file in the error about a setting, if that is where it comes from.
func atLine(err error, file string, lines map[string]int, fromFile func(name string) bool) error {
	message, is := strings.CutPrefix(landfall.MessageOf(err), envPrefix)
	name, what, _ := strings.Cut(message, " ")
	if !is || !fromFile(name) {
		return err
	}
	return landfall.Wrapf("config", landfall.KindOf(err), err, "%s:%d: %s %s", file, lines[name],
		strings.ToLower(name), what)
}

// readConfigFile reads landfall.yaml: one key for each setting that is no secret, in lower case. It returns the lines
// of the keys, too.
func readConfigFile(file string) (values map[string]string, lines map[string]int, err error) {
	values, lines = map[string]string{}, map[string]int{}
	data, err := os.ReadFile(filepath.Clean(file))
	if errors.Is(err, fs.ErrNotExist) && file == defaultConfigFile {
		return values, lines, nil
	}
	if err != nil {
		return nil, nil, landfall.Wrapf("config", landfall.Invalid, err, "the configuration cannot be read: %v", err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, nil, landfall.Errorf("config", landfall.Invalid, "%s: %v", file, err)
	}
	if len(root.Content) == 0 {
		return values, lines, nil
	}
	pairs := root.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		key, value := pairs[i].Value, pairs[i+1].Value
		if err := checkKey(key, value); err != nil {
			return nil, nil, landfall.Errorf("config", landfall.Invalid, "%s:%d: %s", file, pairs[i].Line,
				landfall.MessageOf(err))
		}
		name := strings.ToUpper(key)
		if _, twice := values[name]; twice {
			return nil, nil, landfall.Errorf("config", landfall.Invalid, "%s:%d: %s stands here a second time", file,
				pairs[i].Line, key)
		}
		values[name], lines[name] = value, pairs[i].Line
	}
	return values, lines, nil
}

// checkKey refuses a line of the configuration file that is no setting, or a secret: the file is one that many may
// read.
func checkKey(key, value string) error {
	known := map[string]bool{}
	for _, s := range settings() {
		name := strings.ToLower(s.name)
		known[name] = !s.secret
		closed := s.secret || s.name == databaseSetting && hasPassword(value)
		if key != name || !closed {
			continue
		}
		return cli.Invalid("%[1]s holds a secret, and secrets are no lines of this file; right would be a file of its "+
			"own, named by %[2]s%[3]s, or %[2]s", key, envPrefix+s.name, fileSuffix)
	}
	if known[key] {
		return nil
	}
	maps.DeleteFunc(known, func(_ string, open bool) bool { return !open })
	return cli.Invalid("unknown setting %q; %s", key, spec.Suggest(key, known))
}

const (
	defaultConfigFile = "landfall.yaml"
	minToken          = 32
)

func parseConfig(v map[string]string) (config, error) {
	c := config{
		Data: v["DATA"], Listen: v["LISTEN"], Database: v["DATABASE"], Token: v["TOKEN"], MetricsToken: v["METRICS_TOKEN"],
	}
	var err error
	if c.Data, err = filepath.Abs(c.Data); err != nil {
		return c, badSetting("DATA", "is no path: %v", err)
	}
	if otherAddress.MatchString(c.Database) { // not shown: there may be a password in it
		return c, badSetting("DATABASE", "is how other programs name a PostgreSQL database, and would be a new file here; "+
			"right would be postgres://USER@HOST:5432/NAME, or a path")
	}
	if scheme, _, ok := strings.Cut(c.Database, "://"); ok && !store.IsPostgres(c.Database) {
		return c, badSetting("DATABASE", "begins with %q; right would be a path, or postgres://USER@HOST:5432/NAME",
			scheme+"://")
	}
	if c.Database == "" {
		c.Database = filepath.Join(c.Data, "landfall.db")
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return c, badSetting("LISTEN", "is %q; right would be HOST:PORT, for example 127.0.0.1:8080", c.Listen)
	}
	domain, ok := hostname.Canonical(v["DOMAIN"])
	if !ok || strings.Contains(v["DOMAIN"], ":") {
		return c, badSetting("DOMAIN", "is %q; right would be a host name without a port", v["DOMAIN"])
	}
	c.Domain = domain
	for name, token := range map[string]string{"TOKEN": c.Token, "METRICS_TOKEN": c.MetricsToken} {
		if token != "" && len(token) < minToken {
			return c, badSetting(name, "has %d characters; it needs at least %d", len(token), minToken)
		}
	}
	if err := c.parseURL(v["URL"]); err != nil {
		return c, err
	}
	for host := range strings.SplitSeq(v["ALLOWED_HOSTS"], ",") {
		if host = strings.TrimSpace(host); strings.ContainsAny(host, "/ @") { // it would allow nothing
			return c, badSetting("ALLOWED_HOSTS", "has %q; right would be HOST or HOST:PORT, with commas between",
				host[strings.LastIndexByte(host, '@')+1:])
		}
		if host != "" {
			c.AllowedHosts = append(c.AllowedHosts, host)
		}
	}
	if err := c.parseS3(v); err != nil {
		return c, err
	}
	if err := c.parseRoles(v); err != nil {
		return c, err
	}
	if key := v["SECRET_KEY"]; key != "" {
		if c.Secrets, err = secret.ParseKey(secret.Text(key)); err != nil {
			return c, badSetting("SECRET_KEY", "cannot be read: %s", landfall.MessageOf(err))
		}
	}
	for _, parse := range []func(map[string]string) error{c.parseGitHub, c.parseFunctions, c.parseRetention,
		c.parseMessages, c.parseLimits} {
		if err := parse(v); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *githubSettings) parseGitHub(v map[string]string) (err error) {
	c.GitHubAPI, c.GitHubToken, c.WebhookSecret = v["GITHUB_API"], v["GITHUB_TOKEN"], v["GITHUB_WEBHOOK_SECRET"]
	for name, into := range map[string]*bool{"GITHUB_COMMENTS": &c.Comments, "GITHUB_DEPLOYMENTS": &c.Deployments} {
		if *into, err = strconv.ParseBool(v[name]); err != nil {
			return badSetting(name, "is %q; right would be true or false", v[name])
		}
	}
	return nil
}

func (c *functionSettings) parseFunctions(v map[string]string) (err error) {
	if c.Sandbox = v["SANDBOX"]; c.Sandbox != "auto" && c.Sandbox != "off" {
		return badSetting("SANDBOX", "is %q; right would be auto or off", c.Sandbox)
	}
	if c.Network = v["FUNCTIONS_NETWORK"]; c.Network != networkBySpec && c.Network != networkOff {
		return badSetting("FUNCTIONS_NETWORK", "is %q; right would be %s or %s", c.Network, networkBySpec, networkOff)
	}
	if c.RequireTests, err = strconv.ParseBool(v["REQUIRE_TESTS"]); err != nil {
		return badSetting("REQUIRE_TESTS", "is %q; right would be true or false", v["REQUIRE_TESTS"])
	}
	return nil
}

// otherAddress finds the other forms in which PostgreSQL's programs take an address: as a path, each is that of a new
// and empty database.
var otherAddress = regexp.MustCompile(
	`(?i)^(jdbc|postgres|postgresql):(/?[^/]|$)|(^|\s)(host|hostaddr|port|dbname|user|password|service)\s*=`)

// parseURL reads the public address, if there is one: a scheme, a host and a port.
func (c *config) parseURL(text string) error {
	const name, right = "URL", "right would be https://HOST or https://HOST:PORT"
	if text == "" {
		return nil
	}
	if strings.Contains(text, "@") { // not shown: there may be a password before it
		return badSetting(name, "holds a user, and people sign in with a token; %s", right)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return badSetting(name, "is %q; %s", text, right)
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return badSetting(name, "is %q, and the server has a host of its own, no path or query of one; %s", text, right)
	}
	c.URL = u
	return nil
}

func (c *keepSettings) parseRetention(v map[string]string) error {
	const ever, never = "90d or 12h, or 0 for ever", "30d or 12h, or 0 for not at all"
	for _, keep := range []struct {
		name, right string
		into        *time.Duration
	}{
		{"KEEP_RUNS", ever, &c.Retention.Runs}, {"KEEP_LOGS", ever, &c.Retention.Logs},
		{"KEEP_DELIVERIES", ever, &c.Retention.Deliveries}, {"KEEP_EXECUTIONS", ever, &c.Retention.Executions},
		{"KEEP_DELETED", never, &c.KeepDeleted},
	} {
		age, err := landfall.ParseAge(v[keep.name])
		if err != nil {
			return badSetting(keep.name, "is %q; right would be a time such as %s", v[keep.name], keep.right)
		}
		*keep.into = age.Duration()
	}
	return nil
}

// parseS3 reads where objects are kept, unless it is the data folder.
func (c *config) parseS3(v map[string]string) error {
	insecure, err := strconv.ParseBool(v["S3_INSECURE"])
	if err != nil {
		return badSetting("S3_INSECURE", "is %q; right would be true or false", v["S3_INSECURE"])
	}
	style := s3.Style(v["S3_STYLE"])
	if !slices.Contains([]s3.Style{s3.AutoStyle, s3.PathStyle, s3.HostStyle}, style) {
		return badSetting("S3_STYLE", "is %q; right would be auto, path or host", v["S3_STYLE"])
	}
	endpoint := v["S3_ENDPOINT"]
	if endpoint == "" {
		return checkNoS3(v)
	}
	if strings.Contains(endpoint, "@") { // not shown: there may be a secret before it
		return badSetting("S3_ENDPOINT", "holds a user; right would be HOST, HOST:PORT or https://HOST, and the keys in "+
			"LANDFALL_S3_ACCESS_KEY and LANDFALL_S3_SECRET_KEY")
	}
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") &&
		strings.Trim(u.Path, "/") == "" {
		endpoint, insecure = u.Host, u.Scheme == "http"
	}
	if strings.ContainsAny(endpoint, "/ ?#") {
		return badSetting("S3_ENDPOINT", "is %q; right would be HOST, HOST:PORT or https://HOST", endpoint)
	}
	for _, name := range []string{"S3_ACCESS_KEY", "S3_SECRET_KEY"} {
		if v[name] == "" {
			return badSetting(name, "is needed with LANDFALL_S3_ENDPOINT; it may come from a file: LANDFALL_%s_FILE", name)
		}
	}
	c.S3 = s3.Config{
		Endpoint: endpoint, Bucket: v["S3_BUCKET"], Region: v["S3_REGION"], AccessKey: v["S3_ACCESS_KEY"],
		SecretKey: v["S3_SECRET_KEY"], Insecure: insecure, Style: style,
	}
	return nil
}

// checkNoS3 refuses settings of an object store that is not named: objects would go to the data folder, which nobody
// meant.
func checkNoS3(v map[string]string) error {
	var given []string
	for _, s := range settings() {
		if strings.HasPrefix(s.name, "S3_") && v[s.name] != s.def {
			given = append(given, envPrefix+s.name)
		}
	}
	if len(given) == 0 {
		return nil
	}
	return badSetting("S3_ENDPOINT",
		"is not set, and %s would be used with it alone; right would be the endpoint of the object store, "+
			"or none of them: then objects are kept in the data folder", strings.Join(given, ", "))
}

func (c *limitSettings) parseLimits(v map[string]string) error {
	return cmp.Or(
		above0(v, "MAX_PUSH", &c.MaxPush), above0(v, "MAX_COMMIT_BYTES", &c.Limits.CommitBytes),
		above0(v, "MAX_FILE_BYTES", &c.Limits.FileBytes), above0(v, "MAX_RECEIVED_BYTES", &c.Limits.ReceivedBytes),
		above0(v, "MAX_OBJECTS", &c.Limits.Objects), above0(v, "MAX_BUILD_CACHE", &c.MaxBuildCache),
		above0(v, "MAX_IMAGE_CACHE", &c.MaxImageCache), above0(v, "MAX_FUNCTION_CACHE", &c.MaxFunctions),
		above0(v, "MAX_SPEC_BYTES", &c.Specs.Bytes), above0(v, "MAX_EXECUTION_LOGS", &c.Executions.Logs),
		above0(v, "MAX_FILES", &c.Limits.Files), above0(v, "MAX_SPEC_OBJECTS", &c.Specs.Objects),
		above0(v, "MAX_SPEC_VALUES", &c.Specs.Values), above0(v, "MAX_SPEC_DEPTH", &c.Specs.Depth),
		above0(v, "MAX_EXECUTIONS", &c.Executions.Keep), above0(v, "MAX_EXECUTION_RATE", &c.Executions.Rate),
	)
}

// above0 reads a whole number above 0.
func above0[N int | int64](v map[string]string, name string, into *N) error {
	n, err := strconv.ParseInt(v[name], 10, 64)
	if err != nil || n <= 0 {
		return badSetting(name, "is %q; right would be a whole number above 0", v[name])
	}
	*into = N(n)
	return nil
}

func badSetting(name, format string, args ...any) error {
	return landfall.Errorf("config", landfall.Invalid, "%s%s %s", envPrefix, name, fmt.Sprintf(format, args...))
}
