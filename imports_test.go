package landfall_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module  = "landfall.dev/landfall"
	root    = "."
	testkit = "test/testkit"
)

// room is one package and the rooms of ours that it imports, separated by blanks. The vocabulary (the root) is open to
// every room, and testkit to every test; they are not listed.
type room struct {
	folder  string
	imports string
	tests   string // what only its tests import
}

// rooms is the import graph: a new room, and a new arrow between two, is a reviewed line here. Data flow is not import
// flow: the stages of delivery do not know each other; pipeline alone knows their order.
func rooms() []room {
	return []room{
		{root, "", ""},

		// The doors.
		{"auth", "", "store store/storetest"},
		{"trace", "", "logtest"},
		{"webhook", "", "logtest"},
		{"remote", "auth", "logtest"},

		// A commit becomes a release.
		{"cron", "", ""},
		{"contract", "event", ""},
		{"route", "", ""},
		{"spec", "contract cron event route secret", ""},
		{"outbound", "", "outbound/proxytest"},
		{"outbound/proxytest", "", ""},
		{"builder", "builder/pack outbound secret tree", "builder/sshtest"},
		{"builder/sshtest", "", ""},
		{"builder/pack", "", ""},
		{"download", "builder", ""},
		{"sandbox", "outbound sandbox/inner", "logtest outbound/proxytest"},
		{"sandbox/inner", "", ""},
		{"versioning", "store", "store/storetest"},
		{"assets", "", "assets/disk assets/assetstest"},
		{"assets/disk", "assets", "assets/assetstest"},
		{"assets/s3", "assets", "assets/assetstest assets/s3/s3test"},
		{"assets/s3/s3test", "assets/s3 porttest", ""},
		{"assets/assetstest", "assets", ""},
		{"deploy", "canary secret store spec versioning", "store/storetest"},
		{"tree", "", ""},
		{"unpack", "tree", ""},
		{"artifact", "builder tree unpack", ""},
		{"preflight", "artifact assets builder environment spec tree", ""},
		{"inspect", "assets builder spec store versioning", "assets/disk store/storetest"},
		{"runs", "crashpoint deploy inspect store", "accept/accepttest"},
		{"accept", "builder crashpoint deploy remote runs secret store trace webhook spec", "accept/accepttest store/storetest"},
		{"accept/accepttest", "accept builder deploy inspect remote runs secret store store/storetest webhook", ""},
		{"handmade", "accept artifact assets builder deploy download environment preflight remote spec store unpack versioning", ""},
		{"parcel", "artifact assets crashpoint deploy environment secret spec store unpack versioning", "assets/disk store/storetest"},
		{"upkeep", "assets builder crashpoint deploy runs store versioning", "accept/accepttest remote spec store/storetest"},
		{"canary", "spec store versioning", "deploy store/storetest"},
		{"jobs", "accept canary deploy pipeline runs store upkeep", "accept/accepttest builder remote store/storetest"},
		{"pipeline", "builder contract environment event spec versioning assets deploy secret store crashpoint trace tree " +
			"accept inspect runs outbound sandbox artifact preflight download unpack", "store/storetest assets/disk"},
		{"github", "crashpoint trace", "github/githubtest logtest"},
		{"connect", "github secret store webhook", "logtest github/githubtest store/storetest"},
		{"github/githubtest", "", ""},

		// A visitor or an event gets an answer.
		{"event", "", ""},
		{"environment", "environment/container environment/go/source event spec",
			"runtime/runner sandbox runtime/wasm runtime/function"},
		{"environment/container", "secret", ""},
		{"environment/go/adaptor", "", ""},
		{"environment/go/adapt", "environment/go/source", ""},
		{"environment/go/source", "", ""},
		{"wire", "", ""},
		{"runtime/function", "contract event runtime/registry", ""},
		{"runtime/registry", "route", ""},
		{"runtime/registry/stored", "assets canary runtime/images runtime/registry secret spec store versioning", "store/storetest"},
		{"runtime/host", "environment event runtime/images runtime/invoke runtime/packages runtime/registry " +
			"runtime/runner sandbox secret spec runtime/function", ""},
		{"runtime/images", "wire auth", ""},
		{"runtime/invoke", "auth contract event runtime/images runtime/registry runtime/function", "logtest"},
		{"runtime/execution", "contract crashpoint cron event runtime/runner store trace runtime/function runtime/registry",
			"store/storetest"},
		{"runtime/packages", "unpack", ""},
		{"runtime/gateway/page", "", ""},
		{"runtime/gateway/hostname", "", ""},
		{"runtime/gateway/access", "auth runtime/gateway/hostname runtime/gateway/page", ""},
		{"runtime/gateway/functions", "contract event runtime/function runtime/gateway/access runtime/gateway/hostname " +
			"runtime/gateway/page runtime/registry runtime/trigger trace wire", ""},
		{"runtime/gateway/files", "assets runtime/gateway/page runtime/registry wire", ""},
		{"runtime/gateway/split", "runtime/gateway/access runtime/gateway/page runtime/registry", ""},
		{"runtime/gateway", "runtime/gateway/split runtime/registry trace runtime/function runtime/gateway/files runtime/gateway/page " +
			"runtime/gateway/access runtime/gateway/functions runtime/gateway/hostname",
			"logtest sandbox contract event runtime/runner wire"},
		{"runtime/rpc", "auth event runtime/invoke runtime/runner secret runtime/function",
			"logtest sandbox runtime/trigger runtime/registry"},
		{"runtime/runner", "event sandbox secret runtime/wasm runtime/function", "runtime/wasm/wasmtest"},
		{"runtime/trigger/queue", "contract crashpoint event runtime/registry runtime/function",
			"logtest runtime/trigger/queue/natstest"},
		{"runtime/trigger/queue/natstest", "porttest", ""},
		{"runtime/trigger", "contract event runtime/registry trace runtime/function", ""},
		{"runtime/trigger/schedule", "crashpoint cron event runtime/registry store runtime/function",
			"logtest store/storetest"},
		// What neither of them may tell.
		{"secret", "", ""},
		{"runtime/wasm", "", "runtime/wasm/wasmtest"},
		{"runtime/wasm/wasmtest", "", ""},

		// What operators watch.
		{"metrics", "runtime/execution runtime/registry runtime/trigger store webhook runtime/gateway/files", "logtest"},

		// What they stand on, and what stands on them.
		{"store", "crashpoint", "logtest store/storetest"},
		{"fsck", "assets secret store versioning", "assets/disk deploy store/storetest"},
		{"backup", "assets store", "assets/disk remote store/storetest"},
		{"store/storetest", "porttest store", ""},
		{"crashpoint", "", ""},
		{"heap", "", ""},
		{"logtest", "", ""},
		{"porttest", "", ""},
		{"mux", "", "logtest"},
		{"api", "api/client auth canary connect deploy github secret spec store versioning webhook accept inspect runs upkeep cron mux handmade parcel",
			"assets assets/disk builder remote store/storetest jobs pipeline"},
		{"api/client", "", ""},
		{"web", "api api/client auth connect store mux", "deploy inspect runs"},
		{"cli", "api/client assets contract environment event secret spec preflight", ""},
		{
			"server",
			"auth canary cli connect webhook remote spec builder outbound contract sandbox assets assets/disk assets/s3 backup fsck " +
				"pipeline github environment environment/container runtime/registry runtime/registry/stored runtime/gateway " +
				"runtime/host runtime/images runtime/invoke runtime/packages runtime/runner runtime/trigger metrics store api " +
				"web runtime/trigger/schedule runtime/trigger/queue secret runtime/execution runtime/wasm trace accept deploy " +
				"inspect jobs runs upkeep heap runtime/function runtime/rpc runtime/gateway/files wire mux handmade parcel " +
				"runtime/gateway/split runtime/gateway/access runtime/gateway/hostname",
			"logtest store/storetest test/forge test/site api/client",
		},

		// Main joins the two to one program, and does nothing else.
		{"cmd/landfall", "cli server", ""},
		{"cmd/landfall-init", "sandbox/inner", ""},

		// One main for each role.
		{"cmd/role", "", ""},
		{"cmd/landfall-api", "cmd/role", ""},
		{"cmd/landfall-webhook", "cmd/role", ""},
		{"cmd/landfall-pipeline", "cmd/role", ""},
		{"cmd/landfall-gateway", "cmd/role", ""},
		{"cmd/landfall-trigger", "cmd/role", ""},
		{"cmd/landfall-router", "cmd/role", ""},
		{"cmd/landfall-runner", "cmd/role", ""},
		{"cmd/landfall-registry", "cmd/role", ""},

		// Stories of people, with the program as it is built, and what they are told with.
		{"test/testkit", "", ""},
		{"test/site", "api/client assets assets/disk assets/s3 assets/s3/s3test logtest porttest store store/storetest", ""},
		{"test/machine", "test/site", ""},
		{"test/forge", "api/client builder/sshtest github/githubtest test/site", ""},
		{"test/browser", "test/site", ""},
		{"test/restclient", "", "test/site"},
		{"test/push", "", "api/client test/forge test/site"},
		{"test/webhook", "", "api/client github/githubtest test/forge test/site"},
		{"test/function", "", "api/client backup environment github/githubtest outbound/proxytest remote " +
			"runtime/trigger/queue/natstest runtime/wasm/wasmtest secret store store/storetest test/forge test/machine test/site"},
		{"test/crash", "", "api/client assets cli crashpoint runs store test/forge test/site"},
		{"test/fault", "", "api/client assets/s3/s3test store/storetest test/forge test/machine test/site"},
		{"test/roles", "",
			"logtest runtime/trigger/queue/natstest runtime/wasm/wasmtest secret test/forge test/machine test/site"},
		{"test/pages", "", "api/client test/browser test/forge test/site runtime/gateway/access"},
		{"test/history", "", "accept assets builder deploy pipeline remote runs runtime/registry runtime/registry/stored secret " +
			"store store/storetest upkeep versioning"},
		{"test/soak", "", "api/client store/storetest test/forge test/site"},

		// What the Makefile needs.
		{"tools/conformance", "", ""},
		{"tools/demo", "", ""},
		{"tools/image", "", ""},
		{"tools/openapi", "api", ""},
		{"tools/testreport", "", ""},
		{"tools/testservers", "assets/s3/s3test store/storetest", ""},
	}
}

