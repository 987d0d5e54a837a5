// Package rules has the rules that limit how much comes in: their settings, keys and answers. Everything it parses is
// valid, and two rules are equal exactly if their encodings are. Engines keep the tallies: see queue.Rules and
// queue.Taker. Package ruleset decides which rules a queue asks.
package rules

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/unit"
)

// Rule limits how much comes in under each of its keys, such as "2 verification mails per minute to one address".
// Names are formed as for queues, and the part before the dot is the group: rules of a queue's own group are decided
// within the append, in one step.
type Rule struct {
	Name      string          `json:"name"`
	Algorithm leaky.Algorithm `json:"algorithm"`
	Bound
	// Key is a template of a job's fields; see Template. The rule counts separately per key; an empty template counts
	// everything together. A caller that takes from the rule by name gives the key, and must if there is a template.
	Key string `json:"key,omitempty"`
	// Unit is what a budget counts, such as tokens; other algorithms have none. Takes state their cost in it, and can be
	// corrected: see TakeCorrect.
	Unit string `json:"unit,omitempty"`
	// Action is what to do with a refused job: Reject, Defer or Shadow.
	Action string `json:"action"`
	// Away says what to do while the store cannot be reached: AwayOpen, AwayClosed or AwayShare.
	Away string `json:"away"`
	// Overrides replaces the whole bound for single keys, as expanded from the template.
	Overrides map[string]Bound `json:"overrides,omitempty"`
	// MaxKeys is the maximum number of keys, besides those with overrides; 0 means the default, see KeyLimit. At the
	// maximum new keys are refused. No key is forgotten early to make room, as its owner could then exceed the limit.
	MaxKeys int64 `json:"max_keys,omitzero"`
}

// Bound has the numbers of a limiter. The algorithm decides which are needed (see Numbers); the others must be left
// out.
type Bound struct {
	// Rate is how fast takes become available again.
	Rate leaky.Rate `json:"rate,omitzero"`
	// Burst is how much may pass at once after idleness; 0 means 1.
	Burst int64 `json:"burst,omitzero"`
	// Limit is how much may pass per Period; for concurrency, at a time.
	Limit int64 `json:"limit,omitzero"`
	// Period is the window of Limit; for gap, the minimum time between two takes.
	Period unit.Duration `json:"period,omitzero"`
	// Resolution is how close entries of a log must be to be merged; 0 keeps each.
	Resolution unit.Duration `json:"resolution,omitzero"`
	// TTL is how long a place is held without being renewed or given back.
	TTL unit.Duration `json:"ttl,omitzero"`
}

// Info is a rule and its state.
type Info struct {
	Rule
	Revision int64
	// Queues has the queues of its group that ask the rule, sorted by name.
	Queues []string
	// Keys is the approximate number of keys, besides those with overrides: some may have expired since they were
	// counted.
	Keys int64
}

// The actions of a Rule: what to do with a refused job.
const (
	Reject = "reject" // refuse it
	Defer  = "defer"  // put it on the overflow, if there is one
	Shadow = "shadow" // accept it: the rule only counts
)

// What a rule does while the store cannot be reached.
const (
	AwayOpen   = "open"   // everything passes
	AwayClosed = "closed" // nothing passes
	AwayShare  = "share"  // each process allows its share of the limit
)

// Limits of rules.
const (
	MaxKeyBytes  = 1024
	MaxOverrides = 1000
	MaxTakes     = 1000
)

// ErrUnknown means that no rule has that name.
var ErrUnknown = errors.New("unknown rule")

// ErrInUse means that a queue of the rule's group asks it.
var ErrInUse = errors.New("queues use this rule: remove it from their rules first")

// Normalize fills in the defaults.
func (r *Rule) Normalize() {
	r.Action = cmp.Or(r.Action, Reject)
	r.Away = cmp.Or(r.Away, AwayClosed)
	r.Bound.normalize(r.Algorithm)
	if len(r.Overrides) == 0 {
		r.Overrides = nil // an empty map means the same
		return
	}
	r.Overrides = maps.Clone(r.Overrides) // copies of the rule share the map
	for key, b := range r.Overrides {
		b.normalize(r.Algorithm)
		r.Overrides[key] = b
	}
}

// Of returns the bound of a key.
func (r *Rule) Of(key string) Bound {
	if b, ok := r.Overrides[key]; ok {
		return b
	}
	return r.Bound
}

