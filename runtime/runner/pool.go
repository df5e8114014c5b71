package runner

import (
	"errors"
	"slices"
	"time"

	"landfall.dev/landfall"
	"landfall.dev/landfall/sandbox"
)

// grace is how long a process may take to end by itself, when its input has ended or when it is ending already. killing
// is how long an error waits for the death of the process that made it.
const (
	grace   = time.Second
	killing = 50 * time.Millisecond
)

// key tells pools apart.
type key struct {
	id           string
	memory, disk int64
	cpu          int
}

func keyOf(f Function) key {
	return key{f.ID, f.Resources.Memory, f.Resources.Disk, f.Resources.MilliCPU}
}

// pool has the processes of one function version. The runner's lock guards it.
type pool struct {
	key       key
	function  Function
	idle      []*process // the one that has waited longest first
	total     int        // also those that are being started
	stopped   int        // of them, those that end, and get no event any more
	timer     *time.Timer
	armed     bool // the timer runs
	forgotten bool
}

// spare returns how many processes there are beyond those that are kept warm.
func (p *pool) spare() int { return p.total - p.stopped - p.function.Resources.KeepWarm }

// acquire returns a process that is to be given an event: an idle one, or a new one.
func (r *Runner) acquire(f Function, execution string) (*process, error) {
	if p := r.pop(f); p != nil {
		return p, nil
	}
	p, err := r.grow(f, f.Resources.Concurrency, execution)
	if errors.Is(err, errFull) {
		return nil, busy("%d executions of the function are under way, which is its limit", f.Resources.Concurrency)
	}
	return p, err
}

// pop takes the idle process that waited for the shortest time, so that those that are too many become old.
func (r *Runner) pop(f Function) *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	pool := r.pools[keyOf(f)]
	if pool == nil || len(pool.idle) == 0 || r.closed {
		return nil
	}
	pool.function = f // how long processes are kept is what the last call said
	last := len(pool.idle) - 1
	p := pool.idle[last]
	pool.idle[last], pool.idle = nil, pool.idle[:last]
	return p
}

// errFull says that a pool has as many processes as it may.
var errFull = errors.New("the pool is full")

// grow starts a process for an execution, or for none yet, unless there are most: then it returns errFull.
func (r *Runner) grow(f Function, most int, execution string) (*process, error) {
	pool, err := r.reserve(f, most)
	if err != nil {
		return nil, err
	}
	proxy, way := proxyOf(f)
	started, err := r.Sandbox.Start(sandbox.Program{Args: f.Args, Dir: f.Dir, Root: f.Root, Env: f.Env, Files: f.Files,
		Proxy: proxy, Limits: sandbox.Limits{Memory: f.Resources.Memory, Disk: f.Resources.Disk, CPU: f.Resources.MilliCPU}})
	var p *process
	if err == nil {
		p, err = r.newProcess(pool, f, started, execution)
	}
	if err == nil {
		way.begin(p.log)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.left.Done()
	if err != nil {
		r.free(pool)
		return nil, &landfall.Error{Op: "runner.Run", Kind: landfall.KindOf(err), Message: landfall.MessageOf(err), Err: err}
	}
	r.all[p] = struct{}{}
	if r.closed {
		p.Kill() // Close did not see it
	}
	r.left.Add(1)
	go r.reap(p)
	return p, nil
}

// reserve makes room for a process.
func (r *Runner) reserve(f Function, most int) (*pool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, landfall.Errorf("runner.Run", landfall.Canceled, "the runner is stopping")
	}
	k := keyOf(f)
	p := r.pools[k]
	if p == nil {
		p = &pool{key: k, function: f}
	}
	if p.total-p.stopped >= most {
		return nil, errFull
	}
	limit := r.Limits.withDefaults().Processes
	if has, left := r.taken(f.App, limit); f.App != "" && left > 0 && has > leave*left {
		return nil, busy("%d executions of the app are under way, and the room for %d more is for others", has, left)
	}
	if r.total >= limit && !r.evict() {
		return nil, busy("%d executions are under way, which is the limit of this machine", limit)
	}
	if r.pools == nil {
		r.pools, r.gone, r.all = map[key]*pool{}, map[*pool]struct{}{}, map[*process]struct{}{}
	}
	r.pools[k] = p
	p.function = f
	p.total++
	r.total++
	r.left.Add(1)
	return p, nil
}

// leave is how much an app may have for each process that is left for others: three quarters when it is alone.
const leave = 3

