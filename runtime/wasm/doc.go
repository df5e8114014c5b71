// Package wasm runs WebAssembly modules in this process: commands of WASI snapshot preview 1, without folders, network
// or any function of ours.
//
//	a file ──(Check or Load: a process of its own)──▶ machine code on disk ──(Load, and a Run after Unload)──▶ in memory
//	in memory ──(Run)──▶ an instance, with a memory of its own, which ends with the run
//
// A module is compiled once, by a process that may take only so much memory and time: what reads a hostile module there
// is not what serves everybody else. Its machine code is read by nobody but programs of this version on this kind of
// machine, from a folder that is theirs alone, and is never taken from anywhere else.
package wasm
