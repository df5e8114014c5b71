// Package contract holds what a version of a function promises: which data it takes, which data it answers with, and
// the tests that show it. JSON Schema (2020-12, or the older draft that a schema names) describes data. Reading a
// schema fetches nothing.
//
// Schemas and data come from strangers. The size of a schema is bounded, and so is the work of each check.
package contract
