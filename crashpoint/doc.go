// Package crashpoint names the instants at which tests kill the process. In an ordinary build Here does nothing.
package crashpoint

// Names returns every name that Here is called with, in the order in which a push comes by. STEP.something belongs to
// that step of the pipeline; the others lie before, between or behind the steps.
func Names() []string {
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
