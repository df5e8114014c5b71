// Package assets turns the static units of a commit into objects and manifests.
//
// Select applies an app's static rules to the files of a commit and of its build. Plan compares a changed unit with
// manifests of earlier versions: what they have is pointed to, the rest is to be uploaded below the version's own
// prefix. Upload writes exactly these files and one manifest. Nothing is ever listed, headed or copied on that way:
// git's blob names and the digests of build outputs say what is new.
//
//	apps/{namespace}/{app}/static/{unit}/{uid}/…path…          what this version stored
//	apps/{namespace}/{app}/static/{unit}/{uid}/.manifest.json  every file of it: path → key, sha256, size, type
//
// Objects are created once and never overwritten. Where other bytes lie already, the new ones go to the key with "~"
// and 8 hexadecimal digits of their digest behind it, and the manifest names that. So an upload that was killed at
// any point can be repeated, and ends with the same manifest.
package assets
