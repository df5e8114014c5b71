// Package builder takes a commit to what can be planned: the mirror of its repository, its files, their bytes, and archives.
//
// A mirror is a bare repository; no work tree is ever made, and nothing of a repository is ever executed. All runs share
// the mirrors and nothing else:
//
//	Mirrors.Fetch ──(lock of the mirror)──▶ pack, checked ▶ references     one at a time for each mirror
//	Mirror.Files, Read, Commit … ──▶ packs, as they were when opened       any number, never waiting for a fetch
//
// When there are 50 packs, Fetch joins the small ones. Readers open packs while nobody removes any, and open them anew,
// once, when an object is missing: so neither a fetch nor a join disturbs a run.
package builder
