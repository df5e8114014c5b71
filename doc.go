// Package landfall is the vocabulary of Landfall: what an app, a push, a unit, a version, a group version, a release
// and a run are, and the rules that need nothing but their values. It imports nothing else of the project.
package landfall
