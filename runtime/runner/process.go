package runner

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/sandbox"
)

const (
	usual = 8 << 10 // bytes for an answer to begin with
	large = 1 << 20 // a larger buffer is not kept

	// atOnce is what a pipe takes in any case without that somebody reads. More is written while the answer is read: the
	// function may write before it has read all.
	atOnce = 4 << 10
)

// process is one process of a function. One call has it at a time.
type process struct {
	*sandbox.Process
	pool   *pool
	most   int           // bytes of an answer
	log    *log          // its standard error
	gone   chan struct{} // closed when it has ended and nobody counts it
	answer []byte        // what of the answer was read
	frame  frame

	output syscall.RawConn
	silent func(fd uintptr) // for waits: made once
	said   bool             // it wrote something that nobody asked for, or ended

	calling sync.Mutex // held by a call: the pipes are not closed under it

	ignored bool // it ended without having read the event of the last call
	spent   bool // it answered, but did not read all of the event

	// The runner's lock guards these.
	answered bool      // an event, at least once
	since    time.Time // when it became idle
	evicted  bool      // it is not counted any more
	ended    bool
}

// task is what one call gives to a process.
type task struct {
	execution string
	line      []byte // the event
	timeout   time.Duration
	deadline  time.Time
}

func (r *Runner) newProcess(pool *pool, started *sandbox.Process, execution string) (*process, error) {
	limits := r.Limits.withDefaults()
	p := &process{Process: started, pool: pool, most: limits.Answer, gone: make(chan struct{}), answer: make([]byte, 0, usual)}
	var err, failed error
	p.output, err = started.Stdout.SyscallConn()
	p.log, failed = newLog(started, pool.key.id, execution, r.Logs, limits.Log)
	if err = errors.Join(err, failed); err != nil {
		started.Kill()
		<-started.Done()
		started.Close()
		return nil, err
	}
	p.silent = func(fd uintptr) {
		var rest [64]byte
		for !p.said {
			n, err := unix.Read(int(fd), rest[:])
			if errors.Is(err, unix.EINTR) {
				continue
			}
			p.said = n == 0 || !blank(rest[:max(n, 0)])
			if err != nil {
				return
			}
		}
	}
	go p.log.read()
	return p, nil
}

// waits reports whether an idle process is alive and wrote nothing since its last answer: what it wrote would be taken for the
// answer to the next event.
func (p *process) waits() bool {
	err := p.output.Control(p.silent)
	return err == nil && !p.said
}

// stop lets an idle process end by itself, and kills it when it does not.
func (p *process) stop() {
	p.Stdin.Close()
	timer := time.AfterFunc(grace, p.Kill)
	go func() {
		<-p.gone
		timer.Stop()
	}()
}

// call gives an event to the process and reads its answer. After an error, or when it is spent, the process must be discarded.
func (p *process) call(ctx context.Context, t task) (event.Event, error) {
	p.calling.Lock()
	defer p.calling.Unlock()
	p.log.begin(t.execution)
	defer p.log.end()
	p.answer = p.answer[:0]
	if err := errors.Join(p.Stdin.SetWriteDeadline(t.deadline), p.Stdout.SetReadDeadline(t.deadline)); err != nil {
		return event.Event{}, p.fault(ctx, err, t)
	}
	done := context.AfterFunc(ctx, p.interrupt)
	err := p.exchange(t.line)
	if !done() && err == nil {
		err = context.Cause(ctx) // its deadlines may be overwritten at any moment now
	}
	if err != nil {
		return event.Event{}, p.fault(ctx, err, t)
	}
	answer, _, err := event.Parse(p.answer)
	if err != nil {
		return event.Event{}, failed(Protocol, p.log.trace(), "the function's answer is no event: %s", landfall.MessageOf(err))
	}
	if named := event.ExecutionOf(answer); named != "" && named != t.execution {
		return event.Event{}, failed(Protocol, p.log.trace(), "the function's answer names another execution")
	}
	if cap(p.answer) > large {
		p.answer = make([]byte, 0, usual)
	}
	return answer, nil
}

// interrupt ends reading and writing.
func (p *process) interrupt() {
	past := time.Unix(1, 0)
	_ = p.Stdin.SetWriteDeadline(past)
	_ = p.Stdout.SetReadDeadline(past)
}

// exchange writes a line, and reads a frame into answer.
func (p *process) exchange(line []byte) error {
	if len(line) <= atOnce {
		if _, err := p.Stdin.Write(line); err != nil {
			return err
		}
		return p.readFrame()
	}
	written := make(chan error, 1)
	go func() {
		_, err := p.Stdin.Write(line)
		written <- err
	}()
	err := p.readFrame()
	_ = p.Stdin.SetWriteDeadline(time.Unix(1, 0)) // who has answered has read all
	p.spent = <-written != nil
	return err
}

