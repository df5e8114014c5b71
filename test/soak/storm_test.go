package soak_test

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/test/site"
)

// switchRoundsVariable says how often the storm of switches comes again; one round is a tenth of the full dose.
const switchRoundsVariable = "LANDFALL_SWITCH_ROUNDS"

// visitors ask for the page and the function of an app all the time, and keep what they were told.
type visitors struct {
	done     atomic.Bool
	group    sync.WaitGroup
	requests atomic.Int64
	said     sync.Map // the release in the header and the page, as said by both, of each page that was seen
	wrong    sync.Map // what else was answered
}

// newVisitors brings so many to an app, who come again after a while.
func newVisitors(s *site.Site, app string, count int, after time.Duration) *visitors {
	s.T.Helper()
	v := &visitors{}
	for range count {
		one := s.Visitor(app)
		v.group.Go(func() {
			for !v.done.Load() {
				v.visit(one)
				if after > 0 {
					<-time.After(after)
				}
			}
		})
	}
	return v
}

const (
	stormPage     = "/"
	stormFunction = "/api/named"
)

func (v *visitors) visit(one *site.Visitor) {
	if status, release, body := one.Ask(stormPage); status == http.StatusOK {
		v.said.Store(release+" "+body, true)
	} else {
		v.wrong.Store(fmt.Sprint("page: ", status, " ", body), true)
	}
	if status, _, body := one.Ask(stormFunction); status != http.StatusOK || body != "1" && body != "2" {
		v.wrong.Store(fmt.Sprint("function: ", status, " ", body), true)
	}
	v.requests.Add(2)
}

// leave ends the visits.
func (v *visitors) leave() {
	v.done.Store(true)
	v.group.Wait()
}

// all returns what is in a set.
func all(set *sync.Map) []string {
	var found []string
	set.Range(func(key, _ any) bool {
		found = append(found, fmt.Sprint(key))
		return true
	})
	return found
}

// switcher makes the switches of an app.
type switcher struct {
	*site.Site
	repository *site.Repository
	rare       int // every so many switches a release comes, and one goes
	releases   []landfall.UID
	pages      map[string]bool // what visitors may be told: a release and its page
}

// publish pushes one more release.
func (s *switcher) publish() {
	page := "page " + strconv.Itoa(len(s.releases))
	s.repository.Write("site/index.html", page)
	uid := s.Pushed(s.repository, "shop", page)
	s.releases = append(s.releases, uid)
	s.pages[string(uid)+" "+page] = true
}

// step makes the next switch: live goes back and forth between the first two releases, the alias gets other weights,
// and now and then a release comes and the one before it goes.
func (s *switcher) step(n int) {
	const kinds, percent = 3, 98
	switch {
	case n%s.rare == s.rare/2:
		s.publish()
	case n%s.rare == s.rare-1 && len(s.releases) > 3:
		s.Call(http.MethodDelete, "/apps/shop/releases/"+string(s.releases[len(s.releases)-2]), nil, nil)
	case n%kinds == 0:
		s.Call(http.MethodPost, "/apps/shop/live", map[string]string{"release": string(s.releases[(n/kinds+1)%2])}, nil)
	case n%kinds == 1:
		s.weigh(n%percent + 1)
	default:
		s.Call(http.MethodPost, "/apps/shop/rollback",
			map[string]string{"release": string(s.releases[n/kinds%2]), "reason": "the storm"}, nil)
	}
}

// weigh gives the second version so many percent of the calls.
func (s *switcher) weigh(percent int) {
	s.Call(http.MethodPut, "/functions/hello/aliases/prod",
		map[string]any{"weights": map[string]int{"1": 100 - percent, "2": percent}}, nil)
}

// A storm of switches: releases are published, promoted, rolled back and expired and an alias gets other weights, while
// visitors come, with the full dose as fast as they are answered. None of them notices: every answer is of one release,
// whole. Then the weights hold.
//
//nolint:paralleltest // it needs the machine
func TestSwitchStorm(t *testing.T) {
	const crowd = 8
	sigmas, after := 5.0, 20*time.Millisecond
	switches, calls, rare := 200, 2000, 40
	if text, ok := os.LookupEnv(switchRoundsVariable); ok {
		rounds, err := strconv.Atoi(text)
		if err != nil || rounds < 1 {
			t.Fatalf("%s is %q; right would be a number", switchRoundsVariable, text)
		}
		sigmas, after = 3, 0 // one run in 400 would fail by chance
		switches, calls, rare = 1000*rounds, 10_000*rounds, 200
	}
	app, r := site.NumberedIn(t, 2)
	s := &switcher{Site: app, repository: r, rare: rare, pages: map[string]bool{}}
	s.publish()
	s.publish()
	v := newVisitors(s.Site, "shop", crowd, after)
	began := time.Now()
	for n := range switches {
		s.step(n)
	}
	took := time.Since(began)
	v.leave()
	// V6: no request fails, whatever is switched
	if wrong := all(&v.wrong); len(wrong) != 0 {
		t.Errorf("%d kinds of wrong answers, such as %q", len(wrong), wrong[:min(len(wrong), 5)])
	}
	for _, said := range all(&v.said) {
		// V6: an answer is of one release, whole
		if !s.pages[said] {
			t.Errorf("a visitor was told %q, which is no release and its page", said)
		}
	}
	requests := v.requests.Load()

	const weight = 25
	s.weigh(weight)
	var second atomic.Int64
	var group sync.WaitGroup
	counted := time.Now()
	for n := range crowd {
		one := s.Visitor("shop")
		group.Go(func() {
			for range calls/crowd + max(0, min(1, calls%crowd-n)) {
				if _, _, body := one.Ask(stormFunction); body == "2" {
					second.Add(1)
				}
			}
		})
	}
	group.Wait()
	mean := float64(calls) * weight / 100
	most := sigmas * math.Sqrt(mean*(100-weight)/100)
	if got := float64(second.Load()); math.Abs(got-mean) > most {
		t.Errorf("of %d calls %.0f got the second version, want %.0f±%.0f", calls, got, mean, most)
	}
	t.Logf("%d switches in %s, %d requests at %.0f a second, %d releases seen; of %d calls in %s, %d got the version "+
		"of %d percent (one sigma is %.0f)",
		switches, took.Round(time.Second), requests, float64(requests)/took.Seconds(), len(all(&v.said)), calls,
		time.Since(counted).Round(time.Second),
		second.Load(), weight, most/sigmas)
}
