// Package backup writes everything of an installation that cannot be made again into one archive, and fills an empty
// installation from it.
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
// The rows come first, and belong to one moment. Everything that they name exists, because an object and a commit are
// stored before a row names them, and the caller of Write prevents collections meanwhile. So the other parts may be
// newer than the rows, but never older. It is the same state as after a kill at that moment: the references of a
// built-in repository show what was pushed, and a run that begins again may find its folder of objects half filled.
//
// Read passes on entry by entry and trusts nothing: not the names, not the sizes, not that there is an end. A restore
// makes nothing visible before Read has returned without an error.
package backup
