// Package api is the REST API for people's tools and for machines, with its OpenAPI document generated from the code.
package api

//go:generate go run ../tools/openapi ../docs/openapi.json

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/connect"
	"landfall.dev/landfall/deploy"
	"landfall.dev/landfall/handmade"
	"landfall.dev/landfall/inspect"
	"landfall.dev/landfall/mux"
	"landfall.dev/landfall/parcel"
	"landfall.dev/landfall/runs"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/upkeep"
)

// Repositories are the repositories of the built-in remote.
type Repositories interface {
	Create(ctx context.Context, app, head string) error
}

// Config is what the API stands on.
type Config struct {
	DB           *store.DB
	Editor       *deploy.Editor
	Rollout      *deploy.Rollout
	Contents     *inspect.Contents
	Runs         *runs.Runs
	Acceptor     *accept.Acceptor
	Upkeep       *upkeep.Upkeep
	GitHub       *connect.Connection
	DryRun       func(ctx context.Context, app landfall.App, push landfall.Push) (inspect.Preview, error)
	Maker        *handmade.Maker
	Exporter     *parcel.Exporter
	Importer     *parcel.Importer
	Repositories Repositories // nil when the built-in remote is off
	URL          *url.URL     // of the control host
	Domain       string
	ReleaseURL   func(app string, selector landfall.UID) string
	CheckURL     func(address string) error // whether a clone address may be used
	Keeper       Keeper
	StallTimeout time.Duration // with a client that reads nothing of a backup, or of a check; 0: a minute
	// Problems returns what of the server does not work now, a line each, for who may read apps of these ids; nil: nobody
	// looks.
	Problems func(ctx context.Context, reads func(app string) bool) []string

	Queues       Queues
	Executions   Executions
	Roles        []string // of this process; empty: all
	Sandbox      string
	SandboxLacks []string
	Network      string // which functions get; empty: none run in this process
	Proxy        string // that leads out of the server's network, without its password; empty: none
	Now          func() time.Time
	Logger       *slog.Logger
}

// The paths below which the API is, and its operations. Those on the resources of Fn's document are at its bare paths,
// too.
const (
	root = "/api/"
	base = root + "v1"
	bare = "/ns"
)

// api is the server side of the API.
type api struct {
	Config

	waiters   Waiters
	answering sync.Map // the requests with keys that are being carried out
}

// now is the time as it is stored: an answer shows what a later one will.
func (a *api) now() time.Time { return a.Now().UTC().Truncate(time.Microsecond) }

// Serve adds the API to m: everything below /api/v1, /api/openapi.json, and what is below /ns once more there.
func Serve(m *mux.Mux, c Config) {
	Register(humagin.New(m.Engine, humaConfig(c.URL.String())), c)
	for _, route := range m.Routes() {
		if !strings.HasPrefix(route.Path, root) {
			continue
		}
		paths := []string{route.Path}
		below, operation := strings.CutPrefix(route.Path, base)
		if below == bare || strings.HasPrefix(below, bare+"/") {
			paths = append(paths, below)
		}
		if operation { // clients of Qinling and Fn end paths in a slash, or not
			for _, path := range paths {
				paths = append(paths, path+"/")
			}
		}
		for i, path := range paths {
			if i > 0 {
				m.Handle(route.Method, path, route.HandlerFunc)
			}
			if route.Method == http.MethodGet {
				m.HEAD(path, route.HandlerFunc)
			}
		}
	}
	for _, part := range []string{root, bare, bare + "/"} {
		m.Rest(part, http.HandlerFunc(unrouted))
	}
}

// unrouted answers what is no operation.
func unrouted(w http.ResponseWriter, r *http.Request) {
	status, h := http.StatusNotFound, w.Header()
	if h.Get("Allow") != "" {
		status = http.StatusMethodNotAllowed
	}
	p := problem{Title: http.StatusText(status), Status: status, Kind: landfall.NotFound.String(), Detail: fmt.Sprintf(
		"there is no %s %s; /api/openapi.json says what there is", r.Method, r.URL.Path)}
	h.Set("Content-Type", p.ContentType(""))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if text, err := json.Marshal(p); err == nil {
		_, _ = w.Write(text) // the client may be gone
	}
}

func humaConfig(server string) huma.Config {
	config := huma.DefaultConfig("Landfall", "1")
	config.OpenAPIPath = "/api/openapi"
	config.DocsPath = ""
	config.SchemasPath = "/api/schemas"
	config.CreateHooks = nil // no $schema in answers
	config.Info.Description = "Every push becomes an immutable release with an address of its own."
	if server != "" {
		config.Servers = []*huma.Server{{URL: server}}
	}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	config.Security = []map[string][]string{{"token": {}}}
	return config
}

// Register adds every operation to h.
func Register(h huma.API, c Config) {
	a := &api{Config: c}
	h.UseMiddleware(a.authenticate(h), a.once(h))
	a.registerApps(h)
	a.registerDeliveries(h)
	a.registerHistory(h)
	a.registerRuns(h)
	a.registerReleases(h)
	a.registerReleaseCanaries(h)
	a.registerVersions(h)
	a.registerEnvironments(h)
	a.registerAliases(h)
	a.registerFunctionTags(h)
	a.registerFiles(h)
	a.registerKeeping(h)
	a.registerMessages(h)
	a.registerTriggers(h)
	a.registerCanaries(h)
	a.registerSecrets(h)
	a.registerExecutions(h)
	a.registerJobs(h)
	a.registerWebhooks(h)
	a.registerNamespaces(h)
	a.registerUploads(h)
	a.registerTokens(h)
	a.registerPlans(h)
	a.registerGitHub(h)
	a.registerParcels(h)
	describeKind(h)
}

