package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/cli"
	"landfall.dev/landfall/test/testkit"
)

var update = flag.Bool("update", false, "write what the scripts' cmp found into the scripts")

// In scripts `landfall` is this program. So are the processes of the sandbox.
func TestMain(m *testing.M) {
	if code, handled := Forward(os.Args[1:]); handled {
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){"landfall": program})
}

// program is what main is.
func program() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	c := &cli.Call{Program: CommandLine(""), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
		Environ: os.Environ()}
	code := c.Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// Scripts tell stories with the command line, real git and a real server. Beside the commands of testscript they have:
//
//	server [NAME=VALUE…]        start a server with settings; sets SERVER, PORT, TOKEN, GIT (where to push)
//	seed FOLDER TO              copy FOLDER of testdata/specs to TO
//	commit MESSAGE              commit everything in the current folder
//	capture NAME [PATH]         set a variable to the last output, or to what stands at PATH in its JSON
//	names NAME…                 the uids of the app versions, in the order in which they were made, are called so from here
//	status CODE COMMAND ARG…    run, and check the exit code
//	http [-status N] [-header] [-public] URL [TEXT]   GET; check the status (200), and that TEXT is in the body
//	json PATH [VALUE]           check what stands at PATH in the JSON of the last output: a.0.b, and a.len
//	named                       make the last output one with uids, commits, digests and times by their names, for cmp
//	expect FILE                 the same, and compare it with FILE: JSON by its values, of groups functions and packages
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("..", "testdata", "script"),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, ".home")
			for name, value := range map[string]string{
				"HOME": home, "XDG_CONFIG_HOME": "", "TZ": "UTC", "LC_ALL": "C",
				"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0",
				"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.com",
				"GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "ada@example.com",
				"GIT_CEILING_DIRECTORIES": filepath.Dir(env.WorkDir), "GORACE": os.Getenv("GORACE"),
			} {
				env.Setenv(name, value)
			}
			env.Values[storyKey{}] = &story{}
			return os.MkdirAll(home, 0o700)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"server": runServer, "seed": seed, "commit": commit, "capture": capture, "names": nameUIDs,
			"status": checkStatus, "http": checkHTTP, "json": checkJSON, "named": named, "expect": checkExpected,
			"eventually": eventually,
		},
	})
}

// story is what a script keeps between its commands.
type story struct {
	client *client.Client
	names  []string // of the uids, in the order in which they were made
}

type storyKey struct{}

func storyOf(ts *testscript.TestScript) *story {
	s, ok := ts.Value(storyKey{}).(*story)
	if !ok {
		ts.Fatalf("the script has no story")
	}
	return s
}

// usage ends a script that gives a command other arguments than it takes.
func usage(ts *testscript.TestScript, neg, ok bool, text string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", text)
	}
}

func runServer(ts *testscript.TestScript, neg bool, args []string) {
	settings := map[string]string{"DATA": ts.MkAbs(filepath.Join(ts.Getenv("WORK"), ".landfall")), "LISTEN": "127.0.0.1:0"}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		usage(ts, neg, ok, "server [NAME=VALUE…]")
		settings[name] = value
	}
	config, err := loadConfig(defaultConfigFile, func(string) string { return "" }, settings)
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	log, err := os.Create(filepath.Join(ts.Getenv("WORK"), ".server.log"))
	ts.Check(err)
	s, err := newServer(ctx, config, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		cancel()
		ts.Fatalf("the server does not start: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	ts.Defer(func() {
		cancel()
		if err := errors.Join(<-ended, s.Close(), log.Close()); err != nil {
			ts.Fatalf("the server ended with: %v", err)
		}
	})
	address := s.config.URL.String()
	storyOf(ts).client = &client.Client{URL: address, Token: s.config.Token}
	for name, value := range map[string]string{
		"SERVER": address, "PORT": s.config.URL.Port(), "TOKEN": s.config.Token, "LANDFALL_SERVER": address,
		"LANDFALL_TOKEN": s.config.Token, "GIT": address + "/git",
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http." + address + "/git/.extraHeader",
		"GIT_CONFIG_VALUE_0": "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("ada:"+s.config.Token)),
	} {
		ts.Setenv(name, value)
	}
}

func seed(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "seed FOLDER TO")
	root, err := filepath.Abs(filepath.Join("..", "testdata", "specs", args[0]))
	ts.Check(err)
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), os.DirFS(root)))
}

func commit(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "commit MESSAGE")
	ts.Check(ts.Exec("git", "add", "--all"))
	ts.Check(ts.Exec("git", "commit", "--quiet", "--message", args[0]))
}

func nameUIDs(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) > 0, "names NAME…")
	storyOf(ts).names = args
}

func checkStatus(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) > 1, "status CODE COMMAND ARG…")
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("got exit code %d, want %d\n%s%s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// eventually asks with a command until a line of its output is what it should be.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) > 1, "eventually PATTERN COMMAND ARG…")
	wanted, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for late := time.After(testkit.Patience); ; {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if wanted.MatchString(ts.ReadFile("stdout")) {
			return
		}
		select {
		case <-again.C:
		case <-late:
			ts.Fatalf("nothing is like %s in\n%s", args[0], ts.ReadFile("stdout"))
		}
	}
}

