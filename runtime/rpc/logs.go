package rpc

import (
	"log/slog"
	"sync"

	"github.com/google/uuid"

	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/runner"
)

// Logs are the logs of a runner whose functions a Handler runs: what an execution logs goes to who called.
type Logs struct {
	Logger *slog.Logger // is told what is logged outside of an execution
	Next   runner.Logs  // gets everything as well: it knows the executions that began here; nil: none did

	mu      sync.Mutex
	answers map[string]*reply // that are being made, by their executions
}

// begin gives an event an execution of its own, unless it has one, and lets the execution's log be part of its answer.
func (l *Logs) begin(e *event.Event, to *reply) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	execution := event.ExecutionOf(*e)
	if _, taken := l.answers[execution]; taken || execution == "" {
		execution = uuid.NewString()
		event.SetExecution(e, execution)
	}
	if l.answers == nil {
		l.answers = map[string]*reply{}
	}
	l.answers[execution] = to
	return execution
}

func (l *Logs) forget(execution string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.answers, execution)
}

var _ runner.Logs = (*Logs)(nil)

// Log implements runner.Logs: what an execution logs goes to who called.
func (l *Logs) Log(function, execution string, text []byte) {
	if l.Next != nil {
		l.Next.Log(function, execution, text)
	}
	l.mu.Lock()
	to := l.answers[execution]
	l.mu.Unlock()
	if to == nil {
		l.Logger.Debug("a function logged outside of an execution", "function", function, "text", string(text))
		return
	}
	to.log(text)
}
