// Package crashpoint names the instants at which tests kill the process. In an ordinary build Here does nothing.
package crashpoint

import "slices"

// Names returns every name that Here is called with.
func Names() []string { return slices.Concat(OfPush(), OfCall(), OfDelete(), OfImport(), OfWrite()) }

// OfWrite returns the names of the instants that every change of the database comes by, in that order.
func OfWrite() []string {
	return []string{
		"write.committing", // all is said, and nothing of it holds
		"write.committed",  // all of it holds, and nobody knows
	}
}

// OfImport returns the names of the instants that an import of a release comes by, in that order.
func OfImport() []string {
	return []string{"import.stored"} // all that the release has, and nothing of it is seen
}

// OfDelete returns the names of the instants that the deletion of an app comes by, in that order.
func OfDelete() []string {
	return []string{
		"delete.expired", // in the transaction that closes everything
		"delete.closed",
		"remove.marked",  // nothing points to the content any more
		"remove.deleted", // the objects are gone, and the repository is not
	}
}

// OfCall returns the names of the instants that a function which nobody waits for comes by: when it is due, when it was
// accepted, when it has a message.
func OfCall() []string {
	return []string{
		"firing.due",      // and nobody has it
		"firing.claimed",  // it is this process's, and the function does not know
		"firing.answered", // the function has run, and nothing of that is stored
		"firing.ended",
		"job.due",            // and no run of it is accepted
		"execution.accepted", // it is stored, and who called does not know
		"execution.leased",
		"execution.answered", // the function has run, and nothing of that is stored
		"execution.recorded",
		"execution.resent", // a dead letter waits again, and who sent it does not know
		"message.stored",   // at the NATS server, and who published does not know
		"message.taken",
		"message.answered", // the function has run, and nothing of that is stored
		"message.replied",  // its answer is stored, and nothing else
		"message.recorded", // it is done, and the NATS server does not know
		"message.acknowledged",
	}
}

// OfPush returns the names of the instants that a push comes by, in that order. STEP.something belongs to that step of
// the pipeline; the others lie before, between or behind the steps.
func OfPush() []string {
	return []string{
		"remote.checked", // the push may move its references
		"remote.moved",   // the references have moved, and nothing of that is stored
		"accept.pushed", "accept.stored", "accept.committed",
		"intake.stored", // a delivery is stored, and its sender does not know
		"run.leased",
		"fetch.before", "fetch.fetched", "fetch.after",
		"read.before", "read.after",
		"plan.before", "plan.after",
		"build.before", "build.filled", "build.executed", "build.kept", "build.after",
		"upload.before", "upload.reserved", "upload.static", "upload.archive", "upload.package", "upload.after",
		"commit.before", "commit.kept", "commit.versioned", "commit.grouped", "commit.pointed", "commit.after",
		"end.finished", // a run ends, in the transaction that ends it
		"fail.before", "fail.after",
		"swap.before", "swap.after",
		"report.before",
		"report.sent", // the forge has the report, and nothing of that is stored
		"report.after",
		"report.commenting",
		"report.commented", // the forge has the comment, and nothing of that is stored
		"report.told",
		"collect.marked", "collect.deleted",
	}
}
