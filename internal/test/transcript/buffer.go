// Package transcript keeps what a program writes while a test reads it.
package transcript

import (
	"strings"
	"sync"
)

// Buffer is what was written so far. It may be read while it is written; the zero Buffer is empty.
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

// Tail is the end of it, at most n bytes.
func (b *Buffer) Tail(n int) string {
	text := b.String()
	return text[max(0, len(text)-n):]
}
