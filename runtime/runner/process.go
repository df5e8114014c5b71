package runner

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall"
	"landfall.dev/landfall/event"
	"landfall.dev/landfall/runtime/function"
	"landfall.dev/landfall/sandbox"
	"landfall.dev/landfall/secret"
)

const (
	usual = 8 << 10 // bytes for an answer to begin with
	large = 1 << 20 // a larger buffer is not kept

	// atOnce is what a pipe takes in any case without that somebody reads. More is written while the answer is read: the
	// function may write before it has read all.
	atOnce = 4 << 10

	// slack is what a deadline may be late by, so that not every call needs a timer of its own.
	slack = 20 * time.Millisecond
)

// process is one process of a function. One call has it at a time, and doc.go draws its states.
type process struct {
	*sandbox.Process
	exchange // that is under way, or was the last one

	pool  *pool
	most  int           // bytes of an answer
	quiet time.Duration // for which it may be silent in the middle of one
	log   *log          // its standard error
	hide  *secret.Redactor
	gone  chan struct{} // closed when it has ended and nobody counts it

	calling sync.Mutex // held by a call: the pipes are not closed under it
	input   uintptr
	output  syscall.RawConn
	cut     func()                // hurry: made once
	hurried chan struct{}         // hurry has done its work
	step    func(fd uintptr) bool // advance: made once
	until   time.Time             // when the pipes' deadlines are: at the task's, or up to slack after it

	// The runner's lock guards these. Only who has the process for a call changes since, and may read it without the lock.
	since time.Time // when it became idle for the last time; zero: it never was
	state state
}

// state is where a process is in its life.
type state int

const (
	alive    state = iota // a call has it, or it is idle
	stopping              // it ends, and gets no event any more
	evicted               // it was killed for another one, and is not counted any more
	ended                 // it is reaped
)

// exchange is one event that goes into a process, and the answer that comes out.
type exchange struct {
	task   task
	asked  bool   // the process was given the event
	wrong  error  // that a step met
	answer []byte // what of it was read: of a streamed one, the part
	rest   []byte // what was read behind it, which is a part of a streamed one
	frame  frame

	given     *given // the parts behind the event; nil: there are none
	confirmed bool   // the process said that it has read them

	served  bool // there is an answer, but the caller had gone away
	spent   bool // there is an answer, but the process did not read all of the event
	ignored bool // the process, which had answered others, ended without having read the event
}

// task is what one call gives to a process.
type task struct {
	execution string
	line      []byte          // the event
	body      function.Body   // its data, in parts that follow it; nil: the event has it
	to        function.Stream // takes an answer that is streamed; nil: it is gathered
	timeout   time.Duration
	deadline  time.Time
}

func (r *Runner) newProcess(pool *pool, f Function, started *sandbox.Process, execution string) (*process, error) {
	limits := r.Limits.withDefaults()
	p := &process{Process: started, pool: pool, most: limits.Answer, quiet: limits.Silence, hide: f.Hide,
		gone: make(chan struct{}), hurried: make(chan struct{}, 1), exchange: exchange{answer: make([]byte, 0, usual)}}
	p.cut, p.step = p.hurry, p.advance
	if err := p.connect(f, execution, r.Logs, limits.Log); err != nil {
		started.Kill()
		<-started.Done()
		started.Close()
		return nil, err
	}
	go p.log.read()
	return p, nil
}

// connect takes the pipes of a process that was started for an execution.
func (p *process) connect(f Function, execution string, sink Logs, most int) error {
	input, err := p.Stdin.SyscallConn()
	if err != nil {
		return err
	}
	if p.input, err = descriptor(input); err != nil {
		return err
	}
	if p.output, err = p.Stdout.SyscallConn(); err != nil {
		return err
	}
	p.log, err = newLog(p.Process, f, execution, sink, most)
	return err
}

// errStale says that an idle process cannot take an event: it has ended, or wrote what would be taken for the answer.
var errStale = errors.New("it is not idle")

// prepare makes the process one that is in the execution of its task. errStale when it does not wait for an event.
func (p *process) prepare(fd uintptr) error {
	if p.since.IsZero() {
		p.log.drain()
	} else {
		wrote, logged := pending(fd, p.log.fd)
		if wrote && !p.silent(fd) {
			return errStale
		}
		if logged {
			p.log.drain()
		}
	}
	p.log.begin(p.task.execution)
	return nil
}

