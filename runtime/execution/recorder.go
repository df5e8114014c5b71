package execution

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"landfall.dev/landfall"
	"landfall.dev/landfall/contract"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/registry"
	"landfall.dev/landfall/runtime/runner"
	"landfall.dev/landfall/store"
)

// Recorder records executions. Its fields are set before it is used. It is safe for concurrent use.
type Recorder struct {
	DB      *store.DB
	Process string // this process, across its lives; no two that share a database have the same
	Limits  Limits
	Logger  *slog.Logger
	Meter   Meter // nil: nothing is counted

	Contracts *contract.Cache // of the functions that accept executions; nil: none is remembered

	// Redact takes what nobody may read out of the message of an error, or out of an answer as JSON, before it is kept;
	// nil: nothing. What functions log comes without it.
	Redact func(f *landfall.Function, text string) string

	mu        sync.Mutex
	limiters  *limiters
	active    map[string]*running
	over      []*running // and not written
	overBytes int        // of their logs
	inHand    int        // executions that are over and just being written, or not: then they are in over again
	dropped   int        // since it was said last
	since     time.Time  // when it was said last
	grown     map[version]*growth
	counts    map[called]*landfall.CanaryFigures // that no canary was told of

	writing sync.Mutex // one at a time writes

	beginOnce sync.Once
	seen      map[string]sighting // of what runs; only Keep has it

	bell     chan struct{} // something was accepted here
	bellOnce sync.Once
}

// Limits bound what is kept. Zero fields take the defaults.
type Limits struct {
	Rate int   // records a second that tell of no failure; five times as many that do; 200
	Keep int   // records of a version that are over, the newest, and as many dead letters; 1,000
	Logs int64 // bytes of the logs of a version, the newest; 16 MiB

	Backoff time.Duration // from a failure to the first retry, doubled for each further one; a second
}

func (l Limits) withDefaults() Limits {
	const perSecond, keep, logs = 200, 1000, 16 << 20
	return Limits{Rate: cmp.Or(l.Rate, perSecond), Keep: cmp.Or(l.Keep, keep), Logs: cmp.Or(l.Logs, logs),
		Backoff: cmp.Or(l.Backoff, time.Second)}
}

// Outcome is what a call came to.
type Outcome string

// The outcomes.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"   // by the function
	Busy      Outcome = "busy"     // refused: as many as may be were under way
	Canceled  Outcome = "canceled" // who called did not wait
	Refused   Outcome = "error"    // it could not be run
)

// Outcomes lists every outcome.
func Outcomes() []Outcome { return []Outcome{Succeeded, Failed, Busy, Canceled, Refused} }

// Meter counts what happens. Many goroutines call it.
type Meter interface {
	// Called counts a call of a function that came to an end.
	Called(f *landfall.Function, outcome Outcome, took time.Duration)
	// Unrecorded counts executions of which no record is kept.
	Unrecorded(n int)
}

const (
	most      = 4096     // executions that are over and not written, those that just are included
	mostBytes = 16 << 20 // of their logs
	logRate   = 1 << 20  // bytes of logs a second, of executions that did not fail
	logBurst  = 4 << 20
	nameSize  = 256  // bytes that are kept of what the caller chose
	textSize  = 1024 // bytes that are kept of a message
)

type limiters struct{ fine, failed, logs *rate.Limiter }

// running is an execution that this process knows of. The recorder's lock guards it.
type running struct {
	landfall.Execution

	function *landfall.Function // nil: not found yet
	log      []byte             // not written yet
	// what the store knows of how long this process lives; zero: it does not know of the execution
	until   time.Time
	claimed bool   // the store is just being told of the execution
	always  bool   // its record may not be dropped
	shared  bool   // its trigger has weights
	alias   string // whose weights decided; empty: those of none
}

// Recorded returns a Caller that records what comes of the calls of next. What next is given names an execution.
func (r *Recorder) Recorded(next function.Caller) function.Caller {
	return &recorded{r, next}
}

