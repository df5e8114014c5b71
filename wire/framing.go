package wire

import (
	"bytes"
	"math"
)

// Framing follows the requests on an HTTP/1 connection, byte by byte, as net/http will read them, and finds those that
// say in two ways where they end: with a Content-Length and a Transfer-Encoding, or with a Transfer-Encoding in
// HTTP/1.0, which does not have it (RFC 9112, section 6.1). A proxy before this server may have used the other one of
// the two, and then the body for one of them is the next request for the other. net/http drops the length before
// anybody can see it.
//
// The zero value is at the beginning of a connection.
type Framing struct {
	at        place
	tail      uint32 // the last bytes of the request line
	name      string // of the header that the current line may have
	matched   int    // how many of its bytes matched
	length    number // of the body, from all Content-Length headers of the head
	value     number // of the Content-Length in this line and the lines that continue it
	hasCoding bool   // the head has a Transfer-Encoding
	// bytes of the body, or of the chunk, that are still to come; while the chunk's size is read, the size so far
	left   uint64
	digits int // of the chunk's size
	line   int // bytes of the line with the chunk's size
}

// place is the part of a request to which the next byte belongs.
type place uint8

const (
	beforeRequest place = iota
	inRequestLine
	inFirstByte // of a line of the head
	inReturn    // after the CR of a line of the head that may be empty
	inName
	inLine // of the head, whose rest is not needed
	inLength
	inLengthReturn
	inBody
	inChunkSize
	inChunkBlank
	inChunkExtension
	inChunkReturn
	inChunk
	afterChunk
	afterChunkReturn
	inTrailer // at the first byte of a line
	inTrailerReturn
	inTrailerLine
	inBrokenLine // between chunks, after which nothing may be read
	unframed     // there are no more requests
	ended        // nothing after it may be read
)

// number is the value of a Content-Length.
type number struct {
	n     uint64
	stage stage
}

// stage says how far the reading of a number has come.
type stage uint8

const (
	none stage = iota
	blank
	digit
	behind
	wrong
)

const (
	headerLength = "content-length"
	headerCoding = "transfer-encoding"
)

// Follow gets the bytes that were read from the connection and returns how many of them the server may read: fewer than
// all when it is not certain any more where the next request begins; the connection has ended then. When it finds a
// request that says its end in two ways, it makes the head invalid in p, so that net/http refuses the request, and
// returns true.
func (f *Framing) Follow(p []byte) (n int, refused bool) {
	for i := 0; i < len(p); {
		switch f.at {
		case unframed:
			return len(p), false
		case ended:
			return i, false
		case beforeRequest, inRequestLine, inLine, inTrailerLine, inBrokenLine:
			i += f.skipLine(p[i:])
		case inBody, inChunk:
			i += f.skipData(len(p) - i)
		case inFirstByte, inReturn, inName, inLength, inLengthReturn,
			inChunkSize, inChunkBlank, inChunkExtension, inChunkReturn, afterChunk, afterChunkReturn, inTrailer, inTrailerReturn:
			if f.take(p[i]) {
				p[i] = 0 // no name and no value of a header may have it
				f.at = unframed
				return len(p), true
			}
			i++
		}
	}
	return len(p), false
}

// Release says that the connection now belongs to somebody who does not read requests.
func (f *Framing) Release() { f.at = unframed }

// Ended reports whether the connection has ended for the server.
func (f *Framing) Ended() bool { return f.at == ended }

// skipLine skips the rest of a line of which only the end matters, and returns how many bytes it skipped.
func (f *Framing) skipLine(p []byte) int {
	if f.at == beforeRequest {
		if p[0] == '\r' || p[0] == '\n' {
			return 1 // net/http accepts some after a body, and refuses them elsewhere
		}
		*f = Framing{at: inRequestLine}
	}
	end := bytes.IndexByte(p, '\n')
	passed := p
	if end >= 0 {
		passed = p[:end]
	}
	if f.at == inRequestLine {
		for _, b := range passed[max(0, len(passed)-4):] {
			f.tail = f.tail<<8 | uint32(b)
		}
	}
	if end < 0 {
		return len(p)
	}
	next := inFirstByte
	switch {
	case f.at == inBrokenLine:
		next = ended
	case f.at == inTrailerLine:
		next = inTrailer
	case f.at == inRequestLine && f.version() == version20:
		next = unframed // net/http only answers it, and closes the connection
	}
	f.at = next
	return end + 1
}

// These are the ends of request lines.
const (
	version10 = '1'<<16 | '.'<<8 | '0'
	version20 = '2'<<16 | '.'<<8 | '0'
)

// version returns the end of the request line, which has the version.
func (f *Framing) version() uint32 {
	tail := f.tail
	if byte(tail) == '\r' {
		tail >>= 8
	}
	return tail & 0xffffff
}

// take handles a byte that matters, and reports whether with it the head of a request says in two ways where it ends.
func (f *Framing) take(b byte) (twice bool) {
	switch f.at {
	case inFirstByte:
		f.firstByte(b)
	case inReturn:
		f.at = inLine
		if b == '\n' {
			f.endHead()
		}
	case inName:
		return f.nameByte(b)
	case inLength:
		f.lengthByte(b)
	case inLengthReturn:
		if b == '\n' {
			f.lengthByte(b)
		} else {
			f.value.stage, f.at = wrong, inLine // net/http refuses it when it has the head
		}
	case inChunkSize, inChunkBlank, inChunkExtension, inChunkReturn:
		f.sizeByte(b)
	case afterChunk, afterChunkReturn:
		f.chunkEnd(b)
	case inTrailer, inTrailerReturn:
		f.trailerByte(b)
	// these skip many bytes at once
	case beforeRequest, inRequestLine, inLine, inTrailerLine, inBrokenLine, inBody, inChunk, unframed, ended:
	}
	return false
}