// These are what a process does wrong on its standard output.
var (
	errGarbage  = errors.New("it is no JSON object")
	errMore     = errors.New("there is more than one event")
	errTooLarge = errors.New("the answer is too large")
)

// readFrame reads one JSON object into answer.
func (p *process) readFrame() error {
	p.frame = frame{}
	for {
		if len(p.answer) == cap(p.answer) {
			if len(p.answer) > p.most {
				return errTooLarge
			}
			p.answer = append(make([]byte, 0, 2*cap(p.answer)), p.answer...)
		}
		n, err := p.Stdout.Read(p.answer[len(p.answer):cap(p.answer)])
		from := len(p.answer)
		p.answer = p.answer[:from+n]
		end, ok := p.frame.find(p.answer[from:])
		switch {
		case !ok:
			return errGarbage
		case end >= 0:
			rest := p.answer[from+end:]
			p.answer = p.answer[:from+end]
			if len(p.answer) > p.most {
				return errTooLarge
			}
			if !blank(rest) {
				return errMore
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// fault says why there is no answer.
func (p *process) fault(ctx context.Context, err error, t task) error {
	switch {
	case ctx.Err() != nil:
		return &landfall.Error{Op: "runner.Run", Kind: landfall.Canceled, Message: "the call was given up", Err: context.Cause(ctx)}
	case errors.Is(err, errGarbage):
		return failed(Protocol, p.log.trace(), "the function wrote what is no event on its standard output: %q; a log belongs on standard error", beginning(p.answer))
	case errors.Is(err, errMore):
		return failed(Protocol, p.log.trace(), "the function answered one event with more than one")
	case errors.Is(err, errTooLarge):
		return failed(TooLarge, p.log.trace(), "the function's answer is larger than the limit of %d bytes", p.most)
	case errors.Is(err, os.ErrDeadlineExceeded) && !p.died(0):
		return failed(Timeout, p.log.trace(), "the function did not answer within %s", t.timeout)
	case !p.died(max(killing, time.Until(t.deadline))): // what runs it holds the pipes, too, so it is ending
		return failed(Protocol, p.log.trace(), "the function closed its standard input or output before it answered")
	}
	return p.death(err, len(t.line))
}

// died reports whether the process has ended, or does so in a moment.
func (p *process) died(patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.Done():
		return true
	default:
	}
	if patience == 0 {
		return false
	}
	select {
	case <-p.Done():
		return true
	case <-timer.C:
		return false
	}
}

// death says how the process ended.
func (p *process) death(err error, sent int) error {
	result, failure := p.Result()
	if failure != nil {
		return &landfall.Error{Op: "runner.Run", Message: "the function could not be run", Err: failure}
	}
	p.log.drain()
	unheard := errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) || p.unread() == sent
	p.ignored = p.answered && len(p.answer) == 0 && unheard
	const signalled = 128
	switch half := !blank(p.answer); {
	case result.Killed != "":
		return failed(Memory, p.log.trace(), "the function was ended: %s", result.Killed)
	case result.ExitCode > signalled:
		return failed(Exit, p.log.trace(), "the function was ended by signal %d (%s)", result.ExitCode-signalled, syscall.Signal(result.ExitCode-signalled))
	case half:
		return failed(Exit, p.log.trace(), "the function ended with exit code %d in the middle of its answer", result.ExitCode)
	default:
		return failed(Exit, p.log.trace(), "the function ended with exit code %d before it answered", result.ExitCode)
	}
}

// unread returns how many bytes lie in the standard input that nobody read.
func (p *process) unread() int {
	conn, err := p.Stdin.SyscallConn()
	if err != nil {
		return 0
	}
	var n int
	_ = conn.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	if err != nil {
		return 0
	}
	return n
}

// beginning returns what a message shows of what a function wrote.
func beginning(text []byte) string {
	const most = 80
	s := strings.TrimSpace(string(text[:min(len(text), most)]))
	return strings.ToValidUTF8(s, "")
}

// ErrorOf returns what an event says in the place of an answer for an error of Run.
func ErrorOf(err error) event.Error {
	fault := event.Error{Message: landfall.MessageOf(err), Type: landfall.KindOf(err).String()}
	if f, ok := errors.AsType[*FunctionError](err); ok {
		fault.Type, fault.Trace = string(f.Reason), f.Trace
	}
	return fault
}
