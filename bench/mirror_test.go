package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/cgi"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/builder"
)

// forge gives bare repositories by HTTP, with git's own http-backend.
type forge struct {
	root string
	host string
}

func newForge(b *testing.B) *forge {
	b.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		b.Fatal(err)
	}
	f := &forge{root: b.TempDir()}
	web := httptest.NewServer(&cgi.Handler{Path: git, Args: []string{"http-backend"}, Stderr: io.Discard, Env: []string{
		"GIT_PROJECT_ROOT=" + f.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}})
	b.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	address, err := url.Parse(web.URL)
	if err != nil {
		b.Fatal(err)
	}
	f.host = address.Host
	return f
}

// repository makes an empty repository that takes pushes, and returns its folder and its address.
func (f *forge) repository(b *testing.B, name string) (dir, address string) {
	b.Helper()
	dir = filepath.Join(f.root, name+".git")
	run(b, "", "git", "init", "--quiet", "--bare", "--initial-branch=main", dir)
	for _, pair := range [][2]string{{"http.receivepack", "true"}, {"gc.auto", "0"}, {"uploadpack.allowAnySHA1InWant", "true"}} {
		run(b, dir, "git", "config", pair[0], pair[1])
	}
	return dir, "http://" + f.host + "/" + name + ".git"
}

// size is a repository of the figures: text files in folders, and a history of small changes.
type size struct {
	name                    string
	files, commits, changes int
}

// fill gives a bare repository its history.
func (s size) fill(b *testing.B, dir string) {
	b.Helper()
	var stream bytes.Buffer
	for i := range s.commits {
		fmt.Fprintf(&stream, "commit %s\ncommitter a <a@b> %d +0000\ndata 1\nx\n", branch, 1_700_000_000+i)
		for n := range s.changes {
			s.file(&stream, (i*s.changes+n)%s.files, i)
		}
		for f := range s.files {
			if i == 0 && f >= s.changes {
				s.file(&stream, f, i)
			}
		}
	}
	feed(b, dir, stream.Bytes(), "git", "fast-import", "--quiet")
	run(b, dir, "git", "repack", "-adq")
}

func (size) file(stream *bytes.Buffer, f, i int) {
	text := fmt.Sprintf("kind: Thing\nname: thing-%d\nrevision: %d\nsum: %x\nlist:\n%s", f, i, f*7919+i,
		strings.Repeat(fmt.Sprintf("  - item-%d\n", f%97), 10+f%30))
	fmt.Fprintf(stream, "M 100644 inline d%02d/s%d/f%d.yaml\ndata %d\n%s\n", f%100, f%5, f, len(text), text)
}

// push adds a commit that changes some files, and returns it.
func (s size) push(b *testing.B, dir string, round int) landfall.CommitSHA {
	b.Helper()
	var stream bytes.Buffer
	fmt.Fprintf(&stream, "commit %s\ncommitter a <a@b> %d +0000\ndata 1\nx\nfrom %s^0\n", branch, 1_800_000_000+round, branch)
	for n := range s.changes {
		s.file(&stream, n, 1_000_000+round)
	}
	feed(b, dir, stream.Bytes(), "git", "-c", "fastimport.unpackLimit=1000", "fast-import", "--quiet")
	return head(b, dir)
}

func head(b *testing.B, dir string) landfall.CommitSHA {
	b.Helper()
	return landfall.CommitSHA(run(b, dir, "git", "rev-parse", string(branch)))
}

// job is a fetch into a mirror, done in a process of its own.
type job struct {
	Root, URL, Host string
	Commit          landfall.CommitSHA
}

// result is what became of a job.
type result struct {
	Took float64 // ms
	Peak float64 // MiB
}

// runChild does the job that a process was started for.
func runChild(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	mirrors := &builder.Mirrors{Root: j.Root, Dialer: &builder.Dialer{AllowedHosts: []string{j.Host}}}
	begin := time.Now()
	mirror, err := mirrors.Fetch(context.Background(), builder.Remote{URL: j.URL}, branch, j.Commit)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	_, err = mirror.Commit(j.Commit)
	err = errors.Join(err, mirror.Close())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result{Took: ms(took), Peak: bench.PeakMemory("self")})
}

// gitMeasured runs git, and returns how long it took and the most memory that it, or a program that it started, held, in MiB.
// GNU time is between: a process inherits the figure of the one that starts it, and time is small.
func gitMeasured(b *testing.B, dir string, args ...string) (took, peak float64) {
	b.Helper()
	report := filepath.Join(b.TempDir(), "peak")
	took = timed(func() { run(b, dir, "/usr/bin/time", append([]string{"-f", "%M", "-o", report, "git"}, args...)...) })
	data, err := os.ReadFile(report)
	if err != nil {
		b.Fatal(err)
	}
	kib, err := strconv.ParseFloat(strings.TrimSpace(string(data)), 64)
	if err != nil {
		b.Fatal(err)
	}
	return took, kib / (1 << 10)
}

// BenchmarkP9 mirrors repositories of three sizes and keeps them up to date, over HTTP.
func BenchmarkP9(b *testing.B) {
	for _, s := range []size{
		{"100 files, 100 commits", 100, 100, 5},
		{"10,000 files, 500 commits", 10_000, 500, 40},
		{"10,000 files, 3,000 commits", 10_000, 3_000, 15},
	} {
		b.Run(s.name, func(b *testing.B) { benchMirror(b, s) })
	}
}

func benchMirror(b *testing.B, s size) {
	f := newForge(b)
	dir, address := f.repository(b, "origin")
	s.fill(b, dir)
	row := func(what, unit, peer string, floor, target float64) *bench.Row {
		return table.Row(bench.Row{Figure: "P9 " + what + ", " + s.name, Unit: unit, Peer: peer, Floor: floor, Target: target})
	}
	const clone, fetch = "git clone --mirror", "git fetch"
	cloneTime, cloneMemory := row("mirror clone", "ms", clone, 2.3, 1.3), row("peak memory of it", "MiB", clone, 0, 1.5)
	fetchTime, fetchMemory := row("fetch of one commit", "ms", fetch, 1.2, 1), row("peak memory of it", "MiB", fetch, 0, 0)

	ours := job{Root: b.TempDir(), URL: address, Host: f.host, Commit: head(b, dir)}
	theirs := filepath.Join(b.TempDir(), "mirror.git")
	inChild(b, ours)
	gitMeasured(b, "", "clone", "--quiet", "--mirror", address, theirs)
	for round := 0; b.Loop(); round++ {
		fresh := ours
		fresh.Root = b.TempDir()
		took, peak := inChild(b, fresh)
		bare := filepath.Join(b.TempDir(), "mirror.git")
		gitTook, gitPeak := gitMeasured(b, "", "clone", "--quiet", "--mirror", address, bare)
		cloneTime.Add(took, gitTook)
		cloneMemory.Add(peak, gitPeak)

		ours.Commit = s.push(b, dir, round)
		took, peak = inChild(b, ours)
		gitTook, gitPeak = gitMeasured(b, theirs, "-c", "gc.auto=0", "fetch", "--quiet")
		if got := head(b, theirs); got != ours.Commit {
			b.Fatalf("git fetched %s, want %s", got, ours.Commit)
		}
		fetchTime.Add(took, gitTook)
		fetchMemory.Add(peak, gitPeak)
	}
	table.Notef("P9: %s, served by git http-backend. Ours without the start of its process, which is the server; git with it.", version(b, "git", "--version"))
	summarize(b, cloneTime)
}
