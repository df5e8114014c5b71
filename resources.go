package landfall

import (
	"cmp"
	"time"
)

// Resources bound a function. A zero field leaves the value to the next in the order: trigger, function, default.
type Resources struct {
	Memory      int64         // bytes of one process and everything that it starts
	MilliCPU    int           // thousandths of a processor for one process
	Disk        int64         // bytes in /tmp of one process, which also count as memory
	Timeout     time.Duration // of one execution, including the start of a process
	IdleTimeout time.Duration // how long a process waits for the next event
	Concurrency int           // processes, and so executions at the same time
	KeepWarm    int           // processes that always wait
}

// DefaultMemory is the Memory of a function, in bytes, when neither it nor its trigger sets one.
const DefaultMemory = 128 << 20

// DefaultConcurrency is the Concurrency of a function when neither it nor its trigger sets one.
const DefaultConcurrency = 16

// Or returns the resources, with the values of other where they are zero.
func (r Resources) Or(other Resources) Resources {
	return Resources{
		Memory: cmp.Or(r.Memory, other.Memory), MilliCPU: cmp.Or(r.MilliCPU, other.MilliCPU),
		Disk: cmp.Or(r.Disk, other.Disk), Timeout: cmp.Or(r.Timeout, other.Timeout),
		IdleTimeout: cmp.Or(r.IdleTimeout, other.IdleTimeout), Concurrency: cmp.Or(r.Concurrency, other.Concurrency),
		KeepWarm: cmp.Or(r.KeepWarm, other.KeepWarm),
	}
}
