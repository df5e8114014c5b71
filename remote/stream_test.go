package remote_test

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/test/testkit"
)

func liveAtLast(_ context.Context, _ string, lines io.Writer) error {
	_, err := io.WriteString(lines, "live at last\n")
	return err
}

// random writes a file of n bytes that cannot be compressed.
func (w work) random(t *testing.T, name string, n int64) {
	t.Helper()
	f, err := os.Create(filepath.Join(w.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(f, rand.Reader, n); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// A push of 200 MB costs the server no memory.
func TestLargePush(t *testing.T) {
	t.Parallel()
	const size, allowed = 200_000_000, 64 << 20 // with all tests that run beside this one
	d := &doors{}
	s := serve(t, remote.Config{Receiver: d})
	w := newWork(t)
	for i := range 4 {
		w.random(t, fmt.Sprint("video-", i), size/4)
	}
	w.commit(t, "index.html", "<video>", "large")
	var highest atomic.Uint64
	measured, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(measured)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				highest.Store(max(highest.Load(), now.HeapAlloc))
			}
		}
	}()
	w.git(t, "push", s.address("shop", token), "main")
	close(stop)
	<-measured
	if _, n := d.last(); n != 1 {
		t.Errorf("got %d accepted pushes, want 1", n)
	}
	clone := work{t.TempDir()}
	clone.git(t, "clone", "-q", "--bare", s.address("shop", reader), ".")
	if got, want := clone.sha(t, "main"), w.sha(t, "main"); got != want {
		t.Errorf("got %s back, want %s", got, want)
	}
	// L-034: a push of 200 MB is streamed: the server's memory does not grow with it.
	if got := highest.Load(); got >= allowed || got == 0 {
		t.Errorf("got %d MiB of heap during the push, want less than %d", got>>20, allowed>>20)
	}
}

// The limit is said with its figure and its name, on the pusher's terminal, also when much more is sent.
func TestLimitOfAPush(t *testing.T) {
	t.Parallel()
	d := &doors{}
	s := serve(t, remote.Config{Receiver: d, MaxInput: 3 << 20})
	w := newWork(t)
	w.git(t, "push", s.address("shop", token), "main")
	w.random(t, "small", 2<<20)
	w.commit(t, "index.html", "two", "in several chunks")
	w.git(t, "push", s.address("shop", token), "main")
	for _, size := range []int64{4 << 20, 40 << 20} {
		w.random(t, "large", size)
		w.commit(t, "index.html", fmt.Sprint(size), "too large")
		out, err := w.try(t, "push", s.address("shop", token), "main")
		// N-008: what is over a limit fails with the limit, the figure and the setting's name.
		refused(t, out, err,
			"remote: The push is larger than 3 MiB, the limit that LANDFALL_MAX_PUSH sets (3145728 bytes). Nothing was changed.")
	}
	if _, n := d.last(); n != 2 {
		t.Errorf("got %d accepted pushes, want the first two", n)
	}
	// L-034: the limit is a setting, which the error names, and what is below another limit goes through.
	if got := s.heads(t, "shop")["refs/heads/main"]; got != w.sha(t, "main~2") {
		t.Errorf("got main at %s, want it where the second push left it", got)
	}
}

