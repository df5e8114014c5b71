package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"landfall.dev/landfall"
)

// maxCommands is the size of the list of references that one push may name: some ten thousand.
const maxCommands = 1 << 20

// large is the size from which git sends a push in chunks of unknown number (http.postBuffer).
const large = 1 << 20

// commands is the head of a push: what it asks for.
type commands struct {
	raw      []byte // as it came
	count    int
	sideband bool
}

// readCommands reads the head of a push. Invalid when it is not one.
func readCommands(in *bufio.Reader) (commands, error) {
	const op landfall.Op = "remote.readCommands"
	var c commands
	for {
		packet, err := readPacket(in)
		if err != nil {
			return c, landfall.Wrapf(op, landfall.Invalid, err, "the request is not a push as git sends it")
		}
		if c.raw = append(c.raw, packet...); len(c.raw) > maxCommands {
			return c, landfall.Errorf(op, landfall.Invalid,
				"the push names too many references at once: their list is limited to 1 MiB; push them in parts")
		}
		if string(packet) == flush {
			return c, nil
		}
		line, capabilities, _ := strings.Cut(string(packet[packetHead:]), "\x00")
		if strings.HasPrefix(line, "shallow ") {
			continue
		}
		// A line break inside of a name would make two lines of it in the hooks.
		if _, err := parseCommand(strings.TrimSuffix(line, "\n")); err != nil {
			return c, err
		}
		c.count++
		c.sideband = c.sideband || slices.Contains(strings.Fields(capabilities), "side-band-64k")
	}
}

// receive answers a push.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, repository Repository) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	in := packets(body)
	commands, err := readCommands(in)
	if err != nil {
		return err
	}
	out, err := s.begin(w, "application/x-"+receivePack+"-result")
	if err != nil {
		return err
	}
	defer out.end()
	if commands.count == 0 { // git asks whether it is let in, before it sends much
		_, _ = out.Write(nil)
		return nil
	}
	p := &push{
		server: s, repository: repository, logger: s.loggerOf(repository), path: s.Repositories.Path(repository.App),
		commands: commands, body: in, large: r.ContentLength < 0 || r.ContentLength > large,
		terminal: &terminal{out: out, sideband: commands.sideband}, fed: make(chan int64, 1), drained: make(chan struct{}),
	}
	return p.run(r.Context())
}

// push is one push on its way.
type push struct {
	server     *Server
	repository Repository
	logger     *slog.Logger
	path       string
	commands   commands
	large      bool
	body       io.Reader
	terminal   *terminal

	asked   map[landfall.RefName]command // what git asked for and was agreed to
	checked map[landfall.RefName]Update  // the same, as the rest knows it
	fed     chan int64                   // bytes of the pack that git took
	drained chan struct{}                // closed when nobody reads the body any more
}

// run takes the push from the first byte to the last line. An error means that nothing was answered yet.
func (p *push) run(ctx context.Context) error {
	lock, err := openLock(p.path)
	if err != nil {
		return &landfall.Error{Op: "remote.run", Err: err}
	}
	defer lock.Close()
	moved, err := p.receive(ctx, lock)
	if err != nil {
		return err
	}
	alive, stop := context.WithCancel(ctx)
	var beat sync.WaitGroup
	beat.Go(func() { p.terminal.keepAlive(alive) })
	since := time.Now()
	runs := p.accept(ctx, moved)
	lock.Close()
	p.follow(ctx, runs, since)
	stop()
	beat.Wait()
	p.terminal.end()
	<-p.drained
	return nil
}

// receive runs git until it has ended, and returns the updates that it made. From the agreement on, lock is held.
func (p *push) receive(ctx context.Context, lock *os.File) ([]Update, error) {
	const op landfall.Op = "remote.receive"
	leave, err := enter(ctx, p.server.receiving)
	if err != nil {
		return nil, err
	}
	defer leave()
	asks, toUs, err := os.Pipe()
	if err != nil {
		return nil, &landfall.Error{Op: op, Err: err}
	}
	defer asks.Close()
	defer toUs.Close()
	fromUs, answers, err := os.Pipe()
	if err != nil {
		return nil, &landfall.Error{Op: op, Err: err}
	}
	defer fromUs.Close()
	defer answers.Close()

	// Many small packs make git slow, many small files do not; large files are written twice as fast as a pack.
	unpackLimit := 100
	if p.large {
		unpackLimit = 1
	}
	// The client may go away: git ends by itself, and what was agreed to is done whole.
	cmd := p.server.Repositories.git(context.WithoutCancel(ctx),
		"-c", fmt.Sprintf("receive.unpackLimit=%d", unpackLimit),
		"-c", fmt.Sprintf("receive.maxInputSize=%d", p.server.MaxInput),
		"-c", "receive.hideRefs=!"+strings.TrimSuffix(landfall.ApplyPrefix, "/"),
		"receive-pack", "--stateless-rpc", p.path)
	cmd.ExtraFiles = []*os.File{toUs, fromUs, lock}
	var stderr complaint
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, &landfall.Error{Op: op, Err: err}
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, &landfall.Error{Op: op, Err: err}
	}
	if err := cmd.Start(); err != nil {
		return nil, failed(ctx, op, err, "")
	}
	toUs.Close()
	fromUs.Close()
	if err := restrain(cmd.Process.Pid); err != nil { // it waits for its input, and has no children yet
		return nil, failed(ctx, op, errors.Join(err, cmd.Cancel(), cmd.Wait()), stderr.String())
	}
	go p.feed(stdin)
	moved := make(chan []Update, 1)
	go func() { moved <- p.answer(ctx, lock, asks, answers) }()
	err = p.terminal.forward(stdout)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		p.logger.InfoContext(ctx, "git ended badly", "error", err, "stderr", stderr.String())
	}
	return <-moved, nil
}

