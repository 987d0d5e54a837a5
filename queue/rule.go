package queue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/jsondepth"
)

// Rule limits what comes in under each of its keys: "2 verification mails a minute to one address". Its
// name is made as a queue's is, and the part before the dot is its group: rules of a queue's own group are decided
// with the append, in one step.
type Rule struct {
	Name      string          `json:"name"`
	Algorithm leaky.Algorithm `json:"algorithm"`
	Bound
	// Key is by what the rule counts, a template of the fields of a job; see KeyTemplate. Empty is one
	// count for all. Who takes from the rule by name gives the key himself, and must if there is a template.
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

// Bound is the numbers of a limiter. Which are needed depends on the algorithm, and others must be left out.
type Bound struct {
	// Rate, of meter and token_bucket, is how fast what was taken comes back.
	Rate leaky.Rate `json:"rate,omitzero"`
	// Burst, of meter and token_bucket, is how much passes at once after idleness; 0 means 1.
	Burst int64 `json:"burst,omitzero"`
	// Limit, of fixed_window, sliding_log and sliding_counter, is how much passes in a Period; of
	// concurrency, at a time.
	Limit int64 `json:"limit,omitzero"`
	// Period is the window of fixed_window, sliding_log and sliding_counter, and the least time between two of gap.
	Period Duration `json:"period,omitzero"`
	// Resolution, of sliding_log, is how near neighbours may be kept as one; 0 keeps each.
	Resolution Duration `json:"resolution,omitzero"`
	// TTL, of concurrency, is how long a place is held that is neither renewed nor given back.
	TTL Duration `json:"ttl,omitzero"`
}

// What a Rule does, beside Reject and Defer.
const (
	Shadow = "shadow" // it counts, and refuses nothing

	AwayOpen   = "open"   // all pass
	AwayClosed = "closed" // none passes
	AwayShare  = "share"  // each process lets through its share of what the rule allows
)

// Limits of rules.
const (
	MaxRuleKeyBytes  = 1024
	MaxRuleOverrides = 1000
	MaxSpecRules     = 8 // of one queue; its parent's come on top
	MaxTakes         = 1000
)

// Normalize fills in the defaults.
func (r *Rule) Normalize() {
	def(&r.Action, Reject)
	def(&r.Away, AwayClosed)
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

// Validate checks a normalized rule. Its error is a *FieldError.
func (r *Rule) Validate() error {
	if err := ValidateRuleName(r.Name); err != nil {
		return err
	}
	if err := r.Bound.validate("", r.Algorithm); err != nil {
		return err
	}
	if _, err := ParseKeyTemplate(r.Key); err != nil {
		return err
	}
	switch r.Action {
	case Reject, Defer, Shadow:
	default:
		return FieldErrorf("action", r.Action, "must be reject, defer or shadow")
	}
	switch r.Away {
	case AwayOpen, AwayClosed, AwayShare:
	default:
		return FieldErrorf("away", r.Away, "must be open, closed or share")
	}
	if r.MaxKeys != 0 {
		if err := within("max_keys", r.MaxKeys, 1, MaxRuleKeys); err != nil {
			return err
		}
	}
	if n := len(r.Overrides); n > MaxRuleOverrides {
		return FieldErrorf("overrides", "", "are %d, the limit is %d", n, MaxRuleOverrides)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Overrides)) {
		if key == "" {
			return FieldErrorf("overrides", "", "has an empty key")
		}
		if err := ValidateRuleKey("overrides", key); err != nil {
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
		{"burst", b.Burst != 0, func(field string) error { return within(field, b.Burst, 1, leaky.MaxBurst) }},
		{"limit", b.Limit != 0, func(field string) error { return within(field, b.Limit, 1, most) }},
		{"period", b.Period != 0, func(field string) error { return span(field, b.Period, leaky.MinPeriod, longest) }},
		{
			"resolution", b.Resolution != 0,
			func(field string) error { return span(field, b.Resolution, 0, b.Period.D()) },
		},
		{"ttl", b.TTL != 0, func(field string) error { return span(field, b.TTL, leaky.MinPeriod, leaky.MaxPeriod) }},
	} {
		field := jsondepth.ShortPath(prefix + f.name)
		if !slices.Contains(goesBy(a), f.name) {
			if f.given {
				return useless(field, a)
			}
			continue
		}
		if such, must := needed[f.name]; must && !f.given {
			return FieldErrorf(
				field, "", "is missing or %s, and %s goes by it; give one such as %s", such.none, a, such.example,
			)
		}
		if err := f.check(field); err != nil {
			return err
		}
	}
	if err := l.Validate(); err != nil { // numbers that do not go together
		by := goesBy(a)
		return FieldErrorf(jsondepth.ShortPath(prefix+by[len(by)-1]), "", "%v", err)
	}
	return nil
}

func useless(field string, a leaky.Algorithm) error {
	return FieldErrorf(
		field, "", "is of no use to %s, which goes by %s; leave it out", a, strings.Join(goesBy(a), " and "),
	)
}

// ValidateRuleName checks the name of a rule, which is made as a queue's is.
func ValidateRuleName(name string) error {
	if ValidateName(name) != nil {
		return FieldErrorf(
			"name", name,
			"a rule's name is 1 to 64 of a-z 0-9 _ -, beginning with a letter or digit; group.rule, with one dot, is "+
				"a rule of that group",
		)
	}
	return nil
}

// ValidateRuleKey checks a key that is counted under: up to MaxRuleKeyBytes of UTF-8. The empty one is that of
// all jobs under a rule without a template.
func ValidateRuleKey(field, key string) error {
	switch {
	case len(key) > MaxRuleKeyBytes:
		return FieldErrorf(
			field, key, "has %d bytes, the limit is %d; a digest of it serves as well", len(key), MaxRuleKeyBytes,
		)
	case !utf8.ValidString(key):
		return FieldErrorf(field, key, "is not valid UTF-8")
	}
	return nil
}

// Ruled is what a rule said of a job.
type Ruled struct {
	Rule   string
	Shadow bool   // it refuses nothing
	Away   string // as Taken.Away
	// MaxKeys is how many keys the rule may hold, if it refuses only because it holds so many; else 0.
	MaxKeys int64
	leaky.Decision
}

// Limited is what refused: the rule of r that asks to wait longest, and how long; false if none does.
func Limited(r []Ruled) (rule string, wait time.Duration, limited bool) {
	for i := range r {
		if r[i].Allowed || r[i].Shadow {
			continue
		}
		if !limited || r[i].RetryAfter > wait {
			rule, wait, limited = r[i].Rule, r[i].RetryAfter, true
		}
	}
	return rule, wait, limited
}

// CannotPass is the *FieldError of a cost that a rule can never let through.
func CannotPass(rule string, cost, most int64) error {
	return FieldErrorf(
		"cost", fmt.Sprint(cost),
		"is more than the rule %s ever lets through at once, %d; lower the cost or raise the rule", rule, most,
	)
}

func validateRuleNames(names []string) error {
	if len(names) > MaxSpecRules {
		return FieldErrorf("rules", "", "are %d, at most %d can be asked", len(names), MaxSpecRules)
	}
	for i, name := range names {
		if err := ValidateRuleName(name); err != nil {
			return FieldErrorf(fmt.Sprintf("rules.%d", i), name, "is not the name of a rule")
		}
		if slices.Contains(names[:i], name) {
			return FieldErrorf(fmt.Sprintf("rules.%d", i), name, "is given twice")
		}
	}
	return nil
}

// EncodeRule returns the canonical JSON of a rule, as it is stored: two rules are equal just when their encodings are.
func EncodeRule(r Rule) ([]byte, error) { return json.Marshal(r, json.Deterministic(true)) }

// DecodeRule reads what EncodeRule wrote. For input from outside use ParseRule.
func DecodeRule(data []byte) (r Rule, err error) {
	err = json.Unmarshal(data, &r)
	return r, err
}