// Validate checks a normalized rule. Its error is an *invalid.Error.
func (r *Rule) Validate() error {
	if err := ValidateName(r.Name); err != nil {
		return err
	}
	if err := r.Bound.validate("", r.Algorithm); err != nil {
		return err
	}
	if _, err := ParseTemplate(r.Key); err != nil {
		return err
	}
	if err := r.validateUnit(); err != nil {
		return err
	}
	switch r.Action {
	case Reject, Defer, Shadow:
	default:
		return invalid.Errorf("action", r.Action, "must be reject, defer or shadow")
	}
	switch r.Away {
	case AwayOpen, AwayClosed, AwayShare:
	default:
		return invalid.Errorf("away", r.Away, "must be open, closed or share")
	}
	if r.MaxKeys != 0 {
		if err := invalid.Range("max_keys", r.MaxKeys, 1, MaxKeys); err != nil {
			return err
		}
	}
	if n := len(r.Overrides); n > MaxOverrides {
		return invalid.Errorf("overrides", "", "has %d entries, the limit is %d", n, MaxOverrides)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Overrides)) {
		if key == "" {
			return invalid.Errorf("overrides", "", "has an empty key")
		}
		if err := ValidateKey("overrides", key); err != nil {
			return err
		}
		b := r.Overrides[key]
		if err := b.validate("overrides."+key+".", r.Algorithm); err != nil {
			return err
		}
	}
	return nil
}

// needed has the numbers without a default: how a missing one reads, and an example.
var needed = map[string]struct{ none, example string }{
	"rate": {"unlimited", `"5/s"`}, "limit": {"0", "100"}, "period": {"0s", `"1m"`}, "ttl": {"0s", `"30s"`},
}

func (b *Bound) validate(prefix string, a leaky.Algorithm) error {
	l, err := b.Limiter(a)
	if err != nil {
		return err
	}
	row := algorithmOf(a)
	most, longest := cmp.Or(row.maxLimit, leaky.MaxLimit), cmp.Or(row.maxPeriod, leaky.MaxPeriod)
	maxBurst := cmp.Or(row.maxBurst, leaky.MaxBurst)
	for _, f := range []struct {
		name  string
		given bool
		check func(field string) error
	}{
		{"rate", !b.Rate.Unlimited(), func(string) error { return nil }},
		{"burst", b.Burst != 0, func(field string) error { return invalid.Range(field, b.Burst, 1, maxBurst) }},
		{"limit", b.Limit != 0, func(field string) error { return invalid.Range(field, b.Limit, 1, most) }},
		{
			"period", b.Period != 0,
			func(field string) error { return invalid.Span(field, b.Period.D(), leaky.MinPeriod, longest) },
		},
		{
			"resolution", b.Resolution != 0,
			func(field string) error { return invalid.Span(field, b.Resolution.D(), 0, b.Period.D()) },
		},
		{
			"ttl", b.TTL != 0,
			func(field string) error { return invalid.Span(field, b.TTL.D(), leaky.MinPeriod, leaky.MaxPeriod) },
		},
	} {
		field := jsondepth.ShortPath(prefix + f.name)
		if !slices.Contains(Numbers(a), f.name) {
			if f.given {
				return useless(field, a)
			}
			continue
		}
		if n, must := needed[f.name]; must && !f.given {
			return invalid.Errorf(
				field, "", "is missing or %s, but %s needs it; use for example %s", n.none, a, n.example,
			)
		}
		if err := f.check(field); err != nil {
			return err
		}
	}
	if err := l.Validate(); err != nil { // numbers that do not fit together
		by := Numbers(a)
		return invalid.Errorf(jsondepth.ShortPath(prefix+by[len(by)-1]), "", "%v", err)
	}
	return nil
}

func useless(field string, a leaky.Algorithm) error {
	return invalid.Errorf(
		field, "", "has no effect with %s, which uses %s; leave it out", a, strings.Join(Numbers(a), " and "),
	)
}

// ValidateName checks the name of a rule. It follows the rules for queue names.
func ValidateName(name string) error {
	if names.Validate(name) != nil {
		return invalid.Errorf(
			"name", name,
			"a rule name has 1 to 64 characters of a-z 0-9 _ - and begins with a letter or digit; group.rule, with one "+
				"dot, is a rule of that group",
		)
	}
	return nil
}

// ValidateKey checks a key: up to MaxKeyBytes of UTF-8. A rule without a template counts under the empty key.
func ValidateKey(field, key string) error {
	switch {
	case len(key) > MaxKeyBytes:
		return invalid.Errorf(
			field, key, "has %d bytes, the limit is %d; use a digest of it instead", len(key), MaxKeyBytes,
		)
	case !utf8.ValidString(key):
		return invalid.Errorf(field, key, "is not valid UTF-8")
	}
	return nil
}

// Encode returns the canonical JSON of a rule, as it is stored: two rules are equal exactly if their encodings are.
func Encode(r Rule) ([]byte, error) { return json.Marshal(r, json.Deterministic(true)) }

// Decode parses what Encode returned. For other input use Parse.
func Decode(data []byte) (r Rule, err error) {
	err = json.Unmarshal(data, &r)
	return r, err
}