// firstByte handles the first byte of a line of the head.
func (f *Framing) firstByte(b byte) {
	if b == ' ' || b == '\t' { // it continues the line before
		f.at = inLine
		if f.value.stage != none {
			f.at = inLength
			f.lengthByte(b)
		}
		return
	}
	f.endLength()
	f.at, f.matched = inName, 1
	switch b {
	case '\n':
		f.endHead()
	case '\r':
		f.at = inReturn
	case 'c', 'C':
		f.name = headerLength
	case 't', 'T':
		f.name = headerCoding
	default:
		f.at = inLine
	}
}

// nameByte handles a byte of a name that has matched f.name so far.
func (f *Framing) nameByte(b byte) (twice bool) {
	switch {
	case f.matched < len(f.name) && lower(b) == f.name[f.matched]:
		f.matched++
		return false
	case f.matched < len(f.name) || b != ':':
		f.at = inLine
		if b == '\n' {
			f.at = inFirstByte
		}
		return false
	case f.name == headerCoding:
		f.at, f.hasCoding = inLine, true
		return f.length.stage != none || f.version() == version10
	}
	f.at, f.value = inLength, number{stage: blank}
	return f.hasCoding
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		b += 'a' - 'A'
	}
	return b
}

// lengthByte handles a byte of the value of a Content-Length.
func (f *Framing) lengthByte(b byte) {
	v := &f.value
	switch {
	case b == '\n':
		f.at = inFirstByte
	case b == '\r':
		f.at = inLengthReturn
	case v.stage == wrong:
	case b == ' ' || b == '\t':
		if v.stage == digit {
			v.stage = behind
		}
	case '0' <= b && b <= '9' && v.stage != behind:
		if d := uint64(b - '0'); v.n > (math.MaxInt64-d)/10 {
			v.stage = wrong
		} else {
			v.n, v.stage = v.n*10+d, digit
		}
	default:
		v.stage = wrong
	}
	if b == '\n' && v.stage == digit {
		v.stage = behind // a line that continues it begins with a blank
	}
}

// endLength takes over the length when no line can continue it any more.
func (f *Framing) endLength() {
	v := f.value
	f.value = number{}
	switch {
	case v.stage == none:
	case v.stage == wrong || v.stage == blank || (f.length.stage != none && f.length.n != v.n):
		f.length.stage = wrong
	case f.length.stage == none:
		f.length = v
	}
}

// endHead decides what follows the head.
func (f *Framing) endHead() {
	switch {
	case f.length.stage == wrong:
		f.at = ended // net/http refuses it
	case f.hasCoding:
		f.at = inChunkSize // net/http refuses every other coding
		f.left, f.digits, f.line = 0, 0, 0
	case f.length.n > 0:
		f.at, f.left = inBody, f.length.n
	default:
		f.at = beforeRequest
	}
}

// skipData skips bytes of a body or a chunk, of which there are n, and returns how many it skipped.
func (f *Framing) skipData(n int) int {
	passed := int(min(uint64(n), f.left))
	if f.left -= uint64(passed); f.left > 0 {
		return passed
	}
	if f.at == inBody {
		f.at = beforeRequest
	} else {
		f.at = afterChunk
	}
	return passed
}

// maxChunkLine is the length from which net/http does not read the line with a chunk's size.
const maxChunkLine = 4096

// chunkEnd handles one of the two bytes after a chunk.
func (f *Framing) chunkEnd(b byte) {
	switch {
	case f.at == afterChunk && b == '\r':
		f.at = afterChunkReturn
	case f.at == afterChunkReturn && b == '\n':
		f.at, f.left, f.digits, f.line = inChunkSize, 0, 0, 0
	default:
		f.breakOff(b)
	}
}

// trailerByte handles the first byte of a line after the last chunk, or the byte after it when that is a CR.
func (f *Framing) trailerByte(b byte) {
	switch {
	case b == '\n':
		f.at = beforeRequest
	case b == '\r' && f.at == inTrailer:
		f.at = inTrailerReturn
	default:
		f.at = inTrailerLine
	}
}

// breakOff ends reading after the line with b, so that net/http finds what is wrong in it.
func (f *Framing) breakOff(b byte) {
	f.at = inBrokenLine
	if b == '\n' {
		f.at = ended
	}
}

// sizeByte handles a byte of the line with a chunk's size.
func (f *Framing) sizeByte(b byte) {
	const maxDigits = 16
	f.line++
	value, hex := hexOf(b)
	switch {
	case b == '\n' && f.at == inChunkReturn && f.digits > 0 && f.line <= maxChunkLine:
		f.at = inChunk
		if f.left == 0 {
			f.at = inTrailer
		}
	case b == '\n' || f.at == inChunkReturn || f.line > maxChunkLine:
		f.breakOff(b)
	case b == '\r':
		f.at = inChunkReturn
	case f.at == inChunkExtension:
	case b == ' ' || b == '\t':
		f.at = inChunkBlank
	case f.at == inChunkSize && b == ';':
		f.at = inChunkExtension
	case f.at == inChunkSize && hex && f.digits < maxDigits:
		f.left, f.digits = f.left<<4|value, f.digits+1
	default:
		f.breakOff(b)
	}
}

func hexOf(b byte) (value uint64, ok bool) {
	switch b = lower(b); {
	case '0' <= b && b <= '9':
		return uint64(b - '0'), true
	case 'a' <= b && b <= 'f':
		return uint64(b-'a') + 10, true
	}
	return 0, false
}