// taken returns how many processes an app has that cannot be ended for others, and how many more of anybody there may
// be. The caller holds the lock.
func (r *Runner) taken(app string, limit int) (has, left int) {
	left = limit - r.total
	for _, pool := range r.pools {
		idle := min(len(pool.idle), max(0, pool.spare()))
		left += idle
		if pool.function.App == app {
			has += pool.total - idle
		}
	}
	for pool := range r.gone {
		if pool.function.App == app {
			has += pool.total
		}
	}
	return has, left
}

// evict ends the process that has been idle for longest, whatever its function, and reports whether there was one that
// is not kept warm. The caller holds the lock.
func (r *Runner) evict() bool {
	var oldest *pool
	for _, pool := range r.pools {
		if len(pool.idle) > 0 && pool.spare() > 0 && (oldest == nil || pool.idle[0].since.Before(oldest.idle[0].since)) {
			oldest = pool
		}
	}
	if oldest == nil {
		return false
	}
	p := oldest.idle[0]
	oldest.idle = slices.Delete(oldest.idle, 0, 1)
	p.state = evicted
	r.free(oldest)
	p.Kill()
	return true
}

// free gives back the room of one process. The caller holds the lock.
func (r *Runner) free(p *pool) {
	r.total--
	p.total--
	if p.total > 0 {
		return
	}
	delete(r.gone, p)
	if r.pools[p.key] == p {
		if p.timer != nil {
			p.timer.Stop()
		}
		delete(r.pools, p.key)
	}
}

// release makes a process idle that has answered.
func (r *Runner) release(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pool := p.pool
	if r.closed || pool.forgotten {
		p.Kill()
		return
	}
	if p.state == ended {
		return
	}
	p.since = time.Now()
	pool.idle = append(pool.idle, p)
	if !pool.armed && pool.spare() > 0 {
		r.arm(pool)
	}
}

// arm sets the pool's timer for the process that has been idle for longest. The caller holds the lock.
func (r *Runner) arm(p *pool) {
	p.armed = true
	wait := time.Until(p.idle[0].since.Add(p.function.Resources.IdleTimeout))
	if p.timer == nil {
		p.timer = time.AfterFunc(wait, func() { r.shrink(p) })
		return
	}
	p.timer.Reset(wait)
}

// shrink ends the processes that have been idle for too long.
func (r *Runner) shrink(p *pool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.armed = false
	old, now := 0, time.Now()
	for old < min(len(p.idle), p.spare()) && now.Sub(p.idle[old].since) >= p.function.Resources.IdleTimeout {
		old++
	}
	p.stop(old)
	if len(p.idle) > 0 && p.spare() > 0 {
		r.arm(p)
	}
}

// stop ends the idle processes that have waited for longest. The caller holds the lock.
func (p *pool) stop(n int) {
	for _, process := range p.idle[:n] {
		process.retire()
		process.stop()
	}
	p.idle = slices.Delete(p.idle, 0, n)
}

// retire makes room for another process: this one ends, and executes nothing any more. The caller holds the runner's
// lock.
func (p *process) retire() {
	if p.state == alive {
		p.state = stopping
		p.pool.stopped++
	}
}

// discard kills a process that is of no use any more, and waits for its death, but not longer than patience.
func (r *Runner) discard(p *process, patience time.Duration) {
	r.mu.Lock()
	p.retire()
	r.mu.Unlock()
	p.Kill()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.gone:
	case <-timer.C:
	}
}

// reap waits for the end of a process, and forgets it.
func (r *Runner) reap(p *process) {
	defer r.left.Done()
	<-p.Done()
	p.calling.Lock()
	p.Close()
	p.calling.Unlock()
	<-p.log.ended
	r.mu.Lock()
	pool, last := p.pool, p.state
	p.state = ended
	delete(r.all, p)
	if i := slices.Index(pool.idle, p); i >= 0 {
		pool.idle = slices.Delete(pool.idle, i, i+1)
	}
	if last == stopping {
		pool.stopped--
	}
	if last != evicted {
		r.free(pool)
	}
	refill := !p.since.IsZero() && last != evicted && !r.closed && !pool.forgotten &&
		pool.total-pool.stopped < pool.function.Resources.KeepWarm
	function := pool.function
	if refill {
		r.left.Add(1)
	}
	r.mu.Unlock()
	close(p.gone)
	if refill {
		defer r.left.Done()
		_ = r.Warm(function) // what is wrong shows at the next call
	}
}
