// Package functions answers requests by functions: a request becomes an event, and the event that the function answers
// with becomes the answer. Bodies and answers may come and go while the function runs.
package functions

import (
	"log/slog"
	"sync/atomic"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/gateway/access"
	"landfall.dev/landfall/runtime/gateway/hostname"
	"landfall.dev/landfall/trace"
)

// Config is what a Server stands on.
type Config struct {
	Caller function.Caller // nil: this process calls none, and says so
	Guard  *access.Guard
	Hosts  hostname.Hosts

	MaxRequest  int64         // bytes of the body of a request
	MaxRequests int64         // bytes of all of them together, while they are read and answered
	BodyTimeout time.Duration // for a body to arrive
	Scheme      string        // of the addresses that clients see; empty: what the connection is

	Log *slog.Logger // what could not be served

	// Redact takes what nobody may read out of what the log says of a function's answer; nil: nothing.
	Redact func(f *landfall.Function, text string) string

	Tracer *trace.Tracer // what makes spans of the calls; may be nil
}

// Server answers by functions. Many goroutines may use it.
type Server struct {
	config   Config
	bodies   atomic.Int64 // bytes that bodies of requests take now
	answered []string     // the Cache-Control of an answer that says nothing of it; nobody changes it
}

// New returns a Server.
func New(c Config) *Server { return &Server{config: c, answered: []string{"private, no-cache"}} }
