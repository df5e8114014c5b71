// Package assets makes objects and manifests from the static units of a commit.
//
// Select applies an app's static rules to the files of a commit and of its build. Plan compares a changed unit with
// manifests of earlier versions: it points to the files that they have, and plans the upload of the others below the
// version's own prefix. Upload writes exactly these files and one manifest. Nothing is listed, checked or copied in the
// store on this way: git's blob names and the digests of build outputs show what is new.
//
//	apps/{namespace}/{app}/static/{unit}/{uid}/…path…          what this version stored
//	apps/{namespace}/{app}/static/{unit}/{uid}/.manifest.json  every file of it: path → key, sha256, size, type
//
// Objects are created once and never overwritten. If a key has other bytes already, the new ones go to the key with "~"
// and 8 hexadecimal digits of their digest at its end, and the manifest names that key. So an upload that was killed at
// any point can be repeated, with the same manifest as the result.
package assets
