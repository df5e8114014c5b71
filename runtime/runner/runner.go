package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/runtime/wasm"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/secret"
)

// Function is a version of a function, ready to run. Whatever has the same ID is the same in everything but Resources.
// One app does not take all the processes. A function with a Body takes bodies in parts.
type Function struct {
	landfall.Function

	Args []string // the program, by a path that may be relative to Dir, and its arguments
	Dir  string   // where it starts, which it cannot change
	// the folder that it sees as its root, in which Dir is then; empty: it sees the server's programs
	Root string
	Env  map[string]string // all that it gets beside PATH, HOME, TMPDIR and LANG
	// small files that only it sees, by their paths below /secrets and /configs; none without a sandbox
	Files  map[string]string
	Form   event.Form       // how it reads events: Structured or Draft
	Module *wasm.Module     // what is run in place of a program; nil: Args is one
	Proxy  *sandbox.Proxy   // its way to public addresses; nil: it has no network
	Hide   *secret.Redactor // what must not be in its logs nor in what is said of its errors; nil: nothing
}

// Limits are the runner's own.
type Limits struct {
	Processes int // of all functions; 64
	Answer    int // bytes of one answer as JSON; 6 MiB
	Log       int // bytes of one execution's log; what is beyond is dropped, and a line says so; 256 KiB

	// Silence is how long a function may be silent in the middle of an answer that is streamed; a minute.
	Silence time.Duration
}

// Starter starts processes. A sandbox is one.
type Starter interface {
	// Start starts a program. Forbidden when functions are refused here.
	Start(p sandbox.Program) (*sandbox.Process, error)
}

// Logs takes what functions write on standard error.
type Logs interface {
	// Log takes a piece of an execution's log. The execution is empty for what was written between two. It must not block,
	// and not keep text, which is used again. All of an execution was given to it before Run returns.
	Log(function, execution string, text []byte)
}

// Runner runs functions. Its fields are set before the first call. It is safe for concurrent use.
type Runner struct {
	Sandbox  Starter
	Modules  *wasm.Modules      // nil: no function has a module
	Logs     Logs               // nil: logs are dropped
	Defaults landfall.Resources // 0 fields: see defaults
	Limits   Limits

	mu     sync.Mutex
	pools  map[key]*pool
	gone   map[*pool]struct{} // forgotten, and with processes yet
	total  int                // processes of all pools
	all    map[*process]struct{}
	closed bool
	lines  sync.Pool      // of *[]byte, for events on their way in
	left   sync.WaitGroup // the goroutines of all processes, and the calls of modules
	calls  map[*instance]struct{}
}

// defaults are what no function, trigger or administrator said: 128 MiB, 30 s of a call, 30 s of waiting, 16 at a time,
// as much processor time as there is. The disk is half of the memory.
func defaults() landfall.Resources {
	return landfall.Resources{Memory: landfall.DefaultMemory, Timeout: 30 * time.Second, IdleTimeout: 30 * time.Second,
		Concurrency: landfall.DefaultConcurrency}
}

func (l Limits) withDefaults() Limits {
	const processes, answer, log = 64, 6 << 20, 256 << 10
	return Limits{
		Processes: cmp.Or(l.Processes, processes), Answer: cmp.Or(l.Answer, answer), Log: cmp.Or(l.Log, log),
		Silence: cmp.Or(l.Silence, time.Minute),
	}
}

// withDefaults returns the function with all its resources.
func (r *Runner) withDefaults(f Function) Function {
	f.Resources = f.Resources.Or(r.Defaults).Or(defaults())
	f.Resources.Disk = cmp.Or(f.Resources.Disk, f.Resources.Memory/2)
	f.Resources.KeepWarm = min(f.Resources.KeepWarm, f.Resources.Concurrency) // which may be the trigger's
	return f
}

