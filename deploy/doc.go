// Package deploy moves pointers: releases are made, become live, are tagged, rolled back, held, and expire.
//
// Every function works on the transaction of its caller, so a release and its pointers become visible together. An app
// that is passed by pointer is changed in place and stored. Every move of live and of a tag is kept: who, when, from,
// to, why.
package deploy
