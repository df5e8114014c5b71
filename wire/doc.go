// Package wire has what HTTP's standards ask of a server and net/http leaves out: where a request on a connection ends when its
// sender says that twice, and which bytes of a file a Range header means.
package wire
