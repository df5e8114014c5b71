// Package wire has what HTTP's standards ask of a server and net/http leaves out: where a request on a connection ends
// when its sender says that twice, which bytes of a file a Range header means, and how a small answer leaves in one
// piece.
package wire
