// Package accept makes runs from pushes: pushes to the built-in remote, pushes that webhooks report, and commits that
// people apply.
//
// An accepted push has a row before its sender gets an answer, and is applied once (V7). Pushes come in any order, more
// than once or not at all. The commit that a reference names in the end is its head, and only the head moves pointers.
package accept
