// Package deploy moves pointers: it makes releases, makes them live, tags them, rolls back, holds and expires them.
//
// A push moves pointers by a RefUpdate. A person moves them by an Editor, which makes a version and a release of an app
// as a push does. A Rollout shows gateways what became visible.
//
// All other functions work in the transaction of their caller, so a release and its pointers become visible together.
// An app that is passed by pointer is changed and stored. Every move of live and of a tag is recorded: who, when, from,
// to, why.
package deploy
