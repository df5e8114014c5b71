// Package accept lets pushes become runs: those that come to the built-in remote, those that webhooks tell of, and commits that are
// applied by hand.
//
// An accepted push has a row before its sender hears so, and is applied once (V7). Pushes come in any order, more than once or not at
// all; what a reference names in the end is its head, and only the head moves pointers.
package accept
