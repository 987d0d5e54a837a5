package queue

import (
	stdjson "encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/internal/strictjson"
	"github.com/penstock/penstock/queue/invalid"
)

// MaxSpecBytes is the maximum length of a spec that ParseSpec reads.
const MaxSpecBytes = 2 * MaxDeliverBytes

var specDocument = strictjson.Document{
	Name: "spec", Of: "a queue's spec", Most: MaxSpecBytes, Zeroless: zeroless,
	Wants: map[string]string{
		"quota": `a string such as "50000/d"`, "open": `a list such as ["mon-fri 08:00-20:00"]`,
		"closed": `a list of dates such as ["2026-12-25"]`, "readmit_between": `a string such as "22:00-06:00", or an object`,
	},
}

// ParseSpec reads a spec from JSON, strictly: unknown and repeated names, wrong types, nulls and trailing data are
// errors, each an *invalid.Error with the field's dotted path. Fields left out get their default. Fields given are
// taken literally, even zeros: "capacity": 0 is an error, not the default. A rate is required, as rate or as the first
// pace among the limits. The name may be left out, for callers who know it already; everything else is valid on
// return.
func ParseSpec(data []byte) (Spec, error) {
	var s Spec
	for i := range specSettings {
		if r := &specSettings[i]; r.presetBy == nil {
			r.fill(&s)
		}
	}
	given, err := specDocument.Read(data, &s)
	if err != nil {
		return Spec{}, err
	}
	if !given["rate"] && !given["burst"] {
		given["rate"] = s.hoistRate()
	}
	if !given["rate"] {
		return Spec{}, invalid.Errorf("rate", "", `is missing; give one such as "14/s", or "unlimited"`)
	}
	s.unite()
	if given["adapt"] && !s.Adapt.On() {
		return Spec{}, invalid.Errorf("adapt", "",
			`is empty; give a floor and a ceiling, such as {"floor": "2/s", "ceiling": "20/s"}`)
	}
	for _, unit := range slices.Sorted(maps.Keys(s.Estimate)) {
		if field := "estimate." + unit + ".default"; !given[field] {
			return Spec{}, invalid.Errorf(field, "", "is missing; give what jobs without this cost are charged, such as 1000")
		}
	}
	for i := range specSettings {
		if r := &specSettings[i]; r.presetBy != nil && !given[r.name] {
			r.fill(&s)
		}
	}
	check := s
	if !given["name"] {
		check.Name = "unnamed"
	}
	if err := check.Validate(); err != nil {
		return Spec{}, err
	}
	return s, nil
}

// hoistRate turns the first pace among the limits into the spec's rate, and reports whether there was one.
func (s *Spec) hoistRate() bool {
	i := slices.IndexFunc(s.Limits, func(l Limit) bool { return !l.Rate.Unlimited() && l.Paced() })
	if i < 0 {
		return false
	}
	s.Rate, s.Burst = s.Limits[i].Rate, max(1, s.Limits[i].Burst)
	s.Limits = slices.Delete(s.Limits, i, i+1)
	return true
}

// zeroless returns why this field of a Spec must not be 0, or "". A zero of a limit is ambiguous: it could mean that
// nothing is allowed, or that there is no limit.
func zeroless(path string) string {
	i := slices.IndexFunc(specSettings, func(r setting[Spec]) bool { return r.name == path })
	switch {
	case path == "weight" || strings.HasPrefix(path, "lanes.") && strings.HasSuffix(path, ".weight"):
		return fmt.Sprintf("must be from 1 to %d; to let nothing out, pause the queue", MaxWeight)
	case strings.HasPrefix(path, "lanes."), strings.HasPrefix(path, "limits."), i >= 0 && specSettings[i].absent != "":
		return "must be at least 1; leave it out for no limit"
	}
	return ""
}

// EncodeSpec returns the canonical JSON of a spec: two specs are equal exactly if their encodings are, byte for byte.
// ParseSpec reads it back.
func EncodeSpec(s Spec) ([]byte, error) {
	deliver, err := canonical(s.Deliver)
	if err != nil {
		return nil, invalid.Errorf("deliver", "", "is not valid JSON: %v", err)
	}
	s.Deliver = deliver
	return json.Marshal(s, json.Deterministic(true))
}

// Equal reports whether two specs are the same, regardless of spacing and the order of members in Deliver.
func (s Spec) Equal(t Spec) bool {
	a, errA := canonical(s.Deliver)
	b, errB := canonical(t.Deliver)
	if errA != nil || errB != nil {
		a, b = s.Deliver, t.Deliver
	}
	s.Deliver, t.Deliver = nil, nil
	return reflect.DeepEqual(s, t) && string(a) == string(b)
}

// canonical returns v without spaces and with its members sorted. Numbers stay as written, as they may exceed a
// double. null and the empty object mean no target.
func canonical(v stdjson.RawMessage) (stdjson.RawMessage, error) {
	if len(v) == 0 {
		return nil, nil
	}
	c := append(jsontext.Value(nil), v...)
	err := c.Format(
		jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false),
	)
	if s := string(c); err != nil || s == "null" || s == "{}" {
		return nil, err
	}
	return stdjson.RawMessage(c), nil
}