// silent reads white space, and reports whether there was nothing else.
func (p *process) silent(fd uintptr) bool {
	var rest [64]byte
	for {
		n, err := readNow(fd, rest[:])
		if err != nil {
			return true
		}
		if n == 0 || !blank(rest[:n]) {
			return false
		}
	}
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

// call gives an event to the process and reads its answer. After an error, or when it is spent, the process must be
// discarded.
func (p *process) call(ctx context.Context, t task) (event.Event, error) {
	p.calling.Lock()
	defer p.calling.Unlock()
	defer p.log.end()
	p.exchange = exchange{task: t, answer: p.answer[:0]}
	if t.deadline.After(p.until) || p.until.Sub(t.deadline) > slack {
		p.until = t.deadline.Add(slack)
		if err := errors.Join(p.Stdin.SetWriteDeadline(p.until), p.Stdout.SetReadDeadline(p.until)); err != nil {
			return event.Event{}, p.fault(ctx, err, t)
		}
	}
	done := context.AfterFunc(ctx, p.cut)
	err := p.roundTrip()
	p.task = task{}
	hurried := !done()
	if hurried {
		<-p.hurried
	}
	if hurried || len(t.line) > atOnce || p.given != nil {
		p.until = time.Time{} // the deadlines are others now
	}
	if errors.Is(err, errStale) {
		return event.Event{}, err
	}
	if err != nil && p.rest == nil {
		return event.Event{}, p.fault(ctx, err, t)
	}
	answer, wrong := parse(p.answer, t.execution, p.hide, p.log)
	if p.given != nil && wrong == nil {
		p.confirmed = event.HasRead(&answer)
	}
	switch {
	case wrong == nil && event.Streams(answer):
		return p.stream(ctx, t, answer)
	case p.given != nil && wrong == nil && errors.Is(err, errMore): // which may be that it has read all
	case err != nil:
		return event.Event{}, p.fault(ctx, err, t)
	case wrong != nil:
		return event.Event{}, wrong
	}
	if cap(p.answer) > large {
		p.answer = make([]byte, 0, usual)
	}
	if p.served = ctx.Err() != nil; p.served {
		return event.Event{}, p.fault(ctx, ctx.Err(), t)
	}
	return answer, nil
}

// parse reads the answer of an execution.
func parse(text []byte, execution string, hide *secret.Redactor, log *log) (event.Event, error) {
	answer, err := event.ParseAnswer(text)
	if err != nil && hide.Finds(text) {
		return event.Event{}, failed(function.ReasonProtocol, log.trace(),
			"the function's answer is no event, and has a secret in it")
	}
	if err != nil {
		return event.Event{}, failed(function.ReasonProtocol, log.trace(), "the function's answer is no event: %s",
			landfall.MessageOf(err))
	}
	if named := event.ExecutionOf(answer); named != "" && named != execution {
		return event.Event{}, failed(function.ReasonProtocol, log.trace(), "the function's answer names another execution")
	}
	return answer, nil
}

// hurry lets a function whose caller has gone away answer in a moment, so that its process stays: else a client that
// closes its connections would cost others as many processes.
func (p *process) hurry() {
	soon := time.Now().Add(grace)
	if p.until.Before(soon) {
		soon = p.until
	}
	_ = p.Stdin.SetWriteDeadline(soon)
	_ = p.Stdout.SetReadDeadline(soon)
	p.hurried <- struct{}{}
}

// roundTrip gives the function the task's event, and reads a frame into answer.
func (p *process) roundTrip() error {
	line := p.task.line
	if len(line) <= atOnce && p.task.body == nil {
		return p.read()
	}
	var err error
	if closed := p.output.Control(func(fd uintptr) { err = p.prepare(fd) }); closed != nil {
		return os.ErrClosed
	}
	if err != nil {
		return err
	}
	p.asked = true
	if p.task.body != nil {
		p.give()
		return p.read()
	}
	written := make(chan error, 1)
	go func() {
		_, err := p.Stdin.Write(line)
		written <- err
	}()
	err = p.read()
	_ = p.Stdin.SetWriteDeadline(time.Unix(1, 0)) // who has answered has read all
	p.spent = <-written != nil
	return err
}

// read advances until the answer is there.
func (p *process) read() error {
	err := p.output.Read(p.step)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return os.ErrClosed
	}
	return cmp.Or(err, p.wrong)
}

// advance asks the function, unless it was asked, and reads what is there of the answer. It returns false when the rest
// is yet to come. What comes from the time on when it is called wakes up who waits for it: an idle function, which was
// seen to be silent, is not read from before.
func (p *process) advance(fd uintptr) (done bool) {
	if !p.asked {
		p.asked = true
		if p.wrong = p.prepare(fd); p.wrong == nil {
			p.wrong = p.ask()
		}
		if p.wrong != nil || !p.since.IsZero() {
			return p.wrong != nil
		}
	}
	for {
		if p.wrong = p.grow(); p.wrong != nil {
			return true
		}
		n, err := readNow(fd, p.answer[len(p.answer):cap(p.answer)])
		if errors.Is(err, unix.EAGAIN) {
			return false
		}
		if n == 0 && err == nil {
			err = io.EOF
		}
		if done, p.wrong = p.take(n); done || p.wrong != nil {
			return true
		}
		if p.wrong = err; err != nil {
			return true
		}
	}
}

