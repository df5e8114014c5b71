package server

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"landfall.dev/landfall"
	"landfall.dev/landfall/accept"
	"landfall.dev/landfall/api"
	"landfall.dev/landfall/auth"
	"landfall.dev/landfall/mux"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/runtime/gateway/hostname"
	"landfall.dev/landfall/runtime/images"
	"landfall.dev/landfall/runtime/invoke"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/web"
	"landfall.dev/landfall/webhook"
)

func (s *state) runURL(run string) string { return s.config.URL.JoinPath("runs", run).String() }

// releaseURL is where a release answers; without a selector, where the live release does.
func (s *state) releaseURL(app string, selector landfall.UID) string {
	host := app
	if selector != "" {
		host = landfall.JoinedLabel(app, string(selector))
	}
	return s.origin(host+"."+s.config.Domain) + "/"
}

// routes tells the control host from the hosts of releases.
func (s *control) routes() (http.Handler, error) {
	control := mux.New(s.logger)
	control.Get("/healthz", saying(http.StatusOK, "ok"))
	control.Get("/readyz", http.HandlerFunc(s.readiness))
	control.Get("/metrics", s.measured())
	if s.config.has(roleWebhook) {
		s.delivery.routeWebhooks(control)
	}
	s.serving.routeFunctions(control)
	if s.config.has(roleAPI) {
		control.Use(s.untilStop) // for the routes that follow
		if err := s.routeAPI(control); err != nil {
			return nil, err
		}
	} else {
		control.Rest("/", saying(http.StatusNotFound, "This process has not the role api."))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.config.within() || s.hosts.Classify(r.Host).Kind == hostname.Control:
			control.ServeHTTP(w, r)
		case s.config.has(roleGateway):
			s.serving.gateway.ServeHTTP(w, r)
		default:
			answer(w, http.StatusNotFound, "This process does not answer at this host.")
		}
	}), nil
}

// untilStop ends the contexts of requests when the server stops: followers of runs would hold up the drain. Visitors of
// releases get what they asked for, and webhooks are stored: GitHub does not send them again.
func (s *control) untilStop(c *gin.Context) {
	ctx, cancel := context.WithCancel(c.Request.Context())
	defer cancel()
	go func() {
		select {
		case <-s.leaving:
			cancel()
		case <-ctx.Done():
		}
	}()
	c.Request = c.Request.WithContext(ctx)
	c.Next()
}

// routeFunctions serves the endpoints by which functions are reached without the host of a release.
func (s *serving) routeFunctions(control *mux.Mux) {
	if s.config.has(roleTrigger) {
		events := invoke.Confined(&invoke.Events{Triggers: s.triggers, Admit: s.mayInvoke, Deferred: s.recorder.Deferred,
			Logger: s.logger})
		s.routeRun(control, s.tracer.Handler(invoke.RunPath, events))
		control.Mount(invoke.FirePath, s.tracer.Handler(invoke.FirePath, events))
		control.Mount(registry.TriggerPath, invoke.Confined(http.HandlerFunc(s.gateway.Fire)))
		control.Mount(landfall.HookPath, invoke.Confined(http.HandlerFunc(s.gateway.Hook)))
	} else {
		s.routeRun(control, nil)
		control.Mount(invoke.FirePath, invoke.Elsewhere(string(roleTrigger)))
		control.Mount(registry.TriggerPath, invoke.Elsewhere(string(roleTrigger)))
		control.Mount(landfall.HookPath, invoke.Elsewhere(string(roleTrigger)))
	}
	if s.config.has(roleTrigger) || s.config.has(roleRegistry) {
		control.Mount(invoke.Path,
			s.functionHandler(s.tracer.Handler(invoke.Path+"{namespace}/{function}", invoke.Confined(s.named()))))
	} else {
		control.Mount(invoke.Path, invoke.Elsewhere(string(roleRegistry)))
	}
	if s.images != nil {
		control.Mount(images.Path, s.imageHandler())
	} else {
		control.Mount(images.Path, invoke.Elsewhere(string(roleRegistry)))
	}
}

// named answers for functions by their names.
func (s *serving) named() http.Handler {
	h := &invoke.Handler{
		Find: s.source().Function, Owner: s.source().Owner, Host: s.config.URL.Host, Logger: s.logger,
		Admit: func(r *http.Request, action invoke.Action, f *landfall.Function) error {
			scope := landfall.ScopeRead
			if action == invoke.Call {
				scope = landfall.ScopeInvoke
			}
			return auth.MayUse(r.Context(), s.db, auth.BearerOf(r), scope, f)
		},
	}
	if s.config.has(roleTrigger) {
		h.Functions, h.Deferred = s.triggers, s.recorder.Deferred
	}
	return h
}

