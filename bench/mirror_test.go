package bench_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/bench"
	"landfall.dev/landfall/test/forge"
)

// hosted makes a repository at a forge that takes pushes by HTTP.
func hosted(b *testing.B, f *forge.Forge, name string) *forge.Hosted {
	b.Helper()
	h := f.Host(b, name)
	h.Bare.Git("config", "http.receivepack", "true")
	h.Bare.Git("config", "gc.auto", "0")
	return h
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
	fmt.Fprintf(&stream, "commit %s\ncommitter a <a@b> %d +0000\ndata 1\nx\nfrom %s^0\n", branch,
		1_800_000_000+round, branch)
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

// fetch runs the program in fetch, and returns how long the fetch took and the most memory the process held, in MiB.
func fetch(b *testing.B, program string, f *forge.Forge, root, address string, commit landfall.CommitSHA) (took,
	peak float64) {
	b.Helper()
	syscall.Sync()
	said := run(b, "", program, root, address, strings.TrimPrefix(f.Address, "http://"), string(branch), string(commit))
	if _, err := fmt.Sscan(said, &took, &peak); err != nil {
		b.Fatalf("%v in %q", err, said)
	}
	return took, peak
}

// gitMeasured runs git, and returns how long it took and the most memory that it, or a program that it started, held,
// in MiB. GNU time is between: a process inherits the figure of the one that starts it, and time is small.
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
	f := forge.New(b)
	h := hosted(b, f, "origin")
	dir, address := h.Bare.Dir, h.Clone()
	s.fill(b, dir)
	row := func(what, unit, peer string, floor, target float64) *bench.Row {
		return table.Row(bench.Row{Figure: "P9 " + what + ", " + s.name, Unit: unit, Peer: peer, Floor: floor,
			Target: target})
	}
	const clone, update = "git clone --mirror", "git fetch"
	cloneTime, cloneMemory := row("mirror clone", "ms", clone, 2.3, 1.3), row("peak memory of it", "MiB", clone, 0, 1.5)
	fetchTime, fetchMemory := row("fetch of one commit", "ms", update, 1.2, 1),
		row("peak memory of it", "MiB", update, 0, 0)

	program, ours, commit := compiled(b, "./fetch"), b.TempDir(), head(b, dir)
	theirs := filepath.Join(b.TempDir(), "mirror.git")
	fetch(b, program, f, ours, address, commit)
	gitMeasured(b, "", "clone", "--quiet", "--mirror", address, theirs)
	for round := 0; b.Loop(); round++ {
		took, peak := fetch(b, program, f, b.TempDir(), address, commit)
		bare := filepath.Join(b.TempDir(), "mirror.git")
		gitTook, gitPeak := gitMeasured(b, "", "clone", "--quiet", "--mirror", address, bare)
		cloneTime.Add(took, gitTook)
		cloneMemory.Add(peak, gitPeak)

		commit = s.push(b, dir, round)
		took, peak = fetch(b, program, f, ours, address, commit)
		gitTook, gitPeak = gitMeasured(b, theirs, "-c", "gc.auto=0", "fetch", "--quiet")
		if got := head(b, theirs); got != commit {
			b.Fatalf("git fetched %s, want %s", got, commit)
		}
		fetchTime.Add(took, gitTook)
		fetchMemory.Add(peak, gitPeak)
	}
	table.Notef("P9: %s, served by git http-backend. Ours without the start of its process, which is the server; git "+
		"with it.", version(b, "git", "--version"))
	summarize(b, cloneTime)
}
