package fault_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"landfall.dev/landfall"
	"landfall.dev/landfall/api/client"
	"landfall.dev/landfall/assets/s3/s3test"
	"landfall.dev/landfall/test/forge"
	"landfall.dev/landfall/test/machine"
	"landfall.dev/landfall/test/site"
	"landfall.dev/landfall/test/testkit"
)

// bucketFaults are what can go wrong on the way to a bucket.
func bucketFaults() map[string]func(b *badBucket) {
	toxic := func(kind, stream string, attributes map[string]any) func(b *badBucket) {
		return func(b *badBucket) { b.toxic.Spoil(kind, stream, attributes) }
	}
	line := func(times int, fault s3test.Fault, matches func(*http.Request) bool) func(b *badBucket) {
		return func(b *badBucket) { b.line.Spoil(times, fault, matches) }
	}
	const few = 3
	return map[string]func(b *badBucket){
		"latency":     toxic("latency", "downstream", map[string]any{"latency": 2000}),
		"bandwidth":   toxic("bandwidth", "upstream", map[string]any{"rate": 10}),
		"reset":       toxic("limit_data", "upstream", map[string]any{"bytes": 20_000}),
		"stall":       toxic("timeout", "upstream", map[string]any{"timeout": 1000}),
		"slow down":   line(few, s3test.Refuse(http.StatusServiceUnavailable, "SlowDown"), s3test.Writes),
		"conflict":    line(2*few, s3test.Refuse(http.StatusConflict, "ConditionalRequestConflict"), s3test.Writes),
		"exists":      line(1, s3test.Refuse(http.StatusPreconditionFailed, "PreconditionFailed"), s3test.Writes),
		"lost":        line(few, s3test.Lose, s3test.Writes),
		"other bytes": line(few, s3test.GarbleRequest, s3test.Writes),
		"truncated":   line(few, s3test.Truncate, s3test.Reads),
		"shortened":   line(few, s3test.Shorten, s3test.Reads),
		"garbled":     line(few, s3test.Garble, s3test.Reads),
		"stale list":  line(few, s3test.ListNothing, s3test.Lists),
	}
}

// badBucket is a server whose bucket is reached over a line of toxiproxy, and then over one that understands S3.
type badBucket struct {
	*forge.Twins
	toxic   *s3test.Toxic
	line    *s3test.FaultProxy
	visitor *http.Client
}

func newBadBucket(t *testing.T) *badBucket {
	t.Helper()
	direct := s3test.Bucket(t)
	b := &badBucket{visitor: &http.Client{Transport: client.LocalTransport(), Timeout: testkit.Patience}}
	bucket := direct
	b.line, bucket = s3test.NewFaultProxy(t, bucket)
	b.toxic, bucket = s3test.NewToxic(t, bucket)
	b.Twins = forge.NewStoppedTwins(t, site.Engine{Bucket: bucket})
	b.Env = append(b.Env, "LANDFALL_SANDBOX=off")
	b.Start()
	b.Populate()
	b.Engine.Bucket = direct // for whoever looks at what is there
	return b
}

// Whatever is wrong with the way to the bucket, a push becomes a release, if need be once it is better; nothing is
// visible by half, and nobody ever gets other bytes.
func TestFaultObjects(t *testing.T) {
	t.Parallel()
	const (
		deploys = 50
		servers = 5
	)
	faults := bucketFaults()
	kinds := slices.Sorted(maps.Keys(faults))
	for server := range servers {
		t.Run(strconv.Itoa(server), func(t *testing.T) {
			t.Parallel()
			b := newBadBucket(t)
			b.Strays = true // a list that is old hides what is to be collected
			at := 1
			b.Settled(at)
			for i := server; i < len(kinds); i += servers {
				for range (machine.Dose(t, len(kinds), deploys) + len(kinds) - 1) / len(kinds) {
					at++
					b.deploys([]string{forge.NearApp, forge.FarApp}[at%2], at, kinds[i], faults[kinds[i]])
				}
			}
			// N-017: with each fault it was tried again until it worked, and nothing else than was pushed was stored or served
			site.WantSound(t, b.Site, true)
		})
	}
}

