// Package contract holds what a version of a function promises: which data it takes, which data it answers with, and the tests that
// show it. Data is described by JSON Schema (2020-12, or the older draft that a schema names), and nothing is fetched to read one.
//
// Schemas and data come from strangers. A schema has a bound on its size, and a check of data a bound on its work, whatever both are.
package contract
