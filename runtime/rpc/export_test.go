package rpc

// What a call is made of, for the tests that make one by hand.
const (
	FunctionHeader = functionHeader
	RefusedHeader  = refusedHeader
	StreamHeader   = streamHeader
	BodyHeader     = bodyHeader
	ContentType    = contentType
	Busy           = busy
)

// What reads and writes it.
var (
	NameOf     = nameOf
	WriteError = writeError
)