// deploys pushes a round to an app while the bucket has a fault.
func (b *badBucket) deploys(app string, round int, kind string, fault func(*badBucket)) {
	b.T.Helper()
	const large, letters, seldom = 40_000, 26, 20
	r := b.Near
	if app == forge.FarApp {
		r = b.Far.Repository
	}
	r.Write("site/large.txt", strings.Repeat(rand.Text(), large/letters))
	fault(b)
	quiet := len(b.Log.String())
	a := b.Launch(round, app)
	polls := 0
	b.Eventually("the push to "+app+" is over, or waits to be tried again: "+kind, func() bool {
		polls++
		if polls%seldom != 1 {
			return false
		}
		b.look(app, round)
		return over(b.Twins, a, app, quiet)
	})
	b.look(app, round)
	b.toxic.Clear()
	b.line.Clear()
	<-a.Heard[app]
	// With each of the faults it is tried again until it works.
	b.Ends(app, a.Commits[app], landfall.RunSucceeded)
	b.WantRound(app, app, round)
	if b.T.Failed() {
		b.T.Fatalf("that was with the fault %q", kind)
	}
}

// look fails the test if a visitor gets anything but what was released, whole, or an error.
func (b *badBucket) look(app string, round int) {
	b.T.Helper()
	resp, err := b.visitor.Get(b.At(app, "/"))
	if err != nil {
		return
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	var n int
	if _, scan := fmt.Sscanf(string(body), forge.PageFormat(app), &n); err == nil &&
		resp.StatusCode < http.StatusInternalServerError &&
		(scan != nil || resp.StatusCode != http.StatusOK || n > round || string(body) != forge.PageOf(app, n)) {
		// What the checksum does not fit is never served.
		b.T.Errorf("while round %d of %s was on its way, a visitor got %d %.200q", round, app, resp.StatusCode, body)
	}
}

// An upload that broke off is resumed: what the bucket has is not sent again.
func TestFaultObjectsResumed(t *testing.T) {
	t.Parallel()
	const files, broken = 30, 12
	b := newBadBucket(t)
	b.Settled(1)
	for i := range files {
		b.Near.Write("site/"+strconv.Itoa(i)+".txt", rand.Text())
	}
	b.line.Requests()
	sent := 0
	b.line.Spoil(1000, s3test.Refuse(http.StatusServiceUnavailable, "SlowDown"), func(r *http.Request) bool {
		if r.Method == http.MethodPut {
			sent++
		}
		return r.Method == http.MethodPut && sent > broken
	})
	quiet := len(b.Log.String())
	a := b.Launch(2, forge.NearApp)
	b.Eventually("the run waits to be tried again", func() bool { return over(b.Twins, a, forge.NearApp, quiet) })
	b.line.Clear()
	<-a.Heard[forge.NearApp]
	run := b.Ends(forge.NearApp, a.Commits[forge.NearApp], landfall.RunSucceeded)
	site.Attempts(t, run, 2)
	stored, sentOften := map[string]int{}, map[string]int{}
	for _, r := range b.line.Requests() {
		if r.Method == http.MethodPut && r.Status != 0 {
			sentOften[r.Path]++
			if r.Status == http.StatusOK {
				stored[r.Path]++
			}
		}
	}
	if len(stored) < files {
		t.Errorf("%d objects were stored, want %d or more", len(stored), files)
	}
	for path, n := range sentOften {
		// N-017: an upload that is broken off goes on where it was
		if n != 1 {
			t.Errorf("%s was sent %d times to a server that took it, want once", path, n)
		}
	}
	b.WantRound(forge.NearApp, forge.NearApp, 2)
	site.WantSound(t, b.Site, true)
}
