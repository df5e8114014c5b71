package store

import (
	"context"
	"strings"
	"time"

	"landfall.dev/landfall"
)

// Stats is what operators watch: what waits and since when, and totals.
type Stats struct {
	Unfinished map[landfall.RunState]int // runs by state
	Oldest     time.Time                 // when the oldest unfinished run was made; zero when there is none
	// when the oldest run began to wait that could be worked on; zero when there is none
	Waiting  time.Time
	Statuses Backlog
	Comments Backlog
	Dead     int // dead letters
	Totals   Totals
}

// Backlog counts what was not sent to the forge yet.
type Backlog struct {
	Count int
	Since time.Time // when the oldest became due; zero when there is none
}

// Totals counts what happened since the database was made. Each is counted in the transaction of the event itself, so
// the numbers survive a kill, and what is deleted later stays counted.
type Totals struct {
	Runs                             map[landfall.RunState]int64 // ended, by state
	BytesUploaded, BytesUnchanged    int64                       // of the static files of runs that made a release
	BuildsRun, BuildsCached          int64                       // of runs that made a release
	StatusesSent, StatusesDropped    int64
	CommentsWritten, CommentsDropped int64
}

// These are the counters of Totals. Their names begin with totalPrefix, and those of runs end with the state.
const (
	totalPrefix     = "total/"
	runsEnded       = totalPrefix + "runs/"
	bytesUploaded   = totalPrefix + "bytes/uploaded"
	bytesUnchanged  = totalPrefix + "bytes/unchanged"
	buildsRun       = totalPrefix + "builds/run"
	buildsCached    = totalPrefix + "builds/cached"
	statusesSent    = totalPrefix + "statuses/sent"
	statusesDropped = totalPrefix + "statuses/dropped"
	commentsWritten = totalPrefix + "comments/told"
	commentsDropped = totalPrefix + "comments/dropped"
)

// count adds n to a counter. It does nothing when n is 0 or the counter has no name.
func (tx *Tx) count(ctx context.Context, counter string, n int64) error {
	if counter == "" || n == 0 {
		return nil
	}
	return tx.exec(ctx, "store.count", `INSERT INTO counters (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = counters.value + excluded.value`, counter, n)
}

// countRun counts a run that ended.
func (tx *Tx) countRun(ctx context.Context, r landfall.Run) error {
	if err := tx.count(ctx, runsEnded+string(r.State), 1); err != nil || r.Release == "" {
		return err
	}
	for _, c := range []struct {
		counter string
		n       int64
	}{
		{bytesUploaded, r.Stats.BytesUploaded},
		{bytesUnchanged, max(0, r.Stats.Bytes-r.Stats.BytesUploaded)},
		{buildsRun, int64(r.Stats.Built)},
		{buildsCached, int64(r.Stats.Cached)},
	} {
		if err := tx.count(ctx, c.counter, c.n); err != nil {
			return err
		}
	}
	return nil
}

// Stats returns what operators watch. It reads unfinished work by indexes made for it, and a few counters.
func (q queries) Stats(ctx context.Context, now time.Time) (Stats, error) {
	p := Stats{Unfinished: map[landfall.RunState]int{}}
	err := q.unfinished(ctx, now, &p)
	if err != nil {
		return p, err
	}
	if p.Statuses, err = q.backlog(ctx,
		`SELECT COUNT(*), COALESCE(MIN(created), 0) FROM reports WHERE sent = 0 AND dropped = 0`); err != nil {
		return p, err
	}
	if p.Comments, err = q.backlog(ctx,
		`SELECT COUNT(*), COALESCE(MIN(since), 0) FROM comments WHERE told < wanted AND dropped = 0`); err != nil {
		return p, err
	}
	if p.Dead, err = one(ctx, q, "store.Stats", scanValue[int],
		`SELECT COUNT(*) FROM executions WHERE dead = 1`); err != nil {
		return p, err
	}
	p.Totals, err = q.totals(ctx)
	return p, err
}

// unfinished fills in the part about runs that are not over.
func (q queries) unfinished(ctx context.Context, now time.Time, p *Stats) error {
	type group struct {
		state           landfall.RunState
		count           int
		oldest, waiting time.Time
	}
	groups, err := list(ctx, q, "store.Stats", func(row scanner) (group, error) {
		var g group
		var oldest, waiting int64
		err := row.Scan(&g.state, &g.count, &oldest, &waiting)
		g.oldest, g.waiting = timeOf(oldest), timeOf(waiting)
		return g, err
	}, `SELECT state, COUNT(*), MIN(created), COALESCE(MIN(CASE
			WHEN state <> 'queued' OR next_at > $1 THEN NULL WHEN next_at > created THEN next_at ELSE created END), 0)
		FROM runs WHERE finished = 0 GROUP BY state`, micros(now))
	for _, g := range groups {
		p.Unfinished[g.state] = g.count
		// a run that waits for a person is not late
		if g.state != landfall.RunWaiting && (p.Oldest.IsZero() || g.oldest.Before(p.Oldest)) {
			p.Oldest = g.oldest
		}
		if !g.waiting.IsZero() {
			p.Waiting = g.waiting
		}
	}
	return err
}

func (q queries) backlog(ctx context.Context, query string) (Backlog, error) {
	return one(ctx, q, "store.Stats", func(row scanner) (Backlog, error) {
		var o Backlog
		var since int64
		err := row.Scan(&o.Count, &since)
		o.Since = timeOf(since)
		return o, err
	}, query)
}

func (q queries) totals(ctx context.Context) (Totals, error) {
	type counter struct {
		name  string
		value int64
	}
	t := Totals{Runs: map[landfall.RunState]int64{}}
	counters, err := list(ctx, q, "store.Stats", func(row scanner) (counter, error) {
		var c counter
		err := row.Scan(&c.name, &c.value)
		return c, err
	}, `SELECT name, value FROM counters WHERE name LIKE $1`, totalPrefix+"%")
	into := map[string]*int64{
		bytesUploaded: &t.BytesUploaded, bytesUnchanged: &t.BytesUnchanged, buildsRun: &t.BuildsRun,
		buildsCached: &t.BuildsCached, statusesSent: &t.StatusesSent, statusesDropped: &t.StatusesDropped,
		commentsWritten: &t.CommentsWritten, commentsDropped: &t.CommentsDropped,
	}
	for _, c := range counters {
		if state, ok := strings.CutPrefix(c.name, runsEnded); ok {
			t.Runs[landfall.RunState(state)] = c.value
		} else if total, ok := into[c.name]; ok {
			*total = c.value
		}
	}
	return t, err
}
