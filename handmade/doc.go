// Package handmade makes versions of functions and packages of what a person sends: a file, an archive, or the address
// of one.
//
// What is sent becomes a commit of the app's repository on the server, which declares these units alone, and goes
// through the pipeline as every push does: it is built in the sandbox, stored, and put into force beside all that the
// app has. A unit that no app owns belongs to the app of its namespace, which has the namespace's name and no releases.
package handmade
