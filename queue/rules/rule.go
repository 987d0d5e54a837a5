// Package rules has what limits how much comes in: a rule and what it counts by, and how it is asked. It promises that
// what it read is valid, and that two rules are equal just when their encodings are. What was taken is the engine's to
// know: see queue.Rules and queue.Taker. Which rules a queue asks is the business of package ruleset.
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

// Rule limits what comes in under each of its keys: "2 verification mails a minute to one address". Its name
// is made as a queue's is, and the part before the dot is its group: rules of a queue's own group are decided with the
// append, in one step.
type Rule struct {
	Name      string          `json:"name"`
	Algorithm leaky.Algorithm `json:"algorithm"`
	Bound
	// Key is by what the rule counts, a template of the fields of a job; see Template. Empty is one count for
	// all. Who takes from the rule by name gives the key himself, and must if there is a template.
	Key string `json:"key,omitempty"`
	// Action is what becomes of a job that it refuses: Reject, Defer or Shadow.
	Action string `json:"action"`
	// Away is what holds while the store cannot be asked: AwayOpen, AwayClosed or AwayShare.
	Away string `json:"away"`
	// Overrides are bounds for single keys, as the template makes them, in place of the one above, all of it.
	Overrides map[string]Bound `json:"overrides,omitempty"`
	// MaxKeys is how many keys it holds at once, beside those with overrides: a new one is refused while it holds so
	// many, and none is ever forgotten to make room, as that would let somebody through above his rate. 0 is a
	// default, see KeyLimit.
	MaxKeys int64 `json:"max_keys,omitzero"`
}

// Bound is the numbers of a limiter. Which are needed depends on the algorithm (see Numbers), and others must be left
// out.
type Bound struct {
	// Rate is how fast what was taken comes back.
	Rate leaky.Rate `json:"rate,omitzero"`
	// Burst is how much passes at once after idleness; 0 means 1.
	Burst int64 `json:"burst,omitzero"`
	// Limit is how much passes in a Period; of concurrency, at a time.
	Limit int64 `json:"limit,omitzero"`
	// Period is the window in which a Limit holds, and of gap the least time between two.
	Period unit.Duration `json:"period,omitzero"`
	// Resolution is how near neighbours may be kept as one; 0 keeps each.
	Resolution unit.Duration `json:"resolution,omitzero"`
	// TTL is how long a place is held that is neither renewed nor given back.
	TTL unit.Duration `json:"ttl,omitzero"`
}

// Info is a rule as it stands.
type Info struct {
	Rule
	Revision int64
	// Queues names the queues of its group that ask it, in order of name.
	Queues []string
	// Keys is about how many keys it holds, beside those with overrides: some of them may have expired since they
	// were counted.
	Keys int64
}

// The actions of a Rule: what becomes of a job that it refuses.
const (
	Reject = "reject" // it is refused
	Defer  = "defer"  // it is put on the overflow, if there is one
	Shadow = "shadow" // it comes in all the same: the rule counts, and refuses nothing
)

// What holds while the store cannot be asked.
const (
	AwayOpen   = "open"   // all pass
	AwayClosed = "closed" // none passes
	AwayShare  = "share"  // each process lets through its share of what the rule allows
)

// Limits of rules.
const (
	MaxKeyBytes  = 1024
	MaxOverrides = 1000
	MaxTakes     = 1000
)

// ErrUnknown says that no rule has that name.
var ErrUnknown = errors.New("unknown rule")

// ErrInUse says that a queue of the rule's group asks it.
var ErrInUse = errors.New("queues ask this rule: take it out of their rules first")

// Normalize fills in the defaults.
func (r *Rule) Normalize() {
	r.Action = cmp.Or(r.Action, Reject)
	r.Away = cmp.Or(r.Away, AwayClosed)
	r.Bound.normalize(r.Algorithm)
	if len(r.Overrides) == 0 {
		r.Overrides = nil // an empty one says the same
		return
	}
	r.Overrides = maps.Clone(r.Overrides) // it is whose rule this is a copy of
	for key, b := range r.Overrides {
		b.normalize(r.Algorithm)
		r.Overrides[key] = b
	}
}

// Of returns the bound for a key.
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
		return invalid.Errorf("overrides", "", "are %d, the limit is %d", n, MaxOverrides)
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

// needed are the numbers that have no default: how the lack of one reads, and one for example.
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
	for _, f := range []struct {
		name  string
		given bool
		check func(field string) error
	}{
		{"rate", !b.Rate.Unlimited(), func(string) error { return nil }},
		{"burst", b.Burst != 0, func(field string) error { return invalid.Range(field, b.Burst, 1, leaky.MaxBurst) }},
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
		if such, must := needed[f.name]; must && !f.given {
			return invalid.Errorf(
				field, "", "is missing or %s, and %s goes by it; give one such as %s", such.none, a, such.example,
			)
		}
		if err := f.check(field); err != nil {
			return err
		}
	}
	if err := l.Validate(); err != nil { // numbers that do not go together
		by := Numbers(a)
		return invalid.Errorf(jsondepth.ShortPath(prefix+by[len(by)-1]), "", "%v", err)
	}
	return nil
}

func useless(field string, a leaky.Algorithm) error {
	return invalid.Errorf(
		field, "", "is of no use to %s, which goes by %s; leave it out", a, strings.Join(Numbers(a), " and "),
	)
}

// ValidateName checks the name of a rule, which is made as a queue's is.
func ValidateName(name string) error {
	if names.Validate(name) != nil {
		return invalid.Errorf(
			"name", name,
			"a rule's name is 1 to 64 of a-z 0-9 _ -, beginning with a letter or digit; group.rule, with one dot, is "+
				"a rule of that group",
		)
	}
	return nil
}

// ValidateKey checks a key that is counted under: up to MaxKeyBytes of UTF-8. The empty one is that of all
// jobs under a rule without a template.
func ValidateKey(field, key string) error {
	switch {
	case len(key) > MaxKeyBytes:
		return invalid.Errorf(
			field, key, "has %d bytes, the limit is %d; a digest of it serves as well", len(key), MaxKeyBytes,
		)
	case !utf8.ValidString(key):
		return invalid.Errorf(field, key, "is not valid UTF-8")
	}
	return nil
}

// Encode returns the canonical JSON of a rule, as it is stored: two rules are equal just when their encodings are.
func Encode(r Rule) ([]byte, error) { return json.Marshal(r, json.Deterministic(true)) }

// Decode reads what Encode wrote. For input from outside use Parse.
func Decode(data []byte) (r Rule, err error) {
	err = json.Unmarshal(data, &r)
	return r, err
}