// mayInvoke returns of which apps the request's token may invoke functions.
func (s *serving) mayInvoke(r *http.Request) (func(app string) bool, error) {
	token, err := auth.Scoped(r.Context(), s.db, auth.BearerOf(r), landfall.ScopeInvoke)
	return func(app string) bool { return token.Allows(landfall.ScopeInvoke, app) }, err
}

// mayCall says by which token somebody may call a route of an app that is not public, or see what is only for who
// signed in.
func (s *serving) mayCall(r *http.Request, app string, access landfall.Access) error {
	return auth.MayCall(r, s.db, app, access)
}

func (s *delivery) routeWebhooks(control *mux.Mux) {
	deliveries := s.config.URL.JoinPath("api/v1/deliveries").String() + "/"
	hooks := &webhook.Handler{
		Store: accept.WebhookReceiver{Acceptor: s.acceptor, InstallationSecret: s.config.WebhookSecret}, Now: time.Now,
		Logger: s.logger, RunURL: s.runURL, Count: s.metrics.Delivered,
		DeliveryURL: func(d landfall.Delivery) string {
			address := deliveries + url.PathEscape(d.ID)
			if d.Hook != "" {
				address += "?hook=" + url.QueryEscape(d.Hook)
			}
			return address
		},
	}
	control.Mount(webhook.Path, s.tracer.Handler(webhook.Path, hooks))
	control.Mount(webhook.Path+"/", s.tracer.Handler(webhook.Path+"/{hook}", hooks))
}

func (s *control) routeAPI(control *mux.Mux) error {
	d := s.delivery
	var repositories api.Repositories // none without git
	if s.repos != nil {
		repositories = s.repos
		control.Mount("/git/", s.tracer.Handler("/git/{repository}", remote.New(remote.Config{
			Repositories: s.repos, Receiver: accept.GitReceiver{Acceptor: d.acceptor}, MaxInput: s.config.MaxPush,
			Logger: s.logger})))
	} else {
		control.Mount("/git/", saying(http.StatusNotFound,
			"The built-in git remote is off: git was not found at the start. Install git and start again."))
	}
	api.Serve(control, api.Config{
		DB: s.db, Editor: d.editor, Maker: newMaker(d), Exporter: newExporter(d), Importer: newImporter(d),
		Rollout: d.rollout, Contents: d.contents, Runs: d.runs,
		Acceptor: d.acceptor, Upkeep: d.upkeep, DryRun: d.pipeline.DryRun, GitHub: d.github,
		Repositories: repositories, URL: s.config.URL, ReleaseURL: s.releaseURL,
		CheckURL: d.acceptor.Mirrors.Dialer.CheckRepository, Domain: s.config.Domain,
		Roles: s.config.said(), Sandbox: s.sandbox.Kind(), SandboxLacks: s.sandbox.Lacks(), Network: s.functionsNetwork(),
		Proxy: s.config.Proxy.String(), Now: time.Now, Logger: s.logger, Keeper: d, Problems: s.problems,
		StallTimeout: s.config.StallTimeout, Queues: appMessages{s.serving.broker},
		Executions: s.serving.requests(),
	})
	control.Get("/log", logHandler(control))
	missing, err := web.Serve(control, web.Config{API: api.Local(control), DB: s.db, URL: s.config.URL, Visit: s.visitOf,
		Now: time.Now, Logger: s.logger})
	if err != nil {
		return err
	}
	control.Rest("/", remote.Misplaced(s.config.URL, missing))
	return nil
}

// readiness says whether the server serves, and what does not. It stays ready without its database: who asks may be a
// proxy, and releases are served all the same.
func (s *control) readiness(w http.ResponseWriter, r *http.Request) {
	switch s.phase.Load() {
	case isStarting:
		answer(w, http.StatusServiceUnavailable, "starting: the routes of releases and the database are being read")
		return
	case isStopping:
		answer(w, http.StatusServiceUnavailable, "stopping: requests and runs at work come to an end")
		return
	}
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	text := "ready"
	if said := s.config.said(); said != nil {
		text += "\nroles: " + strings.Join(said, ", ")
	}
	if s.db != nil {
		if _, err := s.db.Changes(ctx); err != nil {
			text += "\ndatabase: it does not answer; pushes and webhooks are refused, releases are served"
		}
	}
	if s.config.has(roleAPI) {
		if deserted, err := s.delivery.runs.NoWorker(ctx); err == nil && deserted {
			text += "\npipeline: no worker is alive; pushes and webhooks are accepted, and their runs wait for one"
		}
	}
	text = strings.Join(append([]string{text}, s.health.wrong(ctx)...), "\n")
	if s.repos == nil && s.config.has(roleAPI) {
		text += "\ngit: it was not found at the start; the built-in remote is off, webhooks work"
	}
	if s.sandbox.Kind() == "none" && s.config.has(rolePipeline) {
		text += "\nsandbox: there is none here; build commands are refused"
	}
	answer(w, http.StatusOK, text)
}

// saying answers everything with a text.
func saying(status int, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, status, text) })
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
