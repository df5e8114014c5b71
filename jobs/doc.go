// Package jobs works on the durable jobs of a process, and enqueues jobs that are missing.
//
// The row of a run, an app or a record is the truth, and the durable job only wakes a worker: a lost job is enqueued
// again, and a job that is worked on twice finds nothing to do.
package jobs