// feed gives git what the client sends, and reads what git does not want, so that the client reads what git answers.
func (p *push) feed(git io.WriteCloser) {
	defer close(p.drained)
	_, err := git.Write(p.commands.raw)
	var n int64
	if err == nil {
		n, _ = io.Copy(git, p.body)
	}
	git.Close()
	p.fed <- n
	_, _ = io.CopyN(io.Discard, p.body, p.server.MaxInput)
}

// answer speaks with the hooks until git has ended, and returns the updates that were made.
func (p *push) answer(ctx context.Context, lock *os.File, asks io.Reader, answers io.WriteCloser) []Update {
	defer answers.Close()
	in := bufio.NewReader(asks)
	quarantine, err := in.ReadString('\n')
	if err != nil {
		return nil // git refuses by itself
	}
	list, err := readList(in)
	if err != nil {
		return nil
	}
	err = p.check(ctx, strings.TrimSuffix(quarantine, "\n"), list)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	verdict := "0\n"
	if err != nil {
		verdict = "1\n"
		p.complain(ctx, p.logger, "The push is refused", err)
	}
	if _, err := io.WriteString(answers, verdict); err != nil {
		return nil
	}
	list, err = readList(in)
	if err != nil {
		return nil // refused, or no reference could be moved
	}
	var moved []Update
	for _, c := range list {
		if p.asked[c.ref] == c {
			moved = append(moved, p.checked[c.ref])
		}
	}
	return moved
}

// readList reads what a hook was given, up to an empty line.
func readList(in *bufio.Reader) ([]command, error) {
	var list []command
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if line == "\n" {
			return list, nil
		}
		c, err := parseCommand(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
}

// check asks whether the references may move. quarantine is where the new objects lie; empty when there are none.
func (p *push) check(ctx context.Context, quarantine string, list []command) error {
	var env []string
	if quarantine != "" {
		quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
		env = []string{
			"GIT_OBJECT_DIRECTORY=" + quarantine,
			`GIT_ALTERNATE_OBJECT_DIRECTORIES="` + quote.Replace(filepath.Join(p.path, "objects")) + `"`,
		}
	}
	updates, err := p.server.Repositories.describe(ctx, p.path, env, list)
	if err != nil {
		return err
	}
	if err := p.server.Receiver.Check(ctx, p.repository, slices.Clone(updates)); err != nil {
		return err
	}
	p.asked, p.checked = map[landfall.RefName]command{}, map[landfall.RefName]Update{}
	for i, c := range list {
		p.asked[c.ref], p.checked[c.ref] = c, updates[i]
	}
	return nil
}

// accept hands over what moved, and returns the runs that it made.
func (p *push) accept(ctx context.Context, moved []Update) []string {
	if len(moved) == 0 {
		if limit := p.server.MaxInput; <-p.fed > limit {
			p.terminal.say(fmt.Sprintf("The push is larger than %.6g MiB, the limit that LANDFALL_MAX_PUSH sets (%d bytes). "+
				"Nothing was changed.",
				float64(limit)/(1<<20), limit))
		}
		return nil
	}
	moved = slices.DeleteFunc(moved, func(u Update) bool { return strings.HasPrefix(string(u.Ref), landfall.ApplyPrefix) })
	if len(moved) == 0 {
		return nil
	}
	runs, err := p.server.Receiver.Accept(context.WithoutCancel(ctx), p.repository, moved)
	if err != nil {
		p.complain(ctx, p.logger, "The push is kept, but could not be recorded", err)
		advice := "It is recorded as soon as that works; there is no need to push again."
		if landfall.Is(err, landfall.Conflict) {
			advice = "It may never be recorded: push again as soon as a server answers, which may be another one by then."
		}
		p.terminal.say(advice)
	}
	return runs
}

// follow writes the progress of the runs, while the client listens.
func (p *push) follow(ctx context.Context, runs []string, since time.Time) {
	for _, run := range runs {
		err := p.server.Receiver.Follow(ctx, run, since, p.terminal)
		p.terminal.finish()
		if ctx.Err() != nil { // the server stops; a client that has gone does not read it
			p.terminal.say("The server stops; the run goes on when it is back: landfall run show " + run)
			return
		}
		if err != nil {
			p.complain(ctx, p.logger.With("run", run), "The run "+run+" goes on, but cannot be followed", err)
		}
	}
}

// complain tells the person who pushed, and the operator when it is not the pusher's doing.
func (p *push) complain(ctx context.Context, logger *slog.Logger, what string, err error) {
	p.terminal.say(what + ": " + landfall.MessageOf(err))
	switch landfall.KindOf(err) {
	case landfall.Internal, landfall.Unavailable:
		logger.ErrorContext(ctx, what, "error", err)
	case landfall.Invalid, landfall.NotFound, landfall.Conflict, landfall.Unauthorized, landfall.Forbidden,
		landfall.Canceled:
	}
}