type recorded struct {
	*Recorder

	next function.Caller
}

// Call implements function.Caller.
func (r *recorded) Call(ctx context.Context, c function.Call) (event.Event, error) {
	if c.Accepted {
		return r.next.Call(ctx, c) // Work records it
	}
	x := r.begin(&c)
	returned := false
	defer func() {
		if !returned { // it panics, which a server survives
			r.end(x, event.Event{}, landfall.Errorf("execution.Run", landfall.Internal, "the function could not be run"))
		}
	}()
	answer, err := r.next.Call(ctx, c)
	returned = true
	var in, out int64 // data that came beside the event, or went out before its answer
	if c.Body != nil {
		in = c.Body.Taken()
	}
	if c.Recipient != nil {
		out = c.Recipient.Sent()
		if err == nil {
			err = c.Recipient.Judge(answer)
		}
	}
	if in > 0 || out > 0 {
		r.mu.Lock()
		x.Input, x.Output = x.Input+in, out
		r.mu.Unlock()
	}
	r.end(x, answer, err)
	return answer, err
}

// describe returns what is known of an execution before it runs.
func describe(c *function.Call, now time.Time) landfall.Execution {
	f, e := c.Function, c.Event
	x := landfall.Execution{
		ID: event.ExecutionOf(e), AppID: f.App, Namespace: f.Namespace, Function: f.Name, Version: f.Version,
		Number: f.Number, Group: f.Group, Created: now, Input: int64(len(e.DataEncoded)),
		Event: landfall.ExecutionEvent{Source: cut(event.SourceOf(e), nameSize), Type: cut(e.Type(), nameSize),
			ID: cut(e.ID(), nameSize)},
	}
	if c.Trigger != nil {
		x.Release, x.Trigger = c.Trigger.Release, c.Trigger.Name
	}
	return x
}

// begin begins the record of a call, and gives it an execution, unless it has one of its own.
func (r *Recorder) begin(c *function.Call) *running {
	now := time.Now()
	x := &running{Execution: describe(c, now), function: c.Function}
	x.State, x.Started = landfall.ExecutionRunning, now
	x.shared = c.Trigger != nil && len(c.Trigger.Shares) > 0
	x.alias = aliasOf(c.Function, c.Trigger)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.active[x.ID]; taken || x.ID == "" || len(x.ID) > nameSize {
		x.ID = uuid.NewString()
		c.Event = c.Event.Clone()
		event.SetExecution(&c.Event, x.ID)
	}
	r.add(x)
	return x
}

// aliasOf returns the alias whose weights led a call to a function; empty for none.
func aliasOf(f *landfall.Function, t *registry.Trigger) string {
	switch {
	case t != nil:
		return t.Alias
	case f != nil:
		return f.Alias
	}
	return ""
}

// add makes an execution one that runs here. The caller holds the lock.
func (r *Recorder) add(x *running) {
	if r.active == nil {
		r.active = map[string]*running{}
		limits := r.Limits.withDefaults()
		const more = 5 // failures are more worth knowing
		r.limiters = &limiters{
			rate.NewLimiter(rate.Limit(limits.Rate), limits.Rate),
			rate.NewLimiter(rate.Limit(more*limits.Rate), more*limits.Rate), rate.NewLimiter(logRate, logBurst),
		}
	}
	r.active[x.ID] = x
}

var _ runner.Logs = (*Recorder)(nil)

// Log implements runner.Logs.
func (r *Recorder) Log(of, execution string, text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.active[execution]; x != nil {
		x.log = append(x.log, text...)
		x.Log += int64(len(text))
		return
	}
	r.Logger.Debug("a function logged outside of an execution", "function", of, "text", string(text))
}

