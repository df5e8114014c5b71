// Package server is the server: its settings, the roles that a process has, and how the rooms are put together for
// them. It also gives the command line the commands that open data themselves.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"landfall.dev/landfall"
	"landfall.dev/landfall/wire"
)

// server is the whole program, or the part of it that the process's roles are.
type server struct {
	*shared
	life

	serving  *serving
	delivery *delivery // nil without a database
	control  *control
	handler  http.Handler
	patience time.Duration // with requests under way, when the server stops
}

// life is how far a server's life has gone.
type life struct {
	phase   atomic.Int32
	leaving chan struct{} // closed when the server stops
}

// The phases of a server's life.
const (
	isStarting int32 = iota
	isServing
	isStopping
)

// newServer builds the program. Close lets go of what it opened.
func newServer(ctx context.Context, c config, logger *slog.Logger) (*server, error) {
	common, err := openShared(ctx, &c, logger)
	if err != nil {
		return nil, err
	}
	s := &server{shared: common, life: life{leaving: make(chan struct{})}, patience: drainTimeout}
	if err := s.build(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// build builds the parts.
func (s *server) build() (err error) {
	if s.serving, err = newServing(s.shared); err != nil {
		return err
	}
	if s.db != nil {
		if s.delivery, err = newDelivery(s.shared, s.serving); err != nil {
			return err
		}
	}
	s.control = newControl(s.shared, &s.life, s.serving, s.delivery)
	s.handler, err = s.control.routes()
	return err
}

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	drainTimeout  = 20 * time.Second
)

// Run serves until ctx ends, then drains: requests and runs at work come to an end, or to a point where the next start
// takes them up.
func (s *server) Run(ctx context.Context) error {
	lost, release, err := s.own(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	defer release() // when all is drained
	storesLater := false
	if err = s.settleInstallation(ctx); err == nil && s.config.has(roleAPI) {
		if err = s.storeTokens(ctx); landfall.KindOf(err) == landfall.Unavailable && err != nil {
			s.logger.Error("the tokens of this start are not known until the database takes writes again", "error", err)
			storesLater, err = true, nil
		}
	}
	if err == nil {
		err = s.serving.open(ctx)
	}
	if ctx.Err() != nil {
		return nil // stopped before anything was served
	}
	if err != nil {
		return err
	}
	leave, requests := sync.OnceFunc(func() { close(s.leaving) }), context.WithoutCancel(ctx)
	defer leave()
	httpServer := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return requests },
		ConnContext: wire.ConnContext, ConnState: wire.ConnState,
		ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := httpServer.Serve(wire.Listener(s.listener)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving ended: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		s.phase.Store(isStopping)
		s.logger.Info("stopping", "reason", context.Cause(ctx))
		leave()
		s.serving.refuse()
		return s.drain(ctx, httpServer)
	})
	group.Go(func() error {
		select {
		case err := <-lost:
			return err
		case <-ctx.Done():
			return nil
		}
	})
	if storesLater {
		group.Go(func() error { return s.storeTokensLater(ctx) })
	}
	if s.keyless.Load() {
		group.Go(func() error { return s.setKeysLater(ctx) })
	}
	for _, duty := range s.duties() {
		group.Go(func() error { return duty(ctx) })
	}
	s.phase.CompareAndSwap(isStarting, isServing)
	for _, what := range s.lacks() {
		said := "this machine lacks something for the sandbox, which confines all the same"
		if s.sandbox.Kind() == "none" {
			said = "build commands and functions are refused: nothing can confine them"
		}
		s.logger.Warn(said, "lacks", what)
	}
	s.logger.Info("serving", s.about()...)
	return group.Wait()
}

// duties returns what the roles of the process do by themselves, until their context ends.
func (s *server) duties() duties {
	if s.delivery == nil {
		return s.serving.duties()
	}
	return append(s.delivery.duties(), s.serving.duties()...)
}

// duties are what a part does by itself, until the context ends.
type duties []func(context.Context) error

func (d *duties) add(has bool, duty func(context.Context) error) {
	if has {
		*d = append(*d, duty)
	}
}

// drain waits for the requests under way, and then cuts off what is left: a visitor on a slow line makes no fault of a
// stop.
func (s *server) drain(ctx context.Context, httpServer *http.Server) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience)
	defer cancel()
	err := httpServer.Shutdown(limited)
	if errors.Is(err, context.DeadlineExceeded) {
		s.logger.Warn("requests under way were cut off", "after", s.patience)
		err = httpServer.Close()
	}
	return err
}

// Close lets go of everything that the server opened.
func (s *server) Close() error {
	_ = s.listener.Close() // closed already after a drain
	if s.delivery != nil {
		s.delivery.Close()
	}
	var err error
	if s.serving != nil {
		err = s.serving.Close()
	}
	return errors.Join(err, s.shared.Close())
}