// ask writes a small line.
func (p *process) ask() error {
	n, err := writeNow(p.input, p.task.line)
	if n == len(p.task.line) || (err != nil && !errors.Is(err, unix.EAGAIN)) {
		return err
	}
	_, err = p.Stdin.Write(p.task.line[n:]) // it did not read what it was given before
	return err
}

// These are what a process does wrong on its standard output.
var (
	errGarbage  = errors.New("it is no JSON object")
	errMore     = errors.New("there is more than one event")
	errTooLarge = errors.New("the answer is too large")
)

// grow makes room for more of the answer.
func (p *process) grow() error {
	if len(p.answer) < cap(p.answer) {
		return nil
	}
	if len(p.answer) > p.most {
		return errTooLarge
	}
	p.answer = append(make([]byte, 0, 2*cap(p.answer)), p.answer...)
	return nil
}

// take takes n bytes that were read behind the answer, and reports whether it is complete.
func (p *process) take(n int) (done bool, err error) {
	from := len(p.answer)
	p.answer = p.answer[:from+n]
	end, ok := p.frame.find(p.answer[from:])
	switch {
	case !ok:
		return false, errGarbage
	case end < 0:
		return false, nil
	}
	rest := p.answer[from+end:]
	p.answer = p.answer[:from+end]
	if len(p.answer) > p.most {
		return false, errTooLarge
	}
	if !blank(rest) {
		p.rest = rest
		return false, errMore
	}
	return true, nil
}

// fault says why there is no answer.
func (p *process) fault(ctx context.Context, err error, t task) error {
	switch {
	case ctx.Err() != nil:
		return landfall.Wrapf("runner.Run", landfall.Canceled, context.Cause(ctx), "the call was given up")
	case errors.Is(err, errGarbage), errors.Is(err, errMore), errors.Is(err, errTooLarge):
		return wrote(err, p.answer, p.hide, p.most, p.log.trace())
	case errors.Is(err, os.ErrDeadlineExceeded) && !p.died(0):
		return failed(function.ReasonTimeout, p.log.trace(), "the function did not answer within %s", t.timeout)
	case !p.died(max(killing, time.Until(t.deadline))): // what runs it holds the pipes, too, so it is ending
		return failed(function.ReasonProtocol, p.log.trace(),
			"the function closed its standard input or output before it answered")
	}
	return p.death(err, len(t.line))
}

// wrote says what is wrong with what a function wrote.
func wrote(err error, answer []byte, hide *secret.Redactor, most int, trace string) error {
	switch {
	case errors.Is(err, errMore):
		return failed(function.ReasonProtocol, trace, "the function answered one event with more than one")
	case errors.Is(err, errTooLarge):
		return failed(function.ReasonTooLarge, trace, "the function's answer is larger than the limit of %d bytes", most)
	}
	return failed(function.ReasonProtocol, trace,
		"the function wrote what is no event on its standard output: %q; a log belongs on standard error",
		beginning(answer, hide))
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
		return landfall.Wrapf("runner.Run", landfall.Internal, failure, "the function could not be run")
	}
	p.log.drain()
	unheard := errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) || p.unread() == sent
	p.ignored = !p.since.IsZero() && len(p.answer) == 0 && unheard
	const signalled = 128
	switch half := !blank(p.answer); {
	case result.Killed != "":
		return failed(function.ReasonMemory, p.log.trace(), "the function was ended: %s", result.Killed)
	case result.ExitCode > signalled:
		return failed(function.ReasonExit, p.log.trace(), "the function was ended by signal %d (%s)",
			result.ExitCode-signalled, syscall.Signal(result.ExitCode-signalled))
	case half:
		return failed(function.ReasonExit, p.log.trace(), "the function ended with exit code %d in the middle of its answer",
			result.ExitCode)
	default:
		return failed(function.ReasonExit, p.log.trace(), "the function ended with exit code %d before it answered",
			result.ExitCode)
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
func beginning(text []byte, hide *secret.Redactor) string {
	const most, ahead = 80, 4 << 10 // a secret that begins in what is shown may be longer
	s := hide.String(string(text[:min(len(text), ahead)]))
	s = strings.TrimSpace(s[:min(len(s), most)])
	return strings.ToValidUTF8(s, "")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
