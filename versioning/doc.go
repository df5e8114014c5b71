// Package versioning turns what a commit declares into versions: digests, diffs, numbers, group versions, retirement
// and references.
//
// A version's digest is a Merkle node: SHA-256 over the rule set's version, the unit's kind, its canonical spec, the
// digests of the units it refers to, and the digest of its content. Names, labels and annotations are not in it. So
// change detection compares digests and nothing else, and the order of files, documents and keys does not matter.
package versioning
