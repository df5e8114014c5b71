package remote_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/remote"
)

// What a push did reaches Accept as updates that the rest of the program can use without git.
func TestPushesBecomeUpdates(t *testing.T) {
	t.Parallel()
	d := &doors{}
	s := serve(t, remote.Config{Receiver: d})
	w := newWork(t)
	w.git(t, "remote", "add", "origin", s.address("shop", token))
	first := w.sha(t, "HEAD")

	w.git(t, "push", "origin", "main")
	equal(t, d, remote.Update{Ref: "refs/heads/main", After: first, Message: "first"})
	if d.actors[0] != "ada" {
		t.Errorf("got actor %q, want ada", d.actors[0])
	}

	w.write(t, "long.txt", []byte(strings.Repeat("a long text that makes a delta worth while\n", 2000)))
	w.commit(t, "two.html", "<h1>two</h1>", "the base of a delta")
	w.git(t, "push", "origin", "main")
	base := w.sha(t, "HEAD")
	w.write(t, "long.txt", []byte(strings.Repeat("a long text that makes a delta worth while\n", 2000)+"and one line\n"))
	second := w.commit(t, "two.html", "<h1>2</h1>", "a thin pack")
	w.git(t, "push", "--thin", "origin", "main")
	equal(t, d, remote.Update{Ref: "refs/heads/main", Before: base, After: second, Message: "a thin pack"})

	w.git(t, "tag", "-a", "v1", "-m", "release", string(base))
	w.git(t, "push", "origin", "v1")
	equal(t, d, remote.Update{Ref: "refs/tags/v1", After: base, Message: "the base of a delta"})

	w.git(t, "tag", "-a", "-f", "v1", "-m", "once more", string(first))
	w.git(t, "push", "-f", "origin", "v1")
	equal(t, d, remote.Update{Ref: "refs/tags/v1", Before: base, After: first, Forced: true, Message: "first"})
	if got := s.heads(t, "shop")["refs/tags/v1"]; got != first {
		t.Errorf("got the tag at %s, want it peeled to %s", got, first)
	}

	w.git(t, "push", "origin", ":v1")
	equal(t, d, remote.Update{Ref: "refs/tags/v1", Before: first})

	w.git(t, "reset", "-q", "--hard", string(first))
	other := w.commit(t, "two.html", "<h1>another</h1>", "history \x1b[31mrewritten")
	w.git(t, "push", "-f", "origin", "main")
	equal(t, d, remote.Update{Ref: "refs/heads/main", Before: second, After: other, Forced: true,
		Message: "history [31mrewritten"})

	w.git(t, "push", "origin", "main:a", "main:b/c", "v1:refs/tags/v2")
	equal(t, d, remote.Update{Ref: "refs/heads/a", After: other, Message: "history [31mrewritten"},
		remote.Update{Ref: "refs/heads/b/c", After: other, Message: "history [31mrewritten"},
		remote.Update{Ref: "refs/tags/v2", After: first, Message: "first"})

	w.git(t, "push", "origin", ":main", ":a")
	equal(t, d, remote.Update{Ref: "refs/heads/main", Before: other}, remote.Update{Ref: "refs/heads/a", Before: other})

	before := len(d.accepted)
	w.git(t, "push", "origin", "main:b/c")
	if len(d.accepted) != before {
		t.Errorf("got %d accepted pushes after one that moved nothing, want %d", len(d.accepted), before)
	}
}

