// Package execution keeps what became of each run of a function, and runs those that were accepted before they ran.
//
// # Records
//
//	Run ──▶ in memory ──(every quarter of a second)──▶ the store
//
// Who calls a function never waits for the store: what is over is written in batches, behind the answer. When more
// happens than may be recorded, failures are kept and successes are dropped, counted, and said in the log. What a
// function logs goes with its record, and while it still runs, too. After a crash, what was over in the last moment has
// no record.
//
// # Executions that were accepted
//
//	Accept ──▶ queued ──(leased)──▶ running ──▶ succeeded, failed
//	              ▲                    │
//	              └──(busy; its process died, and it was not tried often)
//
// These are rows first. They name the version that they were accepted for, and any process that runs functions takes
// them. Each is run at least once: again when the process died that ran it, but not when the function failed.
package execution