// every, as an owner, is every room.
const every = "*"

// library is a library of others, with all packages below its path, and the rooms that import it.
type library struct {
	path   string
	owners string
	tests  string // rooms of which only the tests import it
	reason string
}

// libraries says who owns what: a new library, and a new place for a known one, is a reviewed line here. Of the
// standard library only what is listed is restricted. Where two entries fit, the longer path counts.
func libraries() []library {
	return []library{
		{"database/sql", "store store/storetest", "", "SQL has one place"},
		{"log", "", "", "the log is log/slog"},
		{"log/slog", every, "", "written by the edges only"},
		{"net/http/cgi", "remote test/forge", every, "the remote is git's own http-backend"},
		{"os/exec", "accept/accepttest remote builder builder/sshtest sandbox store/storetest assets/s3/s3test " +
			"runtime/trigger/queue/natstest cli runtime/wasm test/site test/forge test/machine tools/testservers", every,
			"processes start where their arguments are typed, or in the sandbox"},
		{"unsafe", "environment/go/adaptor", "", "system calls that Go's scheduler need not watch; nothing else needs it"},

		{"filippo.io/age", "secret", "", "secrets are sealed in one room"},
		{"github.com/andybalholm/brotli", "runtime/gateway/files", "runtime/gateway server",
			"compressed at the edge, once per digest"},
		{"github.com/bmatcuk/doublestar", "spec accept assets builder pipeline", "", "the globs of the specs"},
		{"github.com/chromedp", "test/browser", "test/pages", "pages are looked at in a browser"},
		{"github.com/tetratelabs/wazero", "runtime/wasm", "", "WebAssembly without another program, and without C"},
		{"github.com/cloudevents/sdk-go", "event", "test/function", "CloudEvents are read and written by their own library"},
		{"github.com/danielgtaylor/huma", "api", "server", "REST is described by its code"},
		{"github.com/gin-gonic/gin", "mux server", "", "one router for the control host"},
		{"github.com/getkin/kin-openapi", "github/githubtest", "api github",
			"requests are checked against published descriptions"},
		{"github.com/go-logr/logr", "trace", "", "what the SDK of OpenTelemetry logs by"},
		{"github.com/go-git", "builder builder/pack", "remote pipeline server", "repositories are read in one room"},
		{"github.com/go-json-experiment/json", "webhook api event", "",
			"payloads are read in a quarter of the time, and pages of versions shown"},
		{"github.com/google/go-cmp", testkit, every, "differences that a person can read"},
		{"github.com/google/go-containerregistry", "environment/container parcel runtime/images tools/image", "test/function",
			"container images without a daemon"},
		{"github.com/google/go-github", "github", "github/githubtest", "GitHub's language is spoken at the border"},
		{"github.com/google/uuid", ". accept/accepttest canary store sandbox runtime/runner runtime/gateway/functions " +
			"runtime/invoke runtime/trigger runs api server cli cmd/landfall runtime/trigger/queue runtime/trigger/schedule " +
			"runtime/execution runtime/function runtime/rpc", every, "what uids are made of"},
		{"github.com/hashicorp/golang-lru", "contract runtime/rpc runtime/gateway/files runtime/images", "",
			"caches with a bound"},
		{"github.com/klauspost/compress", "accept backup builder/pack", "",
			"backups and payloads are zstd; git's objects are inflated in two thirds of the time"},
		{"github.com/jackc/pgx", "store store/storetest", "", "the database of many processes"},
		{"github.com/landlock-lsm/go-landlock", "sandbox/inner", "",
			"the kernel's own project keeps it, and nothing here needs unsafe"},
		{"github.com/minio/minio-go", "assets/s3", "", "the S3 API is spoken in one room"},
		{"github.com/nats-io", "runtime/trigger/queue", "", "the messages of apps are in one room"},
		{"github.com/oapi-codegen/runtime", "test/restclient", "", "what the generated client is made with"},
		{"github.com/pressly/goose", "store", "", "the migrations"},
		{"github.com/prometheus", "metrics", "server", "what Prometheus reads"},
		{"github.com/riverqueue", "store", "", "durable jobs are rows of the same database"},
		{"github.com/robfig/cron", "cron", "", "cron expressions are read as Fission reads them"},
		{"github.com/rogpeppe/go-internal", "", "server", "scripts that drive the command line"},
		{"github.com/santhosh-tekuri/jsonschema", "contract", "",
			"JSON Schema is read by the library that its own test suite knows best"},
		{"github.com/spf13", "cli server", "", "the command line"},
		{"go.opentelemetry.io/otel", "trace", "", "spans are made in one room"},
		{"go.opentelemetry.io/proto", "trace", "test/function", "what spans are sent as"},
		{"google.golang.org/protobuf", "trace", "test/function", "what spans are sent as"},
		{"go.yaml.in/yaml", "spec cli server", "metrics", "yaml is the specs' and the configuration's"},
		{"sigs.k8s.io/yaml", "cli", "",
			"answers of the API are written as Kubernetes writes them; it reads YAML 1.1, so specs are not read with it"},
		{"golang.org/x/crypto/ssh", "builder builder/sshtest", "", "repositories are read by ssh in one room"},
		{"golang.org/x/crypto/x509roots", "tools/image", "", "whom an image trusts that has no system"},
		{"golang.org/x/net", "webhook github builder outbound sandbox sandbox/inner runtime/gateway/functions trace", "",
			"what net/http leaves out, and the assembler of filters"},
		{"golang.org/x/sync", every, "", "goroutines with an end"},
		{"golang.org/x/sys", "sandbox sandbox/inner runtime/runner runtime/wasm remote store assets/disk backup server " +
			"store/storetest test/site test/machine", "cli", "system calls that the standard library leaves out"},
		{"golang.org/x/mod", "cli", "", "labels that are semantic versions"},
		{"golang.org/x/term", "cli", "", "only the command line has a terminal"},
		{"golang.org/x/time", "webhook github api web runtime/execution trace", "", "rates"},
		{"modernc.org", "store", "", "the embedded database"},
		{"pgregory.net/rapid", "", every, "inputs that nobody thought of"},
	}
}

