package githubtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// Status is one commit status that the server received.
type Status struct {
	Repository  string `json:"-"` // owner/name
	SHA         string `json:"-"`
	State       string `json:"state"`
	Context     string `json:"context"`
	Description string `json:"description"`
	Target      string `json:"target_url"`
}

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

	mu       sync.Mutex
	requests int
	faults   map[int]Fault
	statuses []Status
	comments []Comment
	issued   int64 // ids of comments
	problems []string
}

// New starts a server that accepts the token. It is closed when the test ends, and the test fails if a request was not
// valid by GitHub's description.
func New(tb testing.TB, description *Description, token string) *Server {
	tb.Helper()
	s := &Server{description: description, token: token, faults: map[int]Fault{}}
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

// Statuses returns the statuses of a commit in the order in which they came; of all commits when sha is empty.
func (s *Server) Statuses(sha string) []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.statuses), func(status Status) bool { return sha != "" && status.SHA != sha })
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
	fault := s.count()
	input, err := s.check(r)
	switch {
	case err != nil:
		s.problem(fmt.Sprintf("%s %s is not valid by GitHub's description: %v", r.Method, r.URL.Path, err))
		answer(w, http.StatusBadRequest, nil, message("Problems parsing the request"))
	case r.Header.Get("Authorization") != "Bearer "+s.token:
		answer(w, http.StatusUnauthorized, nil, message("Bad credentials"))
	case fault == nil:
		status, header, body := s.serve(input)
		s.checkAnswer(r.Context(), input, status, body)
		answer(w, status, header, body)
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
		answer(w, fault.Status, fault.Header, []byte(fault.Body))
	default:
		answer(w, fault.Status, fault.Header, message(http.StatusText(fault.Status)))
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
func (s *Server) checkAnswer(ctx context.Context, input *openapi3filter.RequestValidationInput, status int,
	body []byte) {
	if status >= http.StatusBadRequest {
		return // the description says little about errors
	}
	err := openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: status,
		Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}},
		Body:   io.NopCloser(bytes.NewReader(body)),
	})
	if err != nil {
		s.problem(fmt.Sprintf("the answer %d of %s is not GitHub's: %v", status, pathOf(input.Route), err))
	}
}

func pathOf(route *routers.Route) string { return route.Method + " " + route.Path }

// answer writes an answer with the headers that GitHub always sends.
func answer(w http.ResponseWriter, status int, header map[string]string, body []byte) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Github-Request-Id", "0400:0001:0A0B0C0D:0E0F0102:66AA77BB")
	w.Header().Set("X-Ratelimit-Limit", "5000")
	w.Header().Set("X-Ratelimit-Remaining", "4987")
	for name, value := range header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(status)
	_, _ = io.Copy(w, bytes.NewReader(body))
}

// message returns the body of an error.
func message(text string) []byte {
	body, err := json.Marshal(map[string]string{"message": text, "documentation_url": "https://docs.github.com/rest"})
	if err != nil {
		return nil
	}
	return body
}

var sha = regexp.MustCompile(`^[0-9a-f]{40}$`)

// serve does what a valid request asks for.
func (s *Server) serve(input *openapi3filter.RequestValidationInput) (status int, header map[string]string,
	body []byte) {
	repository := input.PathParams["owner"] + "/" + input.PathParams["repo"]
	switch input.Route.Path {
	case user:
		status, body = encode(http.StatusOK, userObject(Self, true))
	case comments, comment:
		return s.serveComments(input, repository)
	case listStatuses:
		list := []map[string]any{}
		for i, status := range slices.Backward(s.Statuses(input.PathParams["ref"])) {
			if status.Repository == repository {
				list = append(list, object(i, status))
			}
		}
		status, body = encode(http.StatusOK, list)
	default:
		status, body = s.setStatus(input, repository)
	}
	return status, nil, body
}

// setStatus adds a commit status.
func (s *Server) setStatus(input *openapi3filter.RequestValidationInput, repository string) (int, []byte) {
	status := Status{Context: "default"}
	if err := json.NewDecoder(input.Request.Body).Decode(&status); err != nil {
		return http.StatusBadRequest, message("Problems parsing JSON")
	}
	status.Repository, status.SHA = repository, input.PathParams["sha"]
	switch {
	case !sha.MatchString(status.SHA):
		return http.StatusUnprocessableEntity, message("No commit found for SHA: " + status.SHA)
	case utf8.RuneCountInString(status.Description) > 140:
		return http.StatusUnprocessableEntity,
			message("Validation Failed: description is too long (maximum is 140 characters)")
	case status.Target != "" && !strings.HasPrefix(status.Target, "http://") &&
		!strings.HasPrefix(status.Target, "https://"):
		return http.StatusUnprocessableEntity, message("Validation Failed: target_url must use http(s) scheme")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses = append(s.statuses, status)
	return encode(http.StatusCreated, object(len(s.statuses)-1, status))
}

func encode(code int, value any) (int, []byte) {
	body, err := json.Marshal(value)
	if err != nil {
		return http.StatusInternalServerError, message(err.Error())
	}
	return code, body
}

// object returns a status as GitHub shows it.
func object(index int, status Status) map[string]any {
	at := time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC).Add(time.Duration(index) * time.Second).Format(time.RFC3339)
	return map[string]any{
		"url": "https://api.github.com/repos/" + status.Repository + "/statuses/" + status.SHA, "avatar_url": nil,
		"id": index + 1, "node_id": fmt.Sprintf("SC_%d", index+1), "state": status.State, "description": status.Description,
		"target_url": status.Target, "context": status.Context, "created_at": at, "updated_at": at, "creator": nil,
	}
}
