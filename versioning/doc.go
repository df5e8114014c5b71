// Package versioning turns what a commit declares into versions: digests, diffs, numbers, group versions, retirement
// and references.
//
// A version's digest is a Merkle node: SHA-256 over the version of the rule set, the unit's kind, its canonical spec,
// the digests of the units to which it refers, and the digest of its content. Names, labels and annotations are not a
// part of it. So a change is found by comparing digests and nothing else, and the order of files, documents and keys
// does not matter.
package versioning
