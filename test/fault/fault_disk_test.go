package fault_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/machine"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
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
	s := site.NewStopped(t, site.EngineOf(t, "sqlite+folder"))
	v := machine.NewVolume(t, 8<<20, s.Data, "git", filepath.Join("cache", "functions"))
	s.Within = v.Enter()
	s.Start()
	says := func(t *testing.T, want string) {
		t.Helper()
		s.Eventually("/readyz says "+want, func() bool {
			said := ready(s)
			return strings.Contains(said, want) && (want != "" || said == "ready\n")
		})
	}
	v.Fill(0)
	// K-017: what lies on a disk of its own is looked at, and each disk once
	says(t, "disk: that of git is full; pushes")
	v.Drain()
	says(t, "")
	back := v.Crowd()
	// K-017: a disk that takes no more files is as good as full
	says(t, "disk: that of git takes no more files; pushes")
	back()
	says(t, "")
}

// pointsARound is to how many points a disk is filled up in one round.
const pointsARound = 10

// The disk that something lies on is filled up before a push, to another point each time: as far as the space reaches,
// the push goes. Its sender hears that it was refused, or it is kept; what is released goes on being served; and when
// there is space again, all that was kept becomes a release, without a restart.
func TestFaultFullDisk(t *testing.T) {
	t.Parallel()
	rounds := machine.Dose(t, 1, 1)
	var names []string
	for round := range rounds {
		for name := range disks() {
			names = append(names, fmt.Sprintf("%s/%d", name, round))
		}
	}
	site.Each(t, names, func(t *testing.T, name string) {
		t.Helper()
		name, number, _ := strings.Cut(name, "/")
		round := testkit.Must(strconv.Atoi(number))(t)
		// N-016: a push to a full disk is refused, or kept; what is released is served whole; it recovers without a restart
		testFullDisk(t, name, float64(round)/float64(rounds))
	})
}

// testFullDisk fills a disk up ten times. shift, below 1, is by how much of the way between two points each is shifted.
func testFullDisk(t *testing.T, name string, shift float64) {
	t.Helper()
	const size = 24 << 20
	w := forge.NewStoppedTwins(t, site.EngineOf(t, "sqlite+folder"))
	v := machine.NewVolume(t, size, w.Data, disks()[name].folders...)
	w.Within = v.Enter()
	w.Env = append(w.Env, "LANDFALL_LEASE=3s", "LANDFALL_SANDBOX=off")
	for _, setting := range disks()[name].settings {
		w.Env = append(w.Env, strings.ReplaceAll(setting, "%", v.Folder))
	}
	w.Start()
	w.Data = v.Outside(w.Data)
	w.Populate()
	fillUp(w, v, shift)
	if name == "database" {
		w.Engine.Database = filepath.Join(v.Outside(v.Folder), "landfall.db")
	}
	site.WantSound(t, w.Site, true)
}

// fillUp fills the volume up before each of ten pushes.
func fillUp(w *forge.Twins, v *machine.Volume, shift float64) {
	w.T.Helper()
	const atLeast = 64 << 10
	at := 1
	w.Settled(at)
	before := v.Space()
	at++
	w.Settled(at)
	needs := float64(max(before-v.Space(), atLeast))
	shown := map[string]int{forge.NearApp: at, forge.FarApp: at}
	visitors := []*forge.Watcher{w.Watch(forge.NearApp), w.Watch(forge.FarApp)}
	for point := range pointsARound {
		apps := []string{forge.FarApp, forge.NearApp}
		app := apps[point%len(apps)]
		part := (float64(point/len(apps)) + shift) * float64(len(apps)) / pointsARound
		at++
		v.Fill(int64(needs * part * part * part)) // closer together where hardly anything is left
		quiet := len(w.Log.String())
		a := w.Launch(at, app)
		w.Eventually("the push to "+app+" is over, or waits to be tried again", func() bool { return over(w, a, app, quiet) })
		v.Drain()
		<-a.Heard[app]
		wantDrained(w, a, app)
		shown[app] = at
	}
	for _, visitor := range visitors {
		visitor.Sees(shown[visitor.App])
		// Whoever looked on saw whole releases all the time, in the order of the pushes.
		if got := visitor.Rounds(w.T); !slices.IsSorted(got) {
			w.T.Errorf("a visitor of %s saw the rounds %v, want none twice", visitor.App, got)
		}
	}
}

// over reports whether a push will get no further by itself for now. quiet is how long the log was before it.
func over(w *forge.Twins, a *forge.Attempt, app string, quiet int) bool {
	w.T.Helper()
	run, ok := w.RunOf(app, a.Commits[app])
	if !ok {
		select {
		case <-a.Heard[app]:
			return true
		default:
			return false
		}
	}
	return run.State.Final() || strings.HasPrefix(run.Reason, "Trying again: ") || slices.ContainsFunc(
		strings.Split(w.Log.String()[quiet:], "\n"), func(line string) bool {
			return strings.Contains(line, run.ID) &&
				(strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`))
		})
}

// wantDrained fails the test unless the push of an attempt becomes a release now that there is space: by itself if it
// was accepted, or when its sender comes again.
func wantDrained(w *forge.Twins, a *forge.Attempt, app string) {
	w.T.Helper()
	kept := w.Accepted(a, app)
	switch {
	case app == forge.FarApp && !kept:
		again := w.SendTo(a.Delivery)
		// A delivery is accepted, or is refused with 503 and leaves nothing: when it comes again it is no repeat.
		if a.Status != http.StatusServiceUnavailable || again != http.StatusAccepted {
			w.T.Errorf("with a full disk the delivery got %d, and %d when there was space, want 202, or 503 and 202",
				a.Status, again)
		}
	case !kept:
		// A push to the built-in remote that was not kept was refused, and says why.
		if !strings.Contains(a.Terminal, "rejected") {
			w.T.Errorf("a push that was not kept was told:\n%s", a.Terminal)
		}
		w.Again(a, app)
	}
	// What was accepted becomes a release when there is space again, without a restart.
	w.Ends(app, a.Commits[app], landfall.RunSucceeded)
	w.WantRound(app, app, a.Round)
}
