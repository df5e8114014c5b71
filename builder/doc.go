// Package builder makes everything from a commit that planning needs: the mirror of its repository, its files, their
// bytes, and archives.
//
// A mirror is a bare repository. No work tree is ever made, and nothing of a repository is executed. Runs share only
// the mirrors:
//
//	Mirrors.Fetch ──(lock of the mirror)──▶ pack, checked ▶ references     one at a time for each mirror
//	Mirror.Files, Read, Commit … ──▶ packs, as they were when opened       any number, never waiting for a fetch
//
// When there are 50 packs, Fetch joins the small ones. Readers only open packs while nobody removes any. When an object
// is missing, they open the packs again, once. So neither a fetch nor a join disturbs a run.
package builder
