package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"landfall.dev/landfall"
	"landfall.dev/landfall/remote"
	"landfall.dev/landfall/store"
)

// health looks at what the server keeps its state in, for whoever asks whether it is ready: seldom, and nobody waits
// for long.
type health []*question

// question is one to a part of the machine.
type question struct {
	part string                           // which people read before the answer
	ask  func(ctx context.Context) string // what is wrong, and what does not work therefore; empty: nothing
	slow string                           // what is said when there is no answer in time

	mu    sync.Mutex
	asked chan struct{} // closed when the question that is under way is answered; nil: none is
	said  string
	at    time.Time
}

const (
	lookEvery    = 5 * time.Second
	lookPatience = time.Second
)

// wrong returns what is wrong, a line each.
func (h health) wrong(ctx context.Context) (lines []string) {
	said := make([]string, len(h))
	var group sync.WaitGroup
	for i, l := range h {
		group.Go(func() { said[i] = l.answer(ctx) })
	}
	group.Wait()
	for i, l := range h {
		if said[i] != "" {
			lines = append(lines, l.part+": "+said[i])
		}
	}
	return lines
}

// answer returns the last answer, and a fresh one when that is old. Of one part, one question at a time is under way.
func (l *question) answer(ctx context.Context) string {
	answered := l.begin(ctx)
	select {
	case <-answered:
	case <-time.After(lookPatience):
		return l.slow
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said
}

// begin asks, unless that was done just now, and returns what is closed when there is an answer.
func (l *question) begin(ctx context.Context) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked == nil {
		l.asked = make(chan struct{})
		close(l.asked)
	}
	select {
	case <-l.asked:
		if !l.at.IsZero() && time.Since(l.at) < lookEvery {
			return l.asked
		}
	default:
		return l.asked
	}
	l.asked = make(chan struct{})
	go func() {
		const most = 30 * time.Second
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
		defer cancel()
		said := l.ask(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.said, l.at = said, time.Now()
		close(l.asked)
	}()
	return l.asked
}

// newHealth returns what the process's parts are asked.
func (s *state) newHealth() health {
	var all health
	if s.db != nil {
		all = append(all, &question{part: "objects", ask: s.lookAtObjects, slow: "their store does not answer in time"},
			&question{part: "disk", ask: s.lookAtDisks, slow: "it does not answer"})
	}
	if s.repos != nil {
		// Without an answer in time nothing is said of them: it is the database that does not answer.
		all = append(all, &question{part: "repositories", ask: s.lookAtRepositories})
	}
	return all
}

// lookAtObjects asks the object store for the key of the installation, which is one small object.
func (s *state) lookAtObjects(ctx context.Context) string {
	mark, err := s.objects.Mark(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "they are gone; releases that are not in the cache are not served, and runs wait"
	case err != nil:
		return "their store does not answer; releases that are not in the cache are not served, and runs wait"
	}
	if mark == "" && s.keyless.Load() { // which is tried again
		return ""
	}
	key, err := s.db.Installation(ctx)
	if err == nil && key != mark && key != "" {
		return "their store is not the one that this server was started with; releases that are not in the cache are not " +
			"served"
	}
	return ""
}

// lookAtRepositories looks whether the built-in repositories are there. Strangers do not hear whose they are.
func (s *state) lookAtRepositories(ctx context.Context) string {
	_, missing, err := s.repositories(ctx)
	if err != nil || len(missing) == 0 {
		return "" // an error is said of the database
	}
	return fmt.Sprintf("those of %s are not here; they can be neither fetched nor pushed to, and releases are served; %s",
		landfall.Count(len(missing), "app"), remote.BringBack)
}

// problems returns what is wrong, a line each, for who has a token: with the names of the apps that it may read.
func (s *control) problems(ctx context.Context, reads func(app string) bool) []string {
	lines := s.health.wrong(ctx)
	_, missing, err := s.repositories(ctx)
	if err != nil {
		return lines // which is said of the database
	}
	const most = 5 // names in one line
	var names []string
	for _, app := range missing {
		if !reads(app.ID) {
			continue
		}
		if len(names) == most {
			names = append(names, "…")
			break
		}
		names = append(names, app.Name)
	}
	if len(names) > 0 {
		lines = append(lines, "repositories: not here are those of "+strings.Join(names, ", "))
	}
	if len(missing) > 0 && s.standby.Load() {
		lines = append(lines, "repositories: "+standsByText)
	}
	return lines
}

// What a disk has that has any room.
const (
	leastRoom  = 1 << 20 // bytes
	leastFiles = 16
)

// lookAtDisks looks whether what the server writes to has room: every file system on which a part of the data folder
// lies.
func (s *state) lookAtDisks(context.Context) string {
	folders := []string{s.config.Data}
	if !store.IsPostgres(s.config.Database) {
		folders = append(folders, filepath.Dir(s.config.Database))
	}
	for _, folder := range []string{s.config.Data, filepath.Join(s.config.Data, "cache")} {
		files, _ := os.ReadDir(folder) // the data folder itself is looked at first
		for _, file := range files {
			folders = append(folders, filepath.Join(folder, file.Name()))
		}
	}
	var full []string
	seen := map[uint64]bool{}
	for i, folder := range folders {
		var at unix.Stat_t
		err := unix.Stat(folder, &at)
		switch {
		case errors.Is(err, unix.ENOENT) && i == 0:
			return "the data folder is gone"
		case errors.Is(err, unix.ENOENT) || err == nil && seen[at.Dev]:
			continue
		case err == nil:
			seen[at.Dev] = true
		}
		lacks, err := lacking(folder)
		switch {
		case err != nil:
			return "it does not answer"
		case lacks != "":
			full = append(full, s.diskOf(folder)+" "+lacks)
		}
	}
	if len(full) == 0 {
		return ""
	}
	return strings.Join(full, ", ") + "; pushes and webhooks are refused, runs wait, and releases are served"
}

// diskOf names the disk of a folder for strangers.
func (s *state) diskOf(folder string) string {
	below, err := filepath.Rel(s.config.Data, folder)
	switch {
	case err != nil || !filepath.IsLocal(below):
		return "that of the database"
	case below == ".":
		return "it"
	}
	return "that of " + below
}

// lacking says what the disk of a folder has no more of; empty: nothing.
func lacking(folder string) (string, error) {
	var disk unix.Statfs_t
	err := unix.Statfs(folder, &disk)
	switch {
	case err != nil:
		return "", err
	case int64(disk.Bavail)*disk.Bsize < leastRoom:
		return "is full", nil
	case disk.Files > 0 && disk.Ffree < leastFiles: // some have no bound, and say 0
		return "takes no more files", nil
	}
	return "", nil
}