// Run makes a call of a function and returns its answer, which may be an event with an error. The answer belongs to the
// execution that the event names, or to a new one, says what event.Respond says, and has nothing of what only the
// function is told. What the function
// did instead of answering is the *function.Error in the error's chain, and function.EventError makes an event's error
// of it; it comes within the timeout and what it takes to kill a process. Busy is Unavailable. Invalid when the
// event cannot be written; Canceled when ctx ended or the runner is closed; Forbidden when functions are refused here.
func (r *Runner) Run(ctx context.Context, f Function, c function.Call) (event.Event, error) {
	if ctx.Err() != nil {
		return event.Event{}, landfall.Wrapf("runner.Run", landfall.Canceled, context.Cause(ctx), "the call was given up")
	}
	f = r.withDefaults(f)
	deadline := time.Now().Add(f.Resources.Timeout)
	e := c.Event
	execution := event.ExecutionOf(e)
	if execution == "" {
		execution = uuid.NewString()
		e = e.Clone()
		event.SetExecution(&e, execution)
	}
	event.SetFollows(&e, false) // whoever says so: the function would take what comes next for its data
	var body function.Body
	if f.Body > 0 && c.Body != nil {
		body = c.Body
		defer body.Stop()
		defer context.AfterFunc(ctx, body.Stop)()
		e = e.Clone()
		e.DataEncoded = nil
		event.SetFollows(&e, true)
	}
	line, ok := r.lines.Get().(*[]byte)
	if !ok {
		line = new([]byte)
	}
	defer r.keep(line)
	var err error
	if *line, err = event.Append((*line)[:0], f.Form, e); err != nil {
		return event.Event{}, landfall.Wrapf("runner.Run", landfall.Invalid, err, "the event cannot be written as JSON")
	}
	*line = append(*line, '\n')
	t := task{execution: execution, line: *line, body: body, to: c.Stream, timeout: f.Resources.Timeout,
		deadline: deadline}
	call := r.runProcess
	if f.Module != nil {
		call = r.runModule
	}
	answer, err := call(ctx, f, t)
	if err != nil {
		return event.Event{}, err
	}
	event.SetExecution(&answer, execution)
	event.Respond(e, &answer)
	hideError(&answer, f.Hide)
	return answer, nil
}

// runProcess gives an event to a process, and returns the answer.
func (r *Runner) runProcess(ctx context.Context, f Function, t task) (event.Event, error) {
	for {
		p, err := r.acquire(f, t.execution)
		if err != nil {
			return event.Event{}, err
		}
		answer, err := p.call(ctx, t)
		if p.given != nil {
			return r.afterParts(ctx, p, answer, err)
		}
		if err == nil || p.served {
			if p.spent {
				r.discard(p, killing)
			} else {
				r.release(p)
			}
			return answer, err
		}
		if errors.Is(err, errStale) || p.ignored && ctx.Err() == nil && time.Now().Before(t.deadline) {
			r.discard(p, grace)
			continue // it had ended, or was about to end when the event came, and did not read it
		}
		r.discard(p, killing)
		return event.Event{}, err
	}
}

// hideError takes what must not be told out of the error that an answer is: it goes into logs and records.
func hideError(answer *event.Event, hide *secret.Redactor) {
	if hide != nil {
		event.ChangeError(answer, hide.String)
	}
}

// keep keeps a buffer for the next event, unless it is so large that it is better given back.
func (r *Runner) keep(line *[]byte) {
	if cap(*line) <= large {
		r.lines.Put(line)
	}
}

// Warm starts processes until as many are there as the function keeps warm. Those that are more go when they have
// waited.
func (r *Runner) Warm(f Function) error {
	if f.Module != nil {
		return nil // there is nothing that waits
	}
	f = r.withDefaults(f)
	r.cool(f)
	for {
		p, err := r.grow(f, f.Resources.KeepWarm, "")
		if errors.Is(err, errFull) {
			return nil
		}
		if err != nil {
			return err
		}
		r.release(p)
	}
}

// cool lets processes go that are not kept warm any more.
func (r *Runner) cool(f Function) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pool := r.pools[keyOf(f)]
	if pool == nil {
		return
	}
	pool.function = f
	if len(pool.idle) > 0 && !pool.armed && pool.spare() > 0 {
		r.arm(pool)
	}
}

// Forget ends the processes of a function version: idle ones now, others when they have answered.
func (r *Runner) Forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, pool := range r.pools {
		if k.id != id {
			continue
		}
		pool.forgotten = true
		r.gone[pool] = struct{}{}
		if pool.timer != nil {
			pool.timer.Stop()
		}
		delete(r.pools, k)
		pool.stop(len(pool.idle))
	}
}

// Count returns how many processes there are of a function version, and how many of them wait.
func (r *Runner) Count(id string) (processes, idle int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, pool := range r.pools {
		if k.id == id {
			processes += pool.total
			idle += len(pool.idle)
		}
	}
	return processes, idle
}

// Close kills every process, and returns when nothing of them is left. Calls that are under way fail, and so do later
// ones.
func (r *Runner) Close() {
	r.mu.Lock()
	r.closed = true
	for i := range r.calls {
		i.end()
	}
	for _, pool := range r.pools {
		if pool.timer != nil {
			pool.timer.Stop()
		}
	}
	for p := range r.all {
		p.Kill()
	}
	r.mu.Unlock()
	r.left.Wait()
}

func failed(reason function.Reason, trace, format string, args ...any) error {
	return &landfall.Error{Op: "runner.Run", Message: fmt.Sprintf(format, args...),
		Err: &function.Error{Reason: reason, Trace: trace}}
}

func busy(format string, args ...any) error {
	return &landfall.Error{
		Op: "runner.Run", Kind: landfall.Unavailable, Message: fmt.Sprintf(format, args...) + "; try again later",
		Err: &function.Error{Reason: function.ReasonBusy, RetryAfter: time.Second},
	}
}
