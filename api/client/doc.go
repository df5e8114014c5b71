// Package client is the Go client of the REST API, and the shapes of its JSON.
package client
