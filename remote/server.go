package remote

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/auth"
)

// Repository is an app's repository, opened for one request.
type Repository struct {
	App    string // the app's id
	Name   string // the app's name, for the log and for people
	Actor  string // who the token belongs to
	Pushed bool   // a push to it was accepted before: its folder must be there
}

// Receiver is what the remote asks of the rest: who may come in, and what becomes of a push. It is called from many
// goroutines at once.
type Receiver interface {
	// Open returns the repository of the app with this name, for a token that may read it, or write when write is set.
	// Unauthorized (the same for an unknown app) when the token is not known, else Forbidden, NotFound, or Conflict for
	// a deleted app. The remote makes the repository's folder unless it was pushed to.
	Open(ctx context.Context, app, token string, write bool) (Repository, error)
	// Check says whether a push may move these references: the rules of the app. It is called once a push, before
	// anything moves, also for references of applies. Of an error the person who pushed sees landfall.MessageOf, and
	// nothing moves. ctx ends when the client goes away.
	Check(ctx context.Context, repository Repository, updates []Update) error
	// Accept stores the pushes of references that moved, without those of applies, and returns the runs that they made. It
	// must be durable when it returns. When it fails, the references have moved all the same: the comparison of
	// Repositories.Heads with the accepted pushes finds them; of a Conflict, which says that another process accepts by
	// now, the person who pushed is told that it may not. ctx does not end.
	Accept(ctx context.Context, repository Repository, updates []Update) ([]string, error)
	// Follow writes the progress of a run as lines, until the run is final or ctx ends, which it does when the client goes
	// away or the server stops. Of a run that was over before the time since, when the push came, it writes only what the
	// push added. The lines reach the person who pushed at once, without control characters and cut to 1000 characters.
	Follow(ctx context.Context, run string, since time.Time, lines io.Writer) error
}

// Config is what a Server needs.
type Config struct {
	Repositories *Repositories
	Receiver     Receiver
	MaxInput     int64         // bytes of a push; 0: 1 GiB. People know it as LANDFALL_MAX_PUSH
	Parallel     int           // gits that receive at once, and as many that send; more wait; 0: 16
	Idle         time.Duration // a client that sends or takes nothing for so long is given up; 0: 2 minutes
	Logger       *slog.Logger  // nil: slog.Default()
}

// Server answers git clients below /git/: fetches and pushes of /git/APP.git by anyone whose token Receiver.Open knows,
// sent as the password of basic authentication with any user name, or as a bearer token.
//
// Its requests may last long: it sets the deadlines of its connections itself. Its response writer must be net/http's
// own or unwrap to it. When the contexts of its requests end, as the server stops, clients stop following; pushes that
// are being received end by themselves.
type Server struct {
	Config
	receiving chan struct{}
	sending   chan struct{}
}

// New returns a server.
func New(config Config) *Server {
	if config.MaxInput <= 0 {
		config.MaxInput = 1 << 30
	}
	if config.Parallel <= 0 {
		config.Parallel = 16
	}
	if config.Idle <= 0 {
		config.Idle = 2 * time.Minute
	}
	config.Logger = cmp.Or(config.Logger, slog.Default())
	return &Server{Config: config, receiving: make(chan struct{}, config.Parallel),
		sending: make(chan struct{}, config.Parallel)}
}

// The two services of git.
const (
	uploadPack  = "git-upload-pack"  // fetches
	receivePack = "git-receive-pack" // pushes
)

// request is what a client asks for.
type request struct {
	app       string
	service   string
	advertise bool // the list of references, with which every conversation begins
}

// parse returns what r asks for, and false when it is nothing that we answer.
func parse(r *http.Request) (request, bool) {
	below, under := strings.CutPrefix(r.URL.Path, "/git/")
	app, rest, ok := strings.Cut(below, "/")
	if !under || !ok {
		return request{}, false
	}
	q := request{app: strings.TrimSuffix(app, ".git"), service: rest}
	if rest == "info/refs" {
		q.advertise, q.service = true, r.URL.Query().Get("service")
	}
	method := http.MethodPost
	if q.advertise {
		method = http.MethodGet
	}
	return q, r.Method == method && (q.service == uploadPack || q.service == receivePack)
}

// Misplaced answers what git asks for elsewhere than below /git/, with the address below public that is meant; all else
// is for next.
func Misplaced(public *url.URL, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, isList := strings.CutSuffix(r.URL.Path, "/info/refs")
		isList = isList && strings.HasPrefix(r.URL.Query().Get("service"), "git-")
		if folder, last := path.Split(r.URL.Path); !isList && (last == uploadPack || last == receivePack) {
			at, isList = strings.TrimSuffix(folder, "/"), true
		}
		if !isList {
			next.ServeHTTP(w, r)
			return
		}
		app := strings.TrimSuffix(path.Base(at), ".git")
		if landfall.CheckAppName(app) != nil {
			app = "APP"
		}
		http.Error(w, "no repository is here; right would be "+public.JoinPath("git", app+".git").String(),
			http.StatusNotFound)
	})
}

