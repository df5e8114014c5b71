// Package upkeep deletes what is not needed any more: versions and objects that nothing holds, records that are too old, and the apps that
// people delete.
//
// Whether something is held is checked in the transaction that marks or deletes it, so a push that comes back to it finds it, or finds
// it gone.
package upkeep
