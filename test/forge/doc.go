// Package forge is the other side of webhooks and reports: a server of git repositories that delivers pushes as GitHub
// does, a stand-in of its API, and installations that hear of both.
package forge
