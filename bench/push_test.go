package bench_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"landfall.dev/landfall/bench"
)

// script is what people write today: push to a bare repository, pull in place, bring the served folder up to date.
type script struct {
	site   *workTree
	pulled string // the work tree on the server
	served string
	url    string
}

func newScript(b *testing.B, s *workTree) *script {
	b.Helper()
	bare := s.newBare("script")
	k := &script{site: s, pulled: filepath.Join(b.TempDir(), "pulled"), served: b.TempDir()}
	run(b, "", "git", "clone", "--quiet", bare, k.pulled)
	run(b, k.pulled, "git", "config", "gc.auto", "0")
	web := httptest.NewServer(http.FileServer(http.Dir(k.served)))
	b.Cleanup(web.Close)
	k.url = web.URL
	return k
}

// deploy brings what was committed to the served folder. It is live when its last file is there.
func (k *script) deploy(b *testing.B, flags ...string) {
	b.Helper()
	k.site.Git("push", "--quiet", "script", "main")
	run(b, k.pulled, "git", "pull", "--quiet", "--ff-only", "origin", "main")
	k.sync(b, flags...)
}

// sync brings what was pulled to the served folder.
func (k *script) sync(b *testing.B, flags ...string) {
	b.Helper()
	run(b, "", "rclone", append([]string{"sync", filepath.Join(k.pulled, "site"), k.served}, flags...)...)
}

func (k *script) get(b *testing.B) func(path string) []byte {
	return func(path string) []byte { return get(b, http.DefaultClient, k.url+path) }
}

const checksum = "--checksum"

// BenchmarkP5 is the time from the start of `git push` until a visitor gets the new bytes.
func BenchmarkP5(b *testing.B) {
	s := newServer(b, "")
	work := newWorkTree(b, siteFiles)
	work.Git("remote", "add", "landfall", s.Remote(s.App("bench")))
	tuned := newScript(b, work)
	peer := "git push, git pull, rclone sync " + checksum
	first := table.Row(bench.Row{Figure: "P5 first push of 10,000 files, until live", Unit: "ms", Peer: peer})
	live := table.Row(bench.Row{Figure: "P5 push of 100 of 10,000 files, until live", Unit: "ms", Peer: peer, Floor: 0.5,
		Target: 0.25})
	whole := table.Row(bench.Row{Figure: "P5 the same, until git push returns", Unit: "ms", Peer: peer})
	times := table.Row(bench.Row{Figure: "P5 until live, beside a script that trusts times", Unit: "ms",
		Peer: "the same without " + checksum})

	work.commit()
	ours, _ := s.pushUntilLive(work, work.all())
	s.settled()
	first.Add(ours, timed(func() { tuned.deploy(b, checksum) }))
	work.check(work.all(), tuned.get(b))
	quick := &script{site: work, pulled: tuned.pulled, served: b.TempDir()}
	quick.sync(b)

	var steps stepTimes
	for b.Loop() {
		changed := work.changeSome()
		commit := work.commit()
		s.settled()
		ours, returned := s.pushUntilLive(work, changed)
		steps.add(s.finished("bench", commit))
		s.settled()
		theirs := timed(func() { tuned.deploy(b, checksum) })
		work.check(changed, tuned.get(b))
		quick.sync(b)
		live.Add(ours, theirs)
		whole.Add(returned, theirs)

		changed = work.changeSome()
		work.commit()
		s.settled()
		ours, _ = s.pushUntilLive(work, changed)
		s.settled()
		times.Add(ours, timed(func() { quick.deploy(b) }))
		work.check(changed, inFolder(b, quick.served))
		tuned.sync(b, checksum)
	}
	table.Notef("P5: %s; %s. The script's push goes to a folder of the same machine, ours through HTTP with a token. "+
		"The script flushes nothing to the disk.",
		version(b, "rclone", "version"), version(b, "git", "--version"))
	table.Notef("P5, where the time of the server goes: %s", &steps)
	summarize(b, live)
}

// pushUntilLive pushes what was committed, and returns after how long the first of the changed files was served with
// its new bytes, and after how long git returned. All of them are then served.
func (s *server) pushUntilLive(work *workTree, changed []int) (live, returned float64) {
	s.T.Helper()
	page := s.live("bench")
	type end struct {
		after time.Duration
		said  string
		err   error
	}
	ended := make(chan end, 1)
	timed(func() {
		begin := time.Now()
		go func() {
			said, err := work.Try("push", "landfall", "main")
			ended <- end{time.Since(begin), said, err}
		}()
		want := work.bytes[changed[0]]
		await(s.T, "the push is live", 2*time.Millisecond, func() bool { return bytes.Equal(page(name(changed[0])), want) })
		live = ms(time.Since(begin))
	})
	e := <-ended
	if e.err != nil {
		s.T.Fatalf("git push: %v\n%s", e.err, e.said)
	}
	work.check(changed, page)
	return live, ms(e.after)
}
