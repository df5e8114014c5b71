package landfall

import (
	"cmp"
	"time"
)

// Resources bound a function. A zero field says nothing: what comes behind it in the order of trigger, function and default
// counts.
type Resources struct {
	Memory      int64         // bytes of one process and all that it starts
	MilliCPU    int           // thousandths of a processor for one process
	Disk        int64         // bytes in /tmp of one process, which count as memory, too
	Timeout     time.Duration // of one execution, the start of a process included
	IdleTimeout time.Duration // how long a process waits for the next event
	Concurrency int           // processes, and so executions at one time
	KeepWarm    int           // processes that wait without end
}

// DefaultConcurrency is the Concurrency of a function where neither it nor its trigger says one.
const DefaultConcurrency = 16

// Or returns the resources with another's where they are zero.
func (r Resources) Or(other Resources) Resources {
	return Resources{
		Memory: cmp.Or(r.Memory, other.Memory), MilliCPU: cmp.Or(r.MilliCPU, other.MilliCPU), Disk: cmp.Or(r.Disk, other.Disk),
		Timeout: cmp.Or(r.Timeout, other.Timeout), IdleTimeout: cmp.Or(r.IdleTimeout, other.IdleTimeout),
		Concurrency: cmp.Or(r.Concurrency, other.Concurrency), KeepWarm: cmp.Or(r.KeepWarm, other.KeepWarm),
	}
}
