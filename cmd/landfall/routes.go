package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api"
	"landfall.dev/landfall/pipeline"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/runtime/gateway"
	"landfall.dev/landfall/runtime/invoke"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/store"
	"landfall.dev/landfall/web"
	"landfall.dev/landfall/webhook"
)

func (s *server) runURL(run string) string { return s.config.URL.JoinPath("runs", run).String() }

// releaseURL is where a release answers; without a selector, where the live release does.
func (s *server) releaseURL(app string, selector landfall.UID) string {
	host := app
	if selector != "" {
		host = landfall.JoinedLabel(app, string(selector))
	}
	host += "." + s.config.Domain
	if port := s.config.URL.Port(); port != "" {
		host = net.JoinHostPort(host, port)
	}
	return s.config.URL.Scheme + "://" + host + "/"
}

// routes tells the control host from the hosts of releases.
func (s *server) routes() (http.Handler, error) {
	control := http.NewServeMux()
	control.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	control.HandleFunc("GET /readyz", s.readiness)
	control.Handle("GET /metrics", s.measured())
	if s.config.has(roleWebhook) {
		s.routeWebhooks(control)
	}
	if s.functions != nil {
		control.Handle(invoke.Path, s.functionDoor())
	}
	if s.config.has(roleAPI) {
		followed := http.NewServeMux()
		if err := s.routeAPI(followed); err != nil {
			return nil, err
		}
		control.Handle("/", s.untilStop(followed))
	} else {
		control.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusNotFound, "This process has not the role api.")
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.hosts.Classify(r.Host).Kind == gateway.Control:
			control.ServeHTTP(w, r)
		case s.gateway != nil:
			s.gateway.ServeHTTP(w, r)
		default:
			answer(w, http.StatusNotFound, "This process does not answer at this host.")
		}
	}), nil
}

