package githubtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// Fault is an unusual answer. Unless Close or Hang is set, it has a Status.
type Fault struct {
	Status  int
	Header  map[string]string
	Body    string // empty: a message as GitHub writes it
	Written bool   // the request is done first: only its answer is lost
	Close   bool   // the connection ends without an answer
	Hang    bool   // the server does not answer until the client gives up
}

// Server answers as GitHub does. Its methods can be called while it serves.
type Server struct {
	URL string // the API's base address, with a slash at its end

	description *Description
	token       string

	mu          sync.Mutex
	requests    int
	faults      map[int]Fault
	statuses    []Status
	comments    []Comment
	reactions   []Reaction
	roles       map[roleKey]string
	asked       map[roleKey]int
	labels      map[labelKey][]string
	issued      int64 // ids of comments
	problems    []string
	limits      limits
	hooks       hooks
	deployments deployments
	apps        apps
	checks      []CheckRun
	renamed     map[string]int64            // old names of repositories (owner/name in lower case), and their IDs
	pulls       map[string][]map[string]any // as GitHub shows them, by owner/name
	// of how many commits the pull requests were asked for
	pullQuestions int
}

// New starts a server that accepts the token. It is closed when the test ends, and the test fails if a request was not
// valid by GitHub's description.
func New(tb testing.TB, description *Description, token string) *Server {
	tb.Helper()
	s := &Server{description: description, token: token, faults: map[int]Fault{}, roles: map[roleKey]string{},
		asked:  map[roleKey]int{},
		labels: map[labelKey][]string{}}
	server := httptest.NewServer(s)
	s.URL = server.URL + "/"
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		for _, problem := range s.Problems() {
			tb.Error(problem)
		}
	})
	return s
}

// Fail gives the n-th request from now on, counted from 1, a faulty answer.
func (s *Server) Fail(n int, fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[s.requests+n] = fault
}

// Requests returns how many requests came.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Problems returns what was wrong with the requests since its last call.
func (s *Server) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	problems := s.problems
	s.problems = nil
	return problems
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.register(w, r) || s.locate(w, r) {
		return
	}
	fault := s.count()
	input, err := s.check(r)
	if err != nil {
		s.problem(fmt.Sprintf("%s %s is not valid by GitHub's description: %v", r.Method, r.URL.Path, err))
		refuse(http.StatusBadRequest, "Problems parsing the request").write(w)
		return
	}
	no := s.admit(callOf(input))
	switch {
	case no != nil:
		no.write(w)
	case fault == nil:
		if no := s.limit(r, time.Now()); no != nil {
			no.write(w)
			return
		}
		got := s.serve(input)
		s.checkAnswer(r.Context(), input, got)
		got.write(w)
	default:
		s.fail(w, r, *fault, input)
	}
}

// count counts a request and returns its fault, or nil.
func (s *Server) count() *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if fault, ok := s.faults[s.requests]; ok {
		return &fault
	}
	return nil
}

func (s *Server) problem(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, text)
}

// fail answers according to a fault.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, fault Fault,
	input *openapi3filter.RequestValidationInput) {
	if fault.Written {
		s.serve(input)
	}
	switch {
	case fault.Hang:
		<-r.Context().Done()
	case fault.Close:
		if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
			connection.Close()
		}
	case fault.Body != "":
		reply{fault.Status, fault.Header, []byte(fault.Body)}.write(w)
	default:
		no := refuse(fault.Status, http.StatusText(fault.Status))
		no.header = fault.Header
		no.write(w)
	}
}

// check checks a request against the description. The body can be read again afterwards.
func (s *Server) check(r *http.Request) (*openapi3filter.RequestValidationInput, error) {
	route, parameters, err := s.description.router.FindRoute(r)
	if err != nil {
		return nil, err
	}
	input := &openapi3filter.RequestValidationInput{
		Request: r, Route: route, PathParams: parameters,
		Options: &openapi3filter.Options{SkipSettingDefaults: true},
	}
	return input, openapi3filter.ValidateRequest(r.Context(), input)
}

// checkAnswer checks our own answer against the description.
func (s *Server) checkAnswer(ctx context.Context, input *openapi3filter.RequestValidationInput,
	got reply) {
	if got.status >= http.StatusBadRequest {
		return // the description says little about errors
	}
	err := openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: got.status,
		Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}},
		Body:   io.NopCloser(bytes.NewReader(got.body)),
	})
	if err != nil {
		s.problem(fmt.Sprintf("the answer %d of %s is not GitHub's: %v", got.status, pathOf(input.Route), err))
	}
}

func pathOf(route *routers.Route) string { return route.Method + " " + route.Path }

// write writes a reply with the headers that GitHub always sends.
func (a reply) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Github-Request-Id", "0400:0001:0A0B0C0D:0E0F0102:66AA77BB")
	w.Header().Set("X-Ratelimit-Limit", "5000")
	w.Header().Set("X-Ratelimit-Remaining", "4987")
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.status)
	_, _ = io.Copy(w, bytes.NewReader(a.body))
}

// serve does what a valid request asks for.
func (s *Server) serve(input *openapi3filter.RequestValidationInput) reply {
	return resources()[input.Route.Path](s, callOf(input))
}

func callOf(input *openapi3filter.RequestValidationInput) call {
	return call{input, input.PathParams["owner"] + "/" + input.PathParams["repo"]}
}

// say returns a reply with a JSON value.
func say(status int, value any) reply {
	body, err := json.Marshal(value)
	if err != nil {
		return refuse(http.StatusInternalServerError, err.Error())
	}
	return reply{status: status, body: body}
}

// refuse returns the reply of an error.
func refuse(status int, text string) reply {
	return say(status, map[string]string{"message": text, "documentation_url": "https://docs.github.com/rest"})
}