// describeKind adds to the problems of the document what the framework's do not have: see problem.
func describeKind(h huma.API) {
	kind := &huma.Schema{Type: huma.TypeString,
		Description: "What is wrong, for programs; absent when a body or parameter does not fit this document."}
	for _, k := range landfall.Kinds() {
		kind.Enum = append(kind.Enum, k.String())
	}
	h.OpenAPI().Components.Schemas.Map()["ErrorModel"].Properties["kind"] = kind
}

// Document returns the OpenAPI document as JSON.
func Document() ([]byte, error) { return described().MarshalJSON() }

// Document30 returns the OpenAPI document in version 3.0, as JSON, for generators that do not know 3.1.
func Document30() ([]byte, error) { return described().Downgrade() }

func described() *huma.OpenAPI {
	h := humagin.New(mux.New(slog.Default()).Engine, humaConfig(""))
	Register(h, Config{})
	return h.OpenAPI()
}

// operation describes one operation. Every operation names the scope that it needs: there is none without.
type operation struct {
	id, method, path, summary string
	scope                     landfall.Scope
	status                    int                        // of success; 0: 200
	most                      int64                      // bytes of a body; 0: 1 MiB
	types                     map[string]*huma.MediaType // of the answer, where the handler's type does not say them
	makes                     string                     // something, and it takes a key: see making
}

func reading(id, path, summary string) operation {
	return operation{id: id, method: http.MethodGet, path: path, summary: summary, scope: landfall.ScopeRead}
}

func invoking(id, method, path, summary string) operation {
	return operation{id: id, method: method, path: path, summary: summary, scope: landfall.ScopeInvoke}
}

func deploying(id, method, path, summary string) operation {
	return operation{id: id, method: method, path: path, summary: summary, scope: landfall.ScopeDeploy}
}

func administering(id, method, path, summary string) operation {
	return operation{id: id, method: method, path: path, summary: summary, scope: landfall.ScopeAdmin}
}

// answering sets the status of success.
func (o operation) answering(status int) operation {
	o.status = status
	return o
}

// taking sets how many bytes a body may have.
func (o operation) taking(most int64) operation {
	o.most = most
	return o
}

// content sets of which types the answer may be.
func (o operation) content(types map[string]*huma.MediaType) operation {
	o.types = types
	return o
}

const scopeKey = "scope"

func register[I, O any](h huma.API, op operation, handler func(context.Context, *I) (*O, error)) {
	var responses map[string]*huma.Response
	if op.types != nil {
		responses = map[string]*huma.Response{strconv.Itoa(http.StatusOK): {Description: http.StatusText(http.StatusOK),
			Content: op.types}}
	}
	described := huma.Operation{
		OperationID: op.id, Method: op.method, Path: base + op.path, Summary: op.summary, DefaultStatus: op.status,
		Metadata: map[string]any{scopeKey: op.scope, makingKey: op.makes}, MaxBodyBytes: op.most, Responses: responses,
	}
	if op.makes != "" {
		takesKey(&described)
	}
	huma.Register(h, described, func(ctx context.Context, in *I) (*O, error) {
		out, err := handler(ctx, in)
		if err != nil {
			return nil, toHTTP(err)
		}
		return out, nil
	})
}

// finder is the path of a request: find returns what it names when the token has the scope on it.
type finder[R, T any] interface {
	find(ctx context.Context, r R, scope landfall.Scope) (T, error)
}

// registerOn is register for an operation on one thing, which handler gets when the token has the operation's scope on
// it.
func registerOn[R, T, O any, I finder[R, T]](r R, h huma.API, op operation,
	handler func(context.Context, T, *I) (*O, error)) {
	register(h, op, func(ctx context.Context, in *I) (*O, error) {
		found, err := (*in).find(ctx, r, op.scope)
		if err != nil {
			return nil, err
		}
		return handler(ctx, found, in)
	})
}

// body is an answer with a JSON body.
type body[T any] struct{ Body T }

func answer[T any](v T, err error) (*body[T], error) {
	if err != nil {
		return nil, err
	}
	return &body[T]{v}, nil
}

// page is one page of a list.
type page[T any] struct {
	Items []T    `json:"items" nullable:"false"`
	Next  string `json:"next,omitempty" doc:"give it as cursor to get the next page; absent on the last"`
}

// listOf shows all items of a list as one page.
func listOf[T, S any](items []T, show func(T) S) page[S] {
	p := page[S]{Items: make([]S, 0, len(items))}
	for _, item := range items {
		p.Items = append(p.Items, show(item))
	}
	return p
}

// pageOf makes a page of what was read with a limit of one more than asked for.
func pageOf[T any](items []T, limit int, cursor func(T) string) page[T] {
	p := page[T]{Items: items}
	if len(items) > limit {
		p.Items = items[:limit]
		p.Next = cursor(items[limit-1])
	}
	if p.Items == nil {
		p.Items = []T{}
	}
	return p
}
