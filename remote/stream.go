package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Packets of git's protocol: four hexadecimal digits, the length with these, then the content.
const (
	packetHead = 4
	maxPacket  = 65520
	flush      = "0000" // ends a list
	progress   = 2      // the side band whose text git shows as "remote: …"
)

// errPacket says that something is not a packet.
var errPacket = errors.New("not a packet of git's protocol")

// readPacket returns the next packet whole, with its head. It is valid until the next call; io.EOF at the end.
func readPacket(in *bufio.Reader) ([]byte, error) {
	head, err := in.Peek(packetHead)
	if err != nil {
		if len(head) > 0 {
			err = errors.Join(errPacket, err)
		}
		return nil, err
	}
	size, err := strconv.ParseUint(string(head), 16, 16)
	if err != nil || size > maxPacket {
		return nil, errPacket
	}
	packet, err := in.Peek(max(int(size), packetHead)) // less than four stands for a mark without content
	if err != nil {
		return nil, errors.Join(errPacket, err)
	}
	_, err = in.Discard(len(packet))
	return packet, err
}

// packets returns a reader whose buffer holds any packet.
func packets(in io.Reader) *bufio.Reader { return bufio.NewReaderSize(in, maxPacket) }

// stream is the body of an answer. Each write reaches the client at once. A client that takes nothing for the idle
// time, or that has gone, gets nothing any more, and every later write fails.
type stream struct {
	w    http.ResponseWriter
	idle time.Duration

	mu  sync.Mutex
	err error
}

// Write sends p.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	control := http.NewResponseController(s.w)
	n, err := 0, control.SetWriteDeadline(time.Now().Add(s.idle))
	if err == nil {
		n, err = s.w.Write(p)
	}
	if err == nil {
		err = control.Flush()
	}
	s.err = err
	return n, err
}

// end takes back the deadline, which belongs to the connection.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, http.NewResponseController(s.w).SetWriteDeadline(time.Time{}), io.ErrClosedPipe)
}

// terminal is what the person who pushed reads: git's own packets, and lines in git's side band.
type terminal struct {
	out      io.Writer
	sideband bool // the client understands it; else every line is dropped
	held     bool // git has written its last packet, which is held back so that lines can come before it
	line     []byte
}

// forward copies git's packets until in ends.
func (t *terminal) forward(in io.Reader) error {
	reader := packets(in)
	for {
		packet, err := readPacket(reader)
		if errors.Is(err, io.EOF) && !errors.Is(err, errPacket) {
			return nil
		}
		if err != nil {
			_, _ = io.Copy(io.Discard, reader) // git is not to wait for us
			return err
		}
		t.end()
		if string(packet) == flush {
			t.held = true
			continue
		}
		_, _ = t.out.Write(packet) // whether the client listens is nothing to git
	}
}

// end writes what was held back.
func (t *terminal) end() {
	if t.held {
		t.held = false
		_, _ = t.out.Write([]byte(flush))
	}
}

// say writes one line.
func (t *terminal) say(line string) {
	const width = 1000
	if t.sideband {
		_, _ = t.out.Write(packet(progress, clean(line, width)+"\n"))
	}
}

// Write writes each line as soon as it is whole. It never fails: whether the client listens is nothing to the run.
func (t *terminal) Write(p []byte) (int, error) {
	const longest = 8 << 10
	for line := range bytes.Lines(p) {
		t.line = append(t.line, line[:min(len(line), max(0, longest-len(t.line)))]...)
		if bytes.HasSuffix(line, []byte("\n")) {
			t.say(string(t.line))
			t.line = t.line[:0]
		}
	}
	return len(p), nil
}

// finish writes a last line that has no end.
func (t *terminal) finish() {
	if len(t.line) > 0 {
		t.say(string(t.line))
		t.line = nil
	}
}

// keepAlive sends empty packets, as git itself does, until ctx ends.
func (t *terminal) keepAlive(ctx context.Context) {
	const every = 5 * time.Second // git's own receive.keepAlive
	if !t.sideband {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_, _ = t.out.Write(packet(1, ""))
		}
	}
}

func packet(band byte, text string) []byte {
	return fmt.Appendf(nil, "%04x%c%s", packetHead+1+len(text), band, text)
}

// clean returns text without what a terminal would obey, and cut to width characters.
func clean(text string, width int) string {
	text = strings.Map(func(c rune) rune {
		if c != '\t' && (unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c)) {
			return -1
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if characters := []rune(text); len(characters) > width {
		return string(characters[:width-1]) + "…"
	}
	return text
}
