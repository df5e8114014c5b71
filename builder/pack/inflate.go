package pack

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/klauspost/compress/zlib"
)

// inflater inflates entries, one after the other, because making one costs more than inflating most entries.
type inflater struct {
	in    *bufio.Reader
	z     io.ReadCloser // nil before the first entry; a zlib.Resetter
	space [4 << 10]byte
}

// inflaters are the inflaters that nobody uses.
type inflaters struct{ sync.Pool }

// at returns an inflater that reads f from offset. The caller returns it with Put.
func (p *inflaters) at(f *os.File, offset int64) *inflater {
	i, ok := p.Get().(*inflater)
	if !ok {
		i = &inflater{in: bufio.NewReader(nil)}
	}
	i.in.Reset(io.NewSectionReader(f, offset, 1<<62))
	return i
}

// start returns a reader of the next compressed bytes, inflated. It takes no byte after them.
func (i *inflater) start() (io.Reader, error) {
	var err error
	if i.z == nil {
		i.z, err = zlib.NewReader(i.in)
	} else if again, ok := i.z.(zlib.Resetter); ok {
		err = again.Reset(i.in, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return i.z, nil
}

// inflate writes the next entry to w; inflated it must have exactly size bytes.
func (i *inflater) inflate(w io.Writer, size int64) error {
	z, err := i.start()
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(onlyWriter{w}, io.LimitReader(z, size+1), i.space[:])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if n != size {
		return fmt.Errorf("%w: object of %d bytes says %d", ErrCorrupt, n, size)
	}
	return nil
}

// onlyWriter hides ReadFrom, which would allocate a buffer of its own.
type onlyWriter struct{ io.Writer }
