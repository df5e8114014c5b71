// Package deploy moves pointers: releases are made, become live, are tagged, rolled back, held, and expire.
//
// A push moves them by a RefUpdate, and a person by an Editor, which makes a version and a release of an app as a push does. A Rollout
// gives gateways what became visible.
//
// All other functions work on the transaction of their caller, so a release and its pointers become visible together. An app
// that is passed by pointer is changed in place and stored. Every move of live and of a tag is kept: who, when, from,
// to, why.
package deploy
