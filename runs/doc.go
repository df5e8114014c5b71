// Package runs makes runs and ends them, and reports them to people: their state, commit statuses, and comments on pull
// requests.
//
// A run that was reported as pending is reported as final in the transaction that ends it, and only there (V8). A run
// that made a release is over for people once gateways show the release.
package runs
