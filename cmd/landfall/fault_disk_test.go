package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"landfall.dev/landfall"
)

// lying is what lies on a disk of its own.
type lying struct {
	folders  []string // of the data folder
	settings []string // that name the volume by a %
}

// disks are what may lie on a disk of its own, and how a server is told that it does.
func disks() map[string]lying {
	return map[string]lying{
		"everything": {folders: []string{"."}},
		"database":   {settings: []string{"LANDFALL_DATABASE=%/landfall.db"}},
		"objects":    {folders: []string{"objects"}},
		"mirrors":    {folders: []string{"mirrors", "git"}},
		"temporary":  {folders: []string{"scratch"}, settings: []string{"TMPDIR=%"}},
	}
}

// A part of the data folder that lies on a disk of its own is named when that is full, or takes no more files.
func TestFaultDiskIsNamed(t *testing.T) {
	t.Parallel()
	s := newStopped(t, engineOf(t, "sqlite+folder"))
	v := newVolume(t, 8<<20, s.data, "git", filepath.Join("cache", "functions"))
	s.within = v.enter()
	s.start()
	says := func(want string) {
		t.Helper()
		s.eventually("/readyz says "+want, func() bool {
			said := s.ready()
			return strings.Contains(said, want) && (want != "" || said == "ready\n")
		})
	}
	v.fill(0)
	// K-017: what lies on a disk of its own is looked at, and each disk once
	says("disk: that of git is full; pushes")
	v.drain()
	says("")
	back := v.crowd()
	// K-017: a disk that takes no more files is as good as full
	says("disk: that of git takes no more files; pushes")
	back()
	says("")
}

// pointsARound is to how many points a disk is filled up in one round.
const pointsARound = 10

// The disk that something lies on is filled up before a push, to another point each time: as far as the space reaches, the
// push goes. Its sender hears that it was refused, or it is kept; what is released goes on being served; and when there is
// space again, all that was kept becomes a release, without a restart.
func TestFaultFullDisk(t *testing.T) {
	t.Parallel()
	rounds := dose(t, 1, 1)
	var names []string
	for round := range rounds {
		for name := range disks() {
			names = append(names, fmt.Sprintf("%s/%d", name, round))
		}
	}
	each(t, names, func(t *testing.T, name string) {
		t.Helper()
		name, number, _ := strings.Cut(name, "/")
		round := must(strconv.Atoi(number))(t)
		testFullDisk(t, name, float64(round)/float64(rounds))
	})
}

// testFullDisk fills a disk up ten times. shift, below 1, is by how much of the way between two points each is shifted.
func testFullDisk(t *testing.T, name string, shift float64) {
	t.Helper()
	const size = 24 << 20
	w := newStoppedTwins(t, engineOf(t, "sqlite+folder"))
	v := newVolume(t, size, w.data, disks()[name].folders...)
	w.within = v.enter()
	w.env = append(w.env, "LANDFALL_LEASE=3s", "LANDFALL_SANDBOX=off")
	for _, setting := range disks()[name].settings {
		w.env = append(w.env, strings.ReplaceAll(setting, "%", v.folder))
	}
	w.start()
	w.data = v.outside(w.data)
	w.populate()
	w.fillUp(v, shift)
	if name == "database" {
		w.engine.database = filepath.Join(v.outside(v.folder), "landfall.db")
	}
	wantSound(t, w.site, true)
}

// fillUp fills the volume up before each of ten pushes.
func (w *twins) fillUp(v *volume, shift float64) {
	w.t.Helper()
	const atLeast = 64 << 10
	at := 1
	w.settled(at)
	before := v.space()
	at++
	w.settled(at)
	needs := float64(max(before-v.space(), atLeast))
	shown := map[string]int{nearApp: at, farApp: at}
	visitors := []*watcher{w.watch(nearApp), w.watch(farApp)}
	for point := range pointsARound {
		apps := []string{farApp, nearApp}
		app := apps[point%len(apps)]
		part := (float64(point/len(apps)) + shift) * float64(len(apps)) / pointsARound
		at++
		v.fill(int64(needs * part * part * part)) // closer together where hardly anything is left
		quiet := len(w.log.String())
		a := w.launch(at, app)
		w.eventually("the push to "+app+" is over, or waits to be tried again", func() bool { return w.over(a, app, quiet) })
		v.drain()
		<-a.heard[app]
		w.wantDrained(a, app)
		shown[app] = at
	}
	for _, visitor := range visitors {
		visitor.sees(shown[visitor.app])
		// N-016: whoever looked on saw whole releases all the time, in the order of the pushes.
		if got := visitor.rounds(w.t); !slices.IsSorted(got) {
			w.t.Errorf("a visitor of %s saw the rounds %v, want none twice", visitor.app, got)
		}
	}
}

// over reports whether a push will get no further by itself for now. quiet is how long the log was before it.
func (w *twins) over(a *attempt, app string, quiet int) bool {
	w.t.Helper()
	run, ok := w.runOf(app, a.commits[app])
	if !ok {
		select {
		case <-a.heard[app]:
			return true
		default:
			return false
		}
	}
	return run.State.Final() || strings.HasPrefix(run.Reason, "Trying again: ") || slices.ContainsFunc(
		strings.Split(w.log.String()[quiet:], "\n"), func(line string) bool {
			return strings.Contains(line, run.ID) && (strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`))
		})
}

// wantDrained fails the test unless the push of an attempt becomes a release now that there is space: by itself if it was
// accepted, or when its sender comes again.
func (w *twins) wantDrained(a *attempt, app string) {
	w.t.Helper()
	kept := w.accepted(a, app)
	switch {
	case app == farApp && !kept:
		again := w.sendTo(a.delivery)
		// N-016: a delivery is accepted, or is refused with 503 and leaves nothing: when it comes again it is no repeat.
		if a.status != http.StatusServiceUnavailable || again != http.StatusAccepted {
			w.t.Errorf("with a full disk the delivery got %d, and %d when there was space, want 202, or 503 and 202", a.status, again)
		}
	case !kept:
		// N-016: a push to the built-in remote that was not kept was refused, and says why.
		if !strings.Contains(a.terminal, "rejected") {
			w.t.Errorf("a push that was not kept was told:\n%s", a.terminal)
		}
		w.again(a, app)
	}
	// N-016: what was accepted becomes a release when there is space again, without a restart.
	w.ends(app, a.commits[app], landfall.RunSucceeded)
	w.wantRound(app, app, a.round)
}
