// Package jobs works the durable jobs of a process, and rings for what no job points at.
//
// The row of a run, an app or a record is the truth, and the durable job is its doorbell: a job that is lost is rung for again, and one
// that is worked twice finds nothing to do.
package jobs
