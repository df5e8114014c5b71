package schedule

// Wait waits for the firings under way.
func (s *Scheduler) Wait() { s.group.Wait() }

// DeadAfter is how long a process gives no sign of life before it is taken for dead.
const DeadAfter = deadAfter
