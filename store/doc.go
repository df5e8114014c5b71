// Package store keeps the state: apps, pushes, runs, versions, releases, reports, and the durable jobs beside them.
//
// Update is the unit of work: everything that a function does on its Tx, jobs included, becomes visible in one
// transaction or not at all. Reads on the DB see committed state only and never wait for a writer. No method of a Tx
// may wait for the network: there is one writing connection.
//
// All SQL of the project is here, in one text for every engine.
package store
