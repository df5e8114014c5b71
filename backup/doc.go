// Package backup writes all of an installation that is not made again into one archive, and fills an empty one from it.
//
// An archive is a tar stream in zstd, in this order:
//
//	backup.json        which form this is, and when it was made
//	database.jsonl     the rows, as store.Snapshot.Dump writes them: for any engine
//	token              the administrator's token, if the data folder has it
//	git/APP.refs       references of a built-in repository
//	git/APP.pack       all of its objects
//	objects/KEY        the objects, unless they are left out
//	end.json           how much there was, and a digest of all of the above; or why there is no more
//
// The rows are of one moment, and come first. What they name is there, since an object and a commit are stored before a row names
// them, and who calls Write sees to it that nothing is collected meanwhile. So what comes of the rest may be newer than the rows,
// and never older: as after a kill at that moment, after which the references of a built-in repository tell what was pushed, and a
// folder of objects may be half filled by a run that begins again.
//
// Read hands on entry by entry and trusts nothing: not the names, not the sizes, not that there is an end. Whoever restores
// makes nothing visible before Read has returned without an error.
package backup
