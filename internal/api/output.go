package api

import "sync"

// output is a buffer in which a response is put together.
type output struct{ b []byte }

var outputs = sync.Pool{New: func() any { return &output{b: make([]byte, 0, 1024)} }}

func takeOutput() *output { return outputs.Get().(*output) }

// free gives the buffer back, unless it grew so much that keeping it would be
// hoarding.
func (o *output) free() {
	if cap(o.b) <= 64<<10 {
		o.b = o.b[:0]
		outputs.Put(o)
	}
}
