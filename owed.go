package landfall

import "time"

// Owed is how much the forge was told of something: it must be told while Covered is less than Wanted.
type Owed struct {
	Wanted   int64 // number of events that there were
	Covered  int64 // number of events that the forge was told of
	Attempts int   // failed attempts in a row
	NextAt   time.Time
	Problem  string // why the forge is not told yet, or why it never will be
	Dropped  bool   // it was given up until something happens again; Problem says why
}