// end records what an execution came to.
func (r *Recorder) end(x *running, answer event.Event, err error) {
	const ahead = 4 * textSize // a secret that begins in what is kept may be longer
	c := conclude(answer, err)
	c.message = cut(r.redacted(x, cut(c.message, ahead)), textSize)
	outcome := c.outcome
	r.mu.Lock()
	x.Finished, x.State = time.Now(), landfall.ExecutionSucceeded
	x.Output += int64(len(answer.DataEncoded))
	if outcome != Succeeded {
		x.State, x.Reason, x.Message = landfall.ExecutionFailed, c.reason, c.message
	}
	if (outcome == Failed || outcome == Refused) && (err != nil || x.Log == 0) {
		x.explain()
	}
	took := x.Finished.Sub(x.Started)
	if x.Async && outcome != Succeeded {
		x.decide(err, r.Limits.withDefaults().Backoff)
	}
	delete(r.active, x.ID)
	r.count(x, outcome, answer)
	kept := r.admit(x, outcome == Failed || outcome == Refused)
	if kept {
		r.over = append(r.over, x)
		r.overBytes += len(x.log)
	} else {
		r.dropped++
	}
	r.mu.Unlock()
	if r.Meter == nil || x.function == nil {
		return
	}
	r.Meter.Called(x.function, outcome, took)
	if !kept {
		r.Meter.Unrecorded(1)
	}
}

// explain ends the log with why there is no answer, on a line of its own: the function did not say it. The caller holds
// the lock.
func (x *running) explain() {
	line := x.Message + "\n"
	if n := len(x.log); n > 0 && x.log[n-1] != '\n' {
		line = "\n" + line
	}
	x.log = append(x.log, line...)
	x.Log += int64(len(line))
}

// redacted returns a text of an execution without what nobody may read. It is not called under the lock: to find
// secrets in a text may take long, and everybody's calls would wait for it.
func (r *Recorder) redacted(x *running, text string) string {
	r.mu.Lock()
	f := x.function
	r.mu.Unlock()
	if r.Redact == nil || f == nil || text == "" {
		return text
	}
	return r.Redact(f, text)
}

// conclusion is what an execution came to.
type conclusion struct {
	outcome         Outcome
	reason, message string
}

func conclude(answer event.Event, err error) conclusion {
	fault, outcome := function.EventError(err), outcomeOf(err)
	if err == nil {
		said, is, unlike := event.ErrorOf(answer)
		if !is && unlike == nil {
			return conclusion{outcome: Succeeded}
		}
		fault, outcome = said, Failed
		fault.Type = cmp.Or(fault.Type, "error")
	}
	return conclusion{outcome, cut(fault.Type, nameSize), fault.Message}
}

func outcomeOf(err error) Outcome {
	fault, ok := errors.AsType[*function.Error](err)
	switch {
	case ok && fault.Reason == function.ReasonBusy:
		return Busy
	case ok:
		return Failed
	case landfall.Is(err, landfall.Canceled):
		return Canceled
	}
	return Refused
}

// admit reports whether the record of an execution is kept, and takes its log away when that is too much. The caller
// holds the lock.
func (r *Recorder) admit(x *running, failed bool) bool {
	switch {
	case x.always || x.claimed || !x.until.IsZero(): // the store has it as one that runs
	case failed && !r.limiters.failed.Allow(), !failed && !r.limiters.fine.Allow():
		return false
	case len(r.over)+r.inHand >= most && (!failed || !r.evict()):
		return false
	}
	if n := len(x.log); n > 0 && (r.overBytes+n > mostBytes || !failed && !r.limiters.logs.AllowN(time.Now(), n)) {
		x.log, x.LogGone = nil, true
	}
	return true
}

// evict drops the record of an execution that did not fail, in favour of one that did. The caller holds the lock.
func (r *Recorder) evict() bool {
	for i, x := range r.over {
		if x.State != landfall.ExecutionSucceeded || x.always || !x.until.IsZero() {
			continue
		}
		r.overBytes -= len(x.log)
		r.over[i] = r.over[len(r.over)-1]
		r.over = r.over[:len(r.over)-1]
		r.dropped++
		if r.Meter != nil {
			r.Meter.Unrecorded(1)
		}
		return true
	}
	return false
}

// cut returns the beginning of a text.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return strings.Clone(s[:most])
}