// ServeHTTP answers one request of a git client; anything else is 404.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, ok := parse(r)
	if !ok {
		http.NotFound(w, r)
		return
	}
	repository, err := s.open(r, q)
	if err != nil {
		s.refuse(w, r, s.Logger.With("app", q.app), err)
		return
	}
	w.Header().Set("Cache-Control", "no-cache, max-age=0, must-revalidate")
	switch {
	case q.advertise:
		err = s.advertise(w, r, repository, q.service)
	case r.Header.Get("Content-Type") != "application/x-"+q.service+"-request":
		http.Error(w, "the content type is not git's", http.StatusUnsupportedMediaType)
	case q.service == uploadPack:
		err = s.send(w, r, repository)
	default:
		err = s.receive(w, r, repository)
	}
	if err != nil {
		s.refuse(w, r, s.loggerOf(repository), err)
	}
}

// loggerOf returns a logger that names the app in every line.
func (s *Server) loggerOf(repository Repository) *slog.Logger {
	return s.Logger.With("app", repository.Name, "app_id", repository.App)
}

// open lets the client in.
func (s *Server) open(r *http.Request, q request) (Repository, error) {
	token := auth.Password(r)
	if token == "" {
		return Repository{}, landfall.Errorf("remote.open", landfall.Unauthorized,
			"a token is needed, as the password; any user name will do")
	}
	repository, err := s.Receiver.Open(r.Context(), q.app, token, q.service == receivePack)
	if err != nil {
		return repository, err
	}
	return repository, s.find(r.Context(), repository)
}

// BringBack is what to do about a repository that is not there: another process may have it.
const BringBack = "bring the process that has them back, or its folder git; only if they are lost, start once with " +
	"landfall serve --new, " +
	"and push them again"

// find fails when the folder of a repository that was pushed to is gone: an empty one in its place would say that every
// branch was deleted. Before the first push it is made, so that an empty repository can be cloned, too.
func (s *Server) find(ctx context.Context, repository Repository) error {
	if repository.Pushed && !s.Repositories.Exists(repository.App) {
		return landfall.Errorf("remote.find", landfall.Unavailable,
			"the repository of %s is gone from this "+
				"server, so it can be neither fetched nor pushed to, while its releases are served; for whoever "+
				"runs the server: %s", repository.Name, BringBack)
	}
	return s.Repositories.Create(ctx, repository.App, "")
}

// refuse answers with an error; git shows its text. When an answer has begun, it ends there.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, logger *slog.Logger, err error) {
	status := landfall.KindOf(err).HTTPStatus()
	if kind := landfall.KindOf(err); kind == landfall.Internal || kind == landfall.Unavailable {
		logger.ErrorContext(r.Context(), "git request failed", "path", r.URL.Path, "error", err)
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="Landfall"`)
	}
	http.Error(w, landfall.MessageOf(err), status)
}

// enter waits for a place among the gits that run; the function gives it back.
func enter(ctx context.Context, places chan struct{}) (func(), error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, &landfall.Error{Op: "remote.enter", Kind: landfall.Canceled, Err: ctx.Err()}
	}
}

// begin sets what both directions need, and returns where the answer goes.
func (s *Server) begin(w http.ResponseWriter, contentType string) (*stream, error) {
	// Git answers before it has read everything.
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
		return nil, &landfall.Error{Op: "remote.begin", Err: err}
	}
	w.Header().Set("Content-Type", contentType)
	return &stream{w: w, idle: s.Idle}, nil
}

// body returns what the client sends, decompressed.
func (s *Server) body(w http.ResponseWriter, r *http.Request) (io.Reader, error) {
	var in io.Reader = &patient{in: r.Body, control: http.NewResponseController(w), idle: s.Idle}
	switch r.Header.Get("Content-Encoding") {
	case "":
		return in, nil
	case "gzip", "x-gzip":
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, landfall.Wrapf("remote.body", landfall.Invalid, err, "the request is not compressed as it says")
		}
		return unzipped, nil
	}
	return nil, landfall.Errorf("remote.body", landfall.Invalid, "the request is compressed in an unknown way")
}

// patient reads a body of any length from a client that never pauses for the idle time.
type patient struct {
	in      io.Reader
	control *http.ResponseController
	idle    time.Duration
}

// Read reads the next bytes.
func (p *patient) Read(b []byte) (int, error) {
	if err := p.control.SetReadDeadline(time.Now().Add(p.idle)); err != nil {
		return 0, err
	}
	n, err := p.in.Read(b)
	if err != nil { // from now on the server itself reads, to see whether the client is still there
		err = errors.Join(err, p.control.SetReadDeadline(time.Time{}))
	}
	return n, err
}
