package queue

import (
	stdjson "encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/internal/strictjson"
	"github.com/penstock/penstock/queue/invalid"
)

// MaxSpecBytes is the longest spec that ParseSpec reads.
const MaxSpecBytes = 2 * MaxDeliverBytes

var specDocument = strictjson.Document{
	Name: "spec", Of: "a queue's spec", Most: MaxSpecBytes, Zeroless: isLimit,
	Wants: map[string]string{"quota": `a string such as "50000/d"`},
}

// ParseSpec reads a spec from JSON and is strict about it: unknown and repeated
// names, wrong types, nulls and anything behind the spec are errors, each a
// *invalid.Error with the field's dotted path. What is left out gets its default;
// what is written, a zero too, is taken at its word, so that "capacity": 0 is an
// error and not ten thousand. A rate must be given, here or as the first among the limits. The name may be left out,
// for callers who have it from elsewhere; everything else is valid on return.
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

// hoistRate makes the first rate among the limits that of the spec, if there is one.
func (s *Spec) hoistRate() bool {
	i := slices.IndexFunc(s.Limits, func(l Limit) bool { return !l.Rate.Unlimited() && l.Paced() })
	if i < 0 {
		return false
	}
	s.Rate, s.Burst = s.Limits[i].Rate, max(1, s.Limits[i].Burst)
	s.Limits = slices.Delete(s.Limits, i, i+1)
	return true
}

// isLimit reports whether a field is one whose zero, in a Spec, is no limit. Whoever writes
// a zero there means nothing at all, or everything.
func isLimit(path string) bool {
	if strings.HasPrefix(path, "lanes.") || strings.HasPrefix(path, "limits.") {
		return true
	}
	i := slices.IndexFunc(specSettings, func(r setting[Spec]) bool { return r.name == path })
	return i >= 0 && specSettings[i].absent != ""
}

// EncodeSpec returns the canonical JSON of a spec: two specs are equal just when
// their encodings are, byte for byte, and ParseSpec reads it back.
func EncodeSpec(s Spec) ([]byte, error) {
	deliver, err := canonical(s.Deliver)
	if err != nil {
		return nil, invalid.Errorf("deliver", "", "is not valid JSON: %v", err)
	}
	s.Deliver = deliver
	return json.Marshal(s, json.Deterministic(true))
}

// Equal reports whether two specs say the same, whatever the spacing and the
// order of members in Deliver.
func (s Spec) Equal(t Spec) bool {
	a, errA := canonical(s.Deliver)
	b, errB := canonical(t.Deliver)
	if errA != nil || errB != nil {
		a, b = s.Deliver, t.Deliver
	}
	s.Deliver, t.Deliver = nil, nil
	return reflect.DeepEqual(s, t) && string(a) == string(b)
}

// canonical returns v without spaces and with members in order. Numbers are left
// as written: they may be longer than a double. No target is the empty object.
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