// unspeaking are names that do not say what is in a room.
func unspeaking() []string {
	return []string{"base", "common", "core", "helper", "helpers", "manager", "model", "models", "type", "types",
		"util", "utils"}
}

// The import graph is the one that is written down, in both directions.
func TestRooms(t *testing.T) {
	t.Parallel()
	unused := map[string]string{} // folder to the arrows that nothing used yet
	listed := map[string]room{}
	for _, r := range rooms() {
		listed[r.folder], unused[r.folder] = r, r.imports+" "+r.tests
		if slices.Contains(unspeaking(), path.Base(r.folder)) {
			t.Errorf("%s: what has no name of its own has no room", r.folder)
		}
	}
	seen := map[string]bool{}
	for _, f := range sources(t) {
		r, ok := listed[f.room()]
		if !ok {
			t.Errorf("%s: room %s is not on the list", f.path, f.room())
			continue
		}
		seen[r.folder] = true
		for _, name := range f.imports {
			to, ours := strings.CutPrefix(name+"/", module+"/")
			if to = strings.TrimSuffix(to, "/"); !ours || to == "" || to == r.folder {
				continue
			}
			if to == testkit && (f.isTest() || strings.HasPrefix(r.folder, "test/")) {
				continue
			}
			unused[r.folder] = without(unused[r.folder], to)
			// E-004: a component knows of others only what is written down
			if !has(r.imports, to) && (!f.isTest() || !has(r.tests, to)) {
				t.Errorf("%s: %s may not import %s", f.path, r.folder, to)
			}
		}
	}
	for _, r := range rooms() {
		if !seen[r.folder] {
			t.Errorf("%s: there is no such room; take it off the list", r.folder)
		} else if arrows := strings.TrimSpace(unused[r.folder]); arrows != "" {
			t.Errorf("%s does not import %s; take it off the list", r.folder, arrows)
		}
	}
}