func checkHTTP(ts *testscript.TestScript, neg bool, args []string) {
	flags := flag.NewFlagSet("http", flag.ContinueOnError)
	status := flags.Int("status", http.StatusOK, "")
	header := flags.Bool("header", false, "")
	public := flags.Bool("public", false, "")
	soon := flags.Bool("soon", false, "") // other processes, and apps that a change reached by the way, hear of it later
	if err := flags.Parse(args); err != nil || flags.NArg() < 1 || flags.NArg() > 2 {
		ts.Fatalf("usage: http [-status N] [-header] [-public] [-soon] URL [TEXT]")
	}
	address, s := flags.Arg(0), storyOf(ts)
	request, err := http.NewRequest(http.MethodGet, address, nil)
	ts.Check(err)
	if !*public && strings.HasPrefix(address, s.client.URL+"/") {
		request.Header.Set("Authorization", "Bearer "+s.client.Token)
	}
	ask := func() (*http.Response, []byte) {
		resp, err := (&http.Client{Transport: client.LocalTransport()}).Do(request)
		ts.Check(err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		ts.Check(err)
		return resp, body
	}
	resp, body := ask()
	for late := time.Now().Add(testkit.Patience); *soon && resp.StatusCode != *status && time.Now().Before(late); {
		resp, body = ask()
	}
	if *header {
		ts.Check(resp.Header.Write(ts.Stdout()))
	}
	_, err = ts.Stdout().Write(body)
	ts.Check(err)
	if resp.StatusCode != *status {
		ts.Fatalf("GET %s: got status %d, want %d\n%s", address, resp.StatusCode, *status, body)
	}
	if want := flags.Arg(1); flags.NArg() == 2 && strings.Contains(string(body), want) == neg {
		ts.Fatalf("GET %s: got %q, want with %q: %v", address, body, want, !neg)
	}
}

func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: json PATH [VALUE]")
	}
	got, ok := at(ts, args[0])
	if ok && len(args) == 2 {
		ok = got == args[1] || calledBy(ts, got) == args[1]
	}
	if ok == neg {
		ts.Fatalf("got %q at %s, want %q: %v\n%s", got, args[0], args[1:], !neg, ts.ReadFile("stdout"))
	}
}

func capture(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1 || len(args) == 2, "capture NAME [PATH]")
	if len(args) == 1 {
		ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
		return
	}
	got, ok := at(ts, args[1])
	if !ok {
		ts.Fatalf("nothing is at %s in\n%s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], got)
}

// at returns what stands at a path in the JSON of the last output, as text.
func at(ts *testscript.TestScript, path string) (string, bool) {
	var v any
	decoder := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		ts.Fatalf("the last output is no JSON: %v\n%s", err, ts.ReadFile("stdout"))
	}
	for name := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = at[name]; !ok {
				return "", false
			}
		case []any:
			if name == "len" {
				return strconv.Itoa(len(at)), true
			}
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(at) {
				return "", false
			}
			v = at[i]
		default:
			return "", false
		}
	}
	if text, ok := v.(string); ok {
		return text, true
	}
	text, err := json.Marshal(v)
	ts.Check(err)
	return string(text), true
}

var (
	commitText = regexp.MustCompile(`\b[0-9a-f]{40}\b`)
	digestText = regexp.MustCompile(`\bsha256:[0-9a-f]{64}\b`)
	timeText   = regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?\b`)
)

// calledBy returns text with the uids of all app versions by their names, and what else differs from run to run by a
// word.
func calledBy(ts *testscript.TestScript, text string) string {
	s := storyOf(ts)
	apps, err := client.List[client.App](context.Background(), s.client, "/apps", nil)
	ts.Check(err)
	var all []client.Group
	for _, app := range apps {
		groups, err := client.List[client.Group](context.Background(), s.client, "/apps/"+app.Name+"/groups", nil)
		ts.Check(err)
		all = append(all, groups...)
	}
	slices.SortFunc(all, func(a, b client.Group) int { return a.Created.Compare(b.Created) })
	text = commitText.ReplaceAllString(text, "<git_commit_sha>")
	text = digestText.ReplaceAllString(text, "<digest>")
	text = timeText.ReplaceAllString(text, "<time>")
	for i, g := range all {
		if name := fmt.Sprintf("uid%d", i+1); i < len(s.names) {
			text = strings.ReplaceAll(text, string(g.UID), s.names[i])
		} else {
			text = strings.ReplaceAll(text, string(g.UID), name)
		}
		text = regexp.MustCompile(`\b`+g.Commit.Short()+`\b`).ReplaceAllString(text, "<commit>")
	}
	return strings.ReplaceAll(text, ":"+ts.Getenv("PORT"), ":PORT")
}

func named(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 0, "named")
	_, err := io.WriteString(ts.Stdout(), calledBy(ts, ts.ReadFile("stdout")))
	ts.Check(err)
}

// checkExpected compares JSON by its values. The objects of a group are compared as a set, and only functions and
// packages: the documents know no others.
func checkExpected(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "expect FILE")
	got, want := canonical(calledBy(ts, ts.ReadFile("stdout"))), canonical(calledBy(ts, ts.ReadFile(args[0])))
	if got != want {
		ts.Fatalf("got:\n%s\nwant, as in %s:\n%s", got, args[0], want)
	}
}

func canonical(text string) string {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return text
	}
	if group, ok := v.(map[string]any); ok {
		if spec, ok := group["spec"].(map[string]any); ok {
			if objects, ok := spec["objects"].([]any); ok {
				spec["objects"] = functionsAndPackages(objects)
			}
		}
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return text
	}
	return b.String()
}

func functionsAndPackages(objects []any) []any {
	objects = slices.DeleteFunc(objects, func(o any) bool {
		object, ok := o.(map[string]any)
		return !ok || (object["type"] != "function" && object["type"] != "package")
	})
	slices.SortFunc(objects, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return objects
}
