package rpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// contentType is the media type of an answer in frames, and of a request whose body follows its event.
const contentType = "application/x-landfall-call"

// The kinds of frames.
const (
	logFrame    = 'l' // a piece of the log
	headFrame   = 'h' // the event of an answer that is streamed, or of a request whose body follows, as JSON
	pieceFrame  = 'd' // a piece of its data
	endFrame    = 'z' // the body's end: the last frame
	answerFrame = 'a' // the answer, as JSON: the last frame
	errorFrame  = 'e' // the error in its place: the last frame
)

const (
	frameHead = 5
	atFirst   = 64 << 10 // bytes for which there is room before they come
	maxLog    = 1 << 20  // bytes of the log of one answer: a runner cuts it earlier
	maxFault  = 1 << 20  // bytes of an error
	maxAnswer = 16 << 20 // bytes of an answer: a runner's limit is less, also when its data becomes base64
	maxPiece  = 4 << 20  // bytes of a piece of one that is streamed: a runner's limit is less
)

// appendFrame appends a frame.
func appendFrame(out []byte, kind byte, text []byte) []byte {
	out = binary.BigEndian.AppendUint32(append(out, kind), uint32(len(text)))
	return append(out, text...)
}

var errFrame = errors.New("what came is no frame, or too large")

// readFrame reads a frame that may have as many bytes as its kind's limit says.
func readFrame(from io.Reader, limits map[byte]int) (kind byte, text []byte, err error) {
	return readFrameInto(new(bytes.Buffer), from, limits)
}

// readFrameInto reads a frame as readFrame does, into room, which has nothing else then.
func readFrameInto(room *bytes.Buffer, from io.Reader, limits map[byte]int) (kind byte, text []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, nil, err
	}
	kind = head[0]
	size := binary.BigEndian.Uint32(head[1:])
	if limit, known := limits[kind]; !known || int64(size) > int64(limit) {
		return 0, nil, errFrame
	}
	// What a frame says of its length costs its sender nothing.
	room.Reset()
	room.Grow(int(min(size, atFirst)) + bytes.MinRead)
	n, err := room.ReadFrom(io.LimitReader(from, int64(size)))
	if err == nil && n < int64(size) {
		err = io.ErrUnexpectedEOF
	}
	return kind, room.Bytes(), err
}

// setSize sets the number of bytes of a frame that was written without it.
func setSize(frame []byte) {
	binary.BigEndian.PutUint32(frame[1:], uint32(len(frame)-frameHead))
}

// atEnd reports whether nothing follows.
func atEnd(rest io.Reader) bool {
	_, err := io.ReadFull(rest, make([]byte, 1))
	return errors.Is(err, io.EOF)
}