// Each outside library is imported by its owners only, and is on the list.
func TestLibraries(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		for _, name := range f.imports {
			var l library
			for _, candidate := range libraries() {
				if strings.HasPrefix(name+"/", candidate.path+"/") && len(candidate.path) > len(l.path) {
					l = candidate
				}
			}
			host, _, _ := strings.Cut(name, "/")
			switch {
			case l.path == "" && strings.Contains(host, ".") && host != path.Dir(module):
				t.Errorf("%s: library %s is not on the list", f.path, name)
			case l.path == "" || has(l.owners, f.room()) || (f.isTest() && has(l.tests, f.room())):
			default:
				t.Errorf("%s: %s may not import %s (%s)", f.path, f.room(), name, l.reason)
			}
		}
	}
}

// source is one Go file of the module.
type source struct {
	path    string
	imports []string
}

func (s source) room() string { return path.Dir(s.path) }
func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// sources reads the imports of every Go file of the module, whatever its build constraints.
func sources(t *testing.T) []source {
	t.Helper()
	tree := os.DirFS(".")
	var found []source
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := fs.Stat(tree, path.Join(name, "go.mod"))
			if name != root && (nested == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		s := source{path: name}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, imported)
		}
		found = append(found, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// has reports whether the list, words separated by blanks, names the room.
func has(list, room string) bool {
	words := strings.Fields(list)
	return slices.Contains(words, room) || slices.Contains(words, every)
}

// without returns the list without the room.
func without(list, room string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(list), func(word string) bool { return word == room }), " ")
}
