package rules

import "github.com/penstock/penstock/leaky"

// MaxKeys is the maximum of max_keys.
const MaxKeys = 100_000_000

// The default of max_keys: as many keys as fit in keyMemory if each takes its maximum, but at most mostKeys. So no
// rule fills a store with keys by default.
const (
	mostKeys  = 1_000_000
	keyMemory = 256 << 20
)

// Maximum bytes of a key in either engine, and of each further entry of a log or place; see docs/limiters.md.
const (
	keyBytes   = 256
	entryBytes = 32
	placeBytes = 192
)

// KeyLimit returns how many keys the rule may hold at once, besides those with overrides.
func (r *Rule) KeyLimit() int64 {
	if r.MaxKeys > 0 {
		return r.MaxKeys
	}
	return min(mostKeys, keyMemory/r.Bound.keyBytes(r.Algorithm))
}

func (b *Bound) keyBytes(a leaky.Algorithm) int64 {
	if more := algorithmOf(a).moreBytes; more != nil {
		return keyBytes + more(b)
	}
	return keyBytes
}
