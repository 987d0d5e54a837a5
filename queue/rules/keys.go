package rules

import "github.com/penstock/penstock/leaky"

// MaxKeys is the highest max_keys.
const MaxKeys = 100_000_000

// The default of max_keys: as many keys as fit in keyMemory if each takes all that it can, and not more than
// mostKeys. So no rule fills a store by its keys unless somebody says so.
const (
	mostKeys  = 1_000_000
	keyMemory = 256 << 20
)

// What a key takes at most in either engine, and what each further entry of a log, or place, adds; see
// docs/limiters.md.
const (
	keyBytes   = 256
	entryBytes = 32
	placeBytes = 192
)

// KeyLimit is how many keys may be held at once, but for those with overrides.
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
