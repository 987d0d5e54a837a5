package api

import "sync/atomic"

// budget bounds what is in use at once. It never blocks: who finds nothing left
// is turned away, which is better than holding a connection that waits.
type budget struct {
	limit int64
	used  atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.used.Add(-n)
	return false
}

func (b *budget) free(n int64) { b.used.Add(-n) }