// untilStop ends the contexts of requests when the server stops: followers of runs would hold up the drain. Visitors of releases
// get what they asked for, and webhooks are stored: GitHub does not send them again.
func (s *server) untilStop(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() {
			select {
			case <-s.leaving:
				cancel()
			case <-ctx.Done():
			}
		}()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// functionDoor is where functions are called by their names.
func (s *server) functionDoor() http.Handler {
	return &invoke.Handler{
		Find: tableSource{s.db, s.process, s.logger}.named, Functions: s.functions, Logger: s.logger,
		Admit: func(r *http.Request, action invoke.Action, f *registry.Function) error {
			scope := store.ScopeRead
			if action == invoke.Call {
				scope = store.ScopeInvoke
			}
			return s.admit(r, scope, f)
		},
	}
}

// mayCall says who may call a route of an app that is not public.
func (s *server) mayCall(r *http.Request, app string, access registry.Access) error {
	if access != registry.Token {
		return &landfall.Error{Op: "functions", Kind: landfall.Forbidden, Message: "nobody can sign in to a release yet"}
	}
	owner, err := s.db.AppByName(r.Context(), app)
	if err != nil {
		return err
	}
	err = s.admit(r, store.ScopeInvoke, &registry.Function{App: owner.ID})
	if err != nil && landfall.KindOf(err) == landfall.NotFound {
		err = &landfall.Error{Op: "functions", Kind: landfall.Forbidden, Message: "the token is for another app", Err: err}
	}
	return err
}

// admit returns an error unless the request's token has a scope on a function's app; without a function, on any app.
func (s *server) admit(r *http.Request, scope store.Scope, f *registry.Function) error {
	const op landfall.Op = "functions"
	secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || secret == "" {
		return &landfall.Error{Op: op, Kind: landfall.Unauthorized, Message: "send a token: Authorization: Bearer TOKEN"}
	}
	token, err := s.db.Token(r.Context(), secret)
	switch {
	case err != nil && landfall.KindOf(err) == landfall.NotFound:
		return &landfall.Error{Op: op, Kind: landfall.Unauthorized, Message: "the token is not known", Err: err}
	case err != nil:
		return &landfall.Error{Op: op, Kind: landfall.KindOf(err), Message: "the token cannot be checked now", Err: err}
	case f == nil && !token.Allows(scope, token.App):
		return &landfall.Error{Op: op, Kind: landfall.Forbidden, Message: fmt.Sprintf("the token lacks the scope %s", scope)}
	case f != nil && !token.Allows(scope, f.App):
		return &landfall.Error{Op: op, Kind: landfall.NotFound, Message: fmt.Sprintf("there is no function %s in the namespace %q", f.Name, f.Namespace)}
	}
	return nil
}

func (s *server) routeWebhooks(control *http.ServeMux) {
	deliveries := s.config.URL.JoinPath("api/v1/deliveries").String() + "/"
	hooks := &webhook.Handler{
		Store: pipeline.Intake{Pipeline: s.pipeline, InstallationSecret: s.config.WebhookSecret}, Now: time.Now, Logger: s.logger,
		RunURL: s.runURL, Count: s.metrics.Delivered,
		DeliveryURL: func(d landfall.Delivery) string {
			address := deliveries + url.PathEscape(d.ID)
			if d.Hook != "" {
				address += "?hook=" + url.QueryEscape(d.Hook)
			}
			return address
		},
	}
	control.Handle(webhook.Path, hooks)
	control.Handle(webhook.Path+"/", hooks)
}

func (s *server) routeAPI(control *http.ServeMux) error {
	var repositories api.Repositories // none without git
	if s.repos != nil {
		repositories = s.repos
		control.Handle("/git/", remote.New(remote.Config{
			Repositories: s.repos, Doors: pipeline.Doors{Pipeline: s.pipeline}, MaxInput: s.config.MaxPush, Logger: s.logger}))
	} else {
		control.HandleFunc("/git/", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusNotFound, "The built-in git remote is off: git was not found at the start. Install git and start again.")
		})
	}
	rest := api.New(api.Config{
		DB: s.db, Pipeline: s.pipeline, Repositories: repositories, URL: s.config.URL, ReleaseURL: s.releaseURL,
		CheckURL: s.pipeline.Mirrors.Dialer.CheckURL, Domain: s.config.Domain,
		Sandbox: s.sandbox.Kind(), SandboxLacks: s.sandbox.Lacks(), Now: time.Now, Logger: s.logger, Keeper: s,
	})
	control.Handle("/api/", rest)
	pages, err := web.New(web.Config{API: api.Local(rest), DB: s.db, URL: s.config.URL, Now: time.Now, Logger: s.logger})
	if err != nil {
		return err
	}
	control.Handle("/", pages)
	return nil
}

// readiness says whether the server serves, and what does not. It stays ready without its database: who asks may be a proxy,
// and releases are served all the same.
func (s *server) readiness(w http.ResponseWriter, r *http.Request) {
	switch s.phase.Load() {
	case starting:
		answer(w, http.StatusServiceUnavailable, "starting: the routes of releases and the database are being read")
		return
	case stopping:
		answer(w, http.StatusServiceUnavailable, "stopping: requests and runs at work come to an end")
		return
	}
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	text := "ready"
	if _, err := s.db.Changes(ctx); err != nil {
		text += "\ndatabase: it does not answer; pushes and webhooks are refused, releases are served"
	}
	if deserted, err := s.pipeline.Deserted(ctx); err == nil && deserted && s.config.has(roleAPI) {
		text += "\npipeline: no worker is alive; pushes and webhooks are accepted, and their runs wait for one"
	}
	if s.repos == nil && s.config.has(roleAPI) {
		text += "\ngit: it was not found at the start; the built-in remote is off, webhooks work"
	}
	if s.sandbox.Kind() == "none" && s.config.has(rolePipeline) {
		text += "\nsandbox: there is none here; build commands are refused"
	}
	answer(w, http.StatusOK, text)
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