// A client that reads only after it has sent everything reads why its push is refused.
func TestLimitForClientsThatSendFirst(t *testing.T) {
	t.Parallel()
	s := serve(t, remote.Config{Receiver: &doors{}, MaxInput: 16 << 20})
	const size = 30 << 20
	body, sender := io.Pipe()
	go func() { // a pack of one blob, made as it is sent
		_, _ = sender.Write(rawPush("report-status side-band-64k", strings.Repeat("1", 40),
			append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"), objectHead(3, size)...)))
		z, _ := zlib.NewWriterLevel(sender, zlib.NoCompression)
		_, _ = io.CopyN(z, rand.Reader, size)
		_ = z.Close()
		_ = sender.Close()
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+pushPath, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", pushType)
	req.SetBasicAuth("any", token)
	req.Close = true
	conn := dial(t, s)
	if err := req.Write(conn); err != nil {
		t.Fatalf("sending: %v", err)
	}
	// N-008: a push over the limit is answered, not cut off.
	if text, err := io.ReadAll(conn); err != nil ||
		!bytes.Contains(text, []byte("larger than 16 MiB, the limit that LANDFALL_MAX_PUSH sets")) {
		t.Errorf("got %q, %v, want the limit", text, err)
	}
}

// Pushes at once to one repository and to many all arrive, each exactly once, though only a few are received at a time.
func TestPushesAtOnce(t *testing.T) {
	t.Parallel()
	const apps, branches = 4, 4
	d := &doors{accept: func([]remote.Update) ([]string, error) { return []string{"run"}, nil }, follow: liveAtLast}
	s := serve(t, remote.Config{Receiver: d, Parallel: 3})
	w := newWork(t)
	var pushes sync.WaitGroup
	for i := range apps * branches {
		pushes.Go(func() {
			out, err := w.command(t.Context(), "push", s.address(fmt.Sprint("shop-", i%apps), token),
				fmt.Sprint("main:branch-", i)).CombinedOutput()
			if err != nil {
				t.Errorf("push %d: %v: %s", i, err, out)
			}
			said(t, string(out), "remote: live at last")
		})
	}
	pushes.Wait()
	seen := map[string]int{}
	for _, updates := range d.accepted {
		for _, u := range updates {
			seen[string(u.Ref)]++
		}
	}
	for i := range apps * branches {
		// V7: every push that succeeded was accepted exactly once.
		if ref := fmt.Sprint("refs/heads/branch-", i); seen[ref] != 1 {
			t.Errorf("got %d acceptances of %s, want 1", seen[ref], ref)
		}
	}
}

// Two pushes race for one branch: git lets one of them move it, and only that one is accepted.
func TestRace(t *testing.T) {
	t.Parallel()
	var both sync.WaitGroup
	both.Add(2)
	d := &doors{}
	d.check = func([]remote.Update) error {
		both.Done()
		both.Wait() // both were checked before either moves
		return nil
	}
	s := serve(t, remote.Config{Receiver: d})
	results := make(chan error, 2)
	for i := range 2 {
		w := newWork(t)
		w.commit(t, "index.html", fmt.Sprint(i), fmt.Sprint("racer ", i))
		go func() { results <- w.command(t.Context(), "push", s.address("shop", token), "main").Run() }()
	}
	first, second := receive(t, "the first push", results), receive(t, "the second push", results)
	if (first == nil) == (second == nil) {
		t.Errorf("got %v and %v, want one to fail", first, second)
	}
	updates, n := d.last()
	// V7: a push that lost its race is not accepted.
	if n != 1 || updates[0].After != s.heads(t, "shop")["refs/heads/main"] {
		t.Errorf("got %d accepted pushes, %v, want the one that moved the branch", n, updates)
	}
}

// A client that goes away while it follows ends the following, not the run, and leaves no process.
func TestClientLeavesWhileFollowing(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	d := &doors{accept: func([]remote.Update) ([]string, error) { return []string{"run"}, nil }}
	d.follow = func(ctx context.Context, _ string, lines io.Writer) error {
		fmt.Fprintln(lines, "building")
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	s := serve(t, remote.Config{Receiver: d})
	w := newWork(t)
	cmd := w.command(t.Context(), "push", s.address("shop", token), "main")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), "building") {
	}
	if left := s.processes(t); len(left) != 0 {
		t.Errorf("following holds the processes %q", left)
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil { // as a terminal does on Ctrl-C
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := receive(t, "the end of Follow", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want cancelled", err)
	}
	s.Close() // waits for the request
	// V7: the push stays accepted.
	if got, n := d.last(); n != 1 || got[0].After != s.heads(t, "shop")["refs/heads/main"] {
		t.Errorf("got %d accepted pushes, %v, want the one", n, got)
	}
}

// A client that goes away, or sends no more, in the middle of its pack moves nothing and leaves nothing.
func TestClientLeavesWhileSending(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]bool{"it goes away": true, "it stalls": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &doors{}
			config := remote.Config{Receiver: d}
			if !leaves {
				config.Idle = 200 * time.Millisecond
			}
			s := serve(t, config)
			head := rawPush("report-status side-band-64k", strings.Repeat("1", 40),
				append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x10"), object(3, 5, []byte("hello"))...))
			conn := dial(t, s)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+pushPath, bytes.NewReader(head))
			if err != nil {
				t.Fatal(err)
			}
			req.SetBasicAuth("any", token)
			fmt.Fprintf(conn,
				"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Type: %s\r\nContent-Length: 1000000\r\n\r\n%s",
				pushPath, req.Header.Get("Authorization"), pushType, head)
			if leaves {
				testkit.Eventually(t, "git receives", func() bool { return len(s.processes(t)) > 0 })
				conn.Close()
			} else if text, err := io.ReadAll(conn); err != nil || !bytes.Contains(text, []byte("ng refs/heads/main")) {
				t.Errorf("got %q, %v, want the report of a push that failed", text, err)
			}
			testkit.Eventually(t, "no process is left", func() bool { return len(s.processes(t)) == 0 })
			s.Close()
			if got, n := s.heads(t, "shop"), len(d.accepted); len(got) != 0 || n != 0 {
				t.Errorf("got heads %v and %d accepted pushes, want none", got, n)
			}
			if left, _ := filepath.Glob(filepath.Join(s.root, "id-shop.git/objects/tmp_*")); len(left) != 0 {
				t.Errorf("the torn push left %v", left)
			}
		})
	}
}

// Between two lines that are far apart the client hears that somebody is there, so that no proxy gives up.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	alive := make(chan struct{})
	d := &doors{accept: func([]remote.Update) ([]string, error) { return []string{"run"}, nil }}
	d.follow = func(ctx context.Context, _ string, _ io.Writer) error {
		select {
		case <-alive:
		case <-ctx.Done():
		}
		return nil
	}
	// Idle is for clients that send, not for those that listen.
	s := serve(t, remote.Config{Receiver: d, Idle: 2 * time.Second})
	commit, content := emptyCommit()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+pushPath,
		bytes.NewReader(rawPush("side-band-64k", commit, content)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", pushType)
	req.SetBasicAuth("any", token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != "0005\x01" {
		t.Errorf("got %q, %v while nothing happens, want an empty packet", got, err)
	}
	close(alive)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
}