// What was pushed can be cloned and fetched, by every version of the protocol, and nothing of ours is shown.
func TestFetches(t *testing.T) {
	t.Parallel()
	d := &doors{}
	s := serve(t, remote.Config{Receiver: d})
	w := newWork(t)
	w.git(t, "push", s.address("shop", token), "main", "main:refs/landfall/apply/abcdefgh")
	for _, protocol := range []string{"0", "1", "2"} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			t.Parallel()
			clone := work{t.TempDir()}
			clone.git(t, "-c", "protocol.version="+protocol, "clone", "-q", s.address("shop", reader), ".")
			if got, want := clone.sha(t, "HEAD"), w.sha(t, "HEAD"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			listed := clone.git(t, "-c", "protocol.version="+protocol, "ls-remote", "origin")
			if strings.Contains(listed, "landfall") || !strings.Contains(listed, "refs/heads/main") {
				t.Errorf("got the references %q, want refs/heads/main and none of ours", listed)
			}
		})
	}
	for header, want := range map[string]bool{"version=2": true, "": false, "version=2:x": false, "version=2\tx": false} {
		t.Run(fmt.Sprintf("protocol header %q", header), func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				s.URL+"/git/shop.git/info/refs?service=git-upload-pack", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.SetBasicAuth("any", reader)
			req.Header.Set("Git-Protocol", header)
			if status, text := answer(t, req); status != http.StatusOK || strings.Contains(text, "version 2") != want {
				t.Errorf("got %d %q, want version 2: %v", status, text, want)
			}
		})
	}
	t.Run("a fetch that has much to say is compressed by git", func(t *testing.T) {
		t.Parallel()
		clone := work{t.TempDir()}
		clone.git(t, "clone", "-q", s.address("shop", reader), ".")
		for i := range 64 {
			clone.git(t, "commit", "-q", "--allow-empty", "-m", fmt.Sprint("own commit ", i))
		}
		other := newWork(t)
		other.git(t, "push", s.address("shop", token), "main:other")
		clone.git(t, "fetch", "-q", "origin", "other")
		if got, want := clone.sha(t, "FETCH_HEAD"), other.sha(t, "HEAD"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// The person who pushed reads each line when it is written, not when everything is over.
func TestProgressArrivesAsItHappens(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{})
	d := &doors{accept: func([]remote.Update) ([]string, error) { return []string{"run-1", "run-2"}, nil }}
	d.follow = func(ctx context.Context, run string, lines io.Writer) error {
		if run == "run-2" {
			fmt.Fprint(lines, "two and ", "a line without end")
			return errors.New("the cause is for the operator")
		}
		fmt.Fprint(lines, "building \x1b[2Jshop\r\n")
		select {
		case <-seen:
		case <-ctx.Done():
			return ctx.Err()
		}
		fmt.Fprintln(lines, "live at http://shop.example.com/")
		fmt.Fprintln(lines, strings.Repeat("long ", 30_000))
		return nil
	}
	s := serve(t, remote.Config{Receiver: d})
	w := newWork(t)
	cmd := w.command(t.Context(), "push", s.address("shop", token), "main")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	lines := bufio.NewScanner(stderr)
	for first := true; lines.Scan(); {
		fmt.Fprintln(&all, lines.Text())
		if first && strings.Contains(lines.Text(), "building") {
			first = false
			close(seen) // Follow goes on only now: the line was here before the push ended
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the push failed: %v", err)
	}
	// L-011: a push prints what happened, while it happens, with the release's address.
	said(t, all.String(), "remote: building [2Jshop", "remote: live at http://shop.example.com/",
		"remote: long long", "long…", "remote: two and a line without end",
		"remote: The run run-2 goes on, but cannot be followed: internal error")
	if strings.Contains(all.String(), "the operator") {
		t.Errorf("the pusher was shown the operator's cause: %s", all.String())
	}
	said(t, s.log.String(), "the cause is for the operator")
}

// References are moved by git before they are accepted: a push that cannot be recorded is kept, and the pusher is told.
func TestAcceptFails(t *testing.T) {
	t.Parallel()
	d := &doors{accept: func([]remote.Update) ([]string, error) {
		return nil, &landfall.Error{Kind: landfall.Unavailable, Message: "the disk is full"}
	}}
	s := serve(t, remote.Config{Receiver: d})
	w := newWork(t)
	out := w.git(t, "push", s.address("shop", token), "main")
	said(t, out, "remote: The push is kept, but could not be recorded: the disk is full",
		"remote: It is recorded as soon as that works")
	// V7: what moved without being accepted is found by reading the heads.
	if got, want := s.heads(t, "shop")["refs/heads/main"], w.sha(t, "HEAD"); got != want {
		t.Errorf("got main at %s, want %s", got, want)
	}
}

// Where another process accepts what is pushed by now, nobody may ever look at the heads of this one: the pusher is not
// told to wait.
func TestAcceptIsAnothersByNow(t *testing.T) {
	t.Parallel()
	d := &doors{accept: func([]remote.Update) ([]string, error) {
		return nil, &landfall.Error{Kind: landfall.Conflict, Message: "another landfall process owns the database meanwhile"}
	}}
	s := serve(t, remote.Config{Receiver: d})
	out := newWork(t).git(t, "push", s.address("shop", token), "main")
	said(t, out, "could not be recorded: another landfall process owns the database",
		"remote: It may never be recorded: push again as soon as a server answers")
	if strings.Contains(out, "no need to push again") {
		t.Errorf("the pusher was told to do nothing: %s", out)
	}
}

// The heads are never read between the agreement to a move and its acceptance.
func TestHeadsWaitForAcceptance(t *testing.T) {
	t.Parallel()
	accepting, accept := make(chan struct{}), make(chan struct{})
	d := &doors{accept: func([]remote.Update) ([]string, error) {
		close(accepting)
		<-accept
		return nil, nil
	}}
	s := serve(t, remote.Config{Receiver: d})
	w := newWork(t)
	pushed := make(chan error, 1)
	go func() { pushed <- w.command(t.Context(), "push", s.address("shop", token), "main").Run() }()
	receive(t, "Accept", accepting)
	// A machine that needs longer than this for one reading proves nothing here, but breaks nothing either.
	impatient, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if got, err := s.repositories.Heads(impatient, "id-shop"); landfall.KindOf(err) != landfall.Canceled {
		t.Errorf("got heads %v, %v while a push is being accepted, want to wait", got, err)
	}
	close(accept)
	if err := receive(t, "the end of the push", pushed); err != nil {
		t.Errorf("the push failed: %v", err)
	}
	if got := s.heads(t, "shop"); len(got) != 1 {
		t.Errorf("got heads %v, want main", got)
	}
}

// `spec version apply` brings its commit by a reference of its own, which is made once, and no push.
func TestApplyReferences(t *testing.T) {
	t.Parallel()
	d := &doors{}
	s := serve(t, remote.Config{Receiver: d})
	w := newWork(t)
	w.git(t, "push", s.address("shop", token), "HEAD:refs/landfall/apply/k2f7qaow")
	if _, n := d.last(); n != 0 || len(d.checked) != 1 {
		t.Errorf("got %d accepted pushes and %d checks of an apply's reference, want 0 and 1", n, len(d.checked))
	}
	if got, want := s.heads(t, "shop")["refs/landfall/apply/k2f7qaow"], w.sha(t, "HEAD"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	w.commit(t, "index.html", "two", "second")
	out, err := w.try(t, "push", "-f", s.address("shop", token), "HEAD:refs/landfall/apply/k2f7qaow")
	refused(t, out, err, "remote rejected")
	out, err = w.try(t, "push", s.address("shop", token), ":refs/landfall/apply/k2f7qaow")
	refused(t, out, err)
	out, err = w.try(t, "push", s.address("shop", token), "HEAD:refs/landfall/apply/Short")
	refused(t, out, err, "8 to 40 of a-z and 0-9")
	out, err = w.try(t, "push", s.address("shop", token), "HEAD:refs/landfall/keep/k2f7qaow")
	refused(t, out, err, "hidden ref")
	if got := s.heads(t, "shop"); len(got) != 1 {
		t.Errorf("got heads %v, want the first one only", got)
	}
}
