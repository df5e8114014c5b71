// Package runs makes runs and ends them, and says what people hear of them: their state, and what the forge is owed of it, commit statuses
// and comments on pull requests.
//
// A run that was reported as pending is reported as final in the transaction that ends it, and only there (V8). One that made a release
// is over for people once gateways show that.
package runs
