// Package transcript keeps the output of a program for a test that reads it meanwhile.
package transcript

import (
	"strings"
	"sync"
)

// Buffer has the output so far. It may be read while it is written. The zero Buffer is empty.
type Buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Tail returns the end of the output, at most n bytes.
func (b *Buffer) Tail(n int) string {
	text := b.String()
	return text[max(0, len(text)-n):]
}
