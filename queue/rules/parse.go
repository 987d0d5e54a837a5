package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/internal/strictjson"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
)

// MaxBytes is the maximum length of a rule that Parse reads.
const MaxBytes = 2 << 20

var ruleDocument = strictjson.Document{
	Name: "rule", Of: "a rule", Most: MaxBytes,
	Wants: map[string]string{
		"limit":    fmt.Sprintf("a whole number from 1 to %d", int64(leaky.MaxLimit)),
		"burst":    fmt.Sprintf("a whole number from 1 to %d", int64(leaky.MaxBurst)),
		"max_keys": fmt.Sprintf("a whole number from 1 to %d", MaxKeys),
	},
}

// Parse parses a rule from JSON as strictly as queue.ParseSpec parses a spec: given values, even zeros, are taken
// literally. The name may be left out, for callers who know it already; everything else is valid on return.
func Parse(data []byte) (Rule, error) {
	r := Rule{Action: Reject, Away: AwayClosed}
	given, err := ruleDocument.Read(data, &r)
	if err != nil {
		return Rule{}, err
	}
	if _, err := r.Limiter(r.Algorithm); err != nil {
		return Rule{}, err
	}
	if err := r.Bound.parsed(r.Algorithm, "", given); err != nil {
		return Rule{}, err
	}
	for _, key := range slices.Sorted(maps.Keys(r.Overrides)) {
		b := r.Overrides[key]
		if err := b.parsed(r.Algorithm, "overrides."+key+".", given); err != nil {
			return Rule{}, err
		}
		r.Overrides[key] = b
	}
	if len(r.Overrides) == 0 {
		r.Overrides = nil
	}
	check := r
	if !given["name"] {
		check.Name = "unnamed"
	}
	if err := check.Validate(); err != nil {
		return Rule{}, err
	}
	if given["max_keys"] && r.MaxKeys == 0 {
		return Rule{}, invalid.Range("max_keys", 0, 1, MaxKeys)
	}
	return r, nil
}

// parsed fills in the default of a bound where no value is given. A given number that the algorithm does not use is an
// error, even if it is 0.
func (b *Bound) parsed(a leaky.Algorithm, prefix string, given map[string]bool) error {
	for _, name := range []string{"rate", "burst", "limit", "period", "resolution", "ttl"} {
		if given[prefix+name] && !slices.Contains(Numbers(a), name) {
			return useless(jsondepth.ShortPath(prefix+name), a)
		}
	}
	if !given[prefix+"burst"] {
		b.normalize(a)
	}
	return nil
}
