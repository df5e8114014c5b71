package inspect

import "landfall.dev/landfall"

// Preview is the result that a commit would have: the diff, without building, storing or moving anything.
type Preview struct {
	Changes  []landfall.UnitChange
	Complete bool                 // false when a build command would make files whose digests are not known yet
	Files    *landfall.FileChange // of the whole commit, when the diff is not complete; nil when it is not known
	Log      []string
}
