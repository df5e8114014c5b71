// Package upkeep deletes what is not needed any more: versions and objects that nothing holds, old records, and the
// apps that people delete.
//
// The transaction that marks or deletes a thing checks whether something holds it. So a push that needs the thing again
// finds it, or finds that it is gone.
package upkeep
