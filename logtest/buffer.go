// Package logtest lets tests read what is still being written.
package logtest

import (
	"bytes"
	"sync"
)

// Buffer keeps what several goroutines, or a process that goes on, have written so far. The zero value is empty and
// ready.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
