package queue

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

// setting is a row of a table of settings: of a queue (settings.go), a lane (lane.go) or a limit (limit.go). It is the
// only place that describes a setting. Defaults and validation follow from it at run time. The schemas in openapi.json
// and the tables in docs/configuration.md are generated from it, and `penstock queue set` completes and explains it.
//
// To add a setting, add a field and a row, and implement it in each engine.
type setting[S any] struct {
	name string // as users write it, with dots if it is nested
	doc  string // what it means; lists show only the first sentence

	// at returns a pointer to the field. A row without one is an object whose settings follow.
	at func(*S) any
	// preset is the default that is filled in. If it depends on another setting, presetBy returns it, and preset is
	// the usual one.
	preset   any
	presetBy func(*S) any
	// absent describes the default if no value is filled in; the setting may then be zero.
	absent string
	// min and max bound numbers, durations and sizes. A string must be one of values.
	min, max any
	values   []string
	example  string
	required bool // within its object
	// scripts says that the scripts in Redis use the setting; they find it under its name among the fields of the
	// queue.
	scripts bool
	// holds says from when a change applies, if not immediately.
	holds string
	// check validates whatever else must be true; field names the setting in its errors.
	check func(s *S, field string) error
	// items are the settings of a list's items or an object's members.
	items []Setting
}

// fill sets the field to its default if it is zero.
func (r *setting[S]) fill(s *S) {
	preset := r.preset
	if r.presetBy != nil {
		preset = r.presetBy(s)
	}
	if preset == nil {
		return
	}
	switch field := r.at(s).(type) {
	case *int:
		*field = cmp.Or(*field, int(number(preset)))
	case *int64:
		*field = cmp.Or(*field, number(preset))
	case *float64:
		*field = cmp.Or(*field, preset.(float64))
	case *string:
		*field = cmp.Or(*field, preset.(string))
	case *unit.Duration:
		*field = cmp.Or(*field, unit.Duration(number(preset)))
	}
}

// number converts a row's bound or default, given as a constant.
func number(v any) int64 {
	switch v := v.(type) {
	case int:
		return int64(v)
	case int64:
		return v
	case time.Duration:
		return int64(v)
	}
	return 0
}

// validate checks the field against its bounds, and then calls check.
func (r *setting[S]) validate(s *S, field string) error {
	if r.at != nil {
		if err := r.bound(r.at(s), field); err != nil {
			return err
		}
	}
	if r.check != nil {
		return r.check(s, field)
	}
	return nil
}

func (r *setting[S]) bound(at any, field string) error {
	if s, ok := at.(*string); ok && r.values != nil {
		return oneOf(field, *s, r.values, r.absent != "")
	}
	if r.max == nil {
		return nil
	}
	switch v := at.(type) {
	case *int:
		return invalid.Range(field, int64(*v), number(r.min), number(r.max))
	case *int64:
		if *v != 0 || r.absent == "" {
			return invalid.Range(field, *v, number(r.min), number(r.max))
		}
	case *float64:
		if low, high := r.min.(float64), r.max.(float64); !(*v > low && *v < high) {
			return invalid.Errorf(field, "", "is %v, must be between %v and %v", *v, low, high)
		}
	case *unit.Duration:
		if *v != 0 || r.absent == "" {
			return invalid.Span(field, v.D(), time.Duration(number(r.min)), time.Duration(number(r.max)))
		}
	case *unit.Bytes:
		if low, high := unit.Bytes(number(r.min)), unit.Bytes(number(r.max)); *v != 0 && (*v < low || *v > high) {
			return invalid.Errorf(field, "", "is %v, must be from %v to %v", *v, low, high)
		}
	}
	return nil
}

func oneOf(field, s string, values []string, optional bool) error {
	if s == "" && optional {
		return nil
	}
	for _, v := range values {
		if s == v {
			return nil
		}
	}
	last := len(values) - 1
	return invalid.Errorf(field, s, "must be %s or %s", strings.Join(values[:last], ", "), values[last])
}

// validate checks s by the rows of its table. Errors name fields with the prefix.
func validate[S any](s *S, table []setting[S], prefix string) error {
	for i := range table {
		if err := table[i].validate(s, prefix+table[i].name); err != nil {
			return err
		}
	}
	return nil
}

// plain returns the value of a field in the form that scripts read.
func plain(at any) any {
	var n int64
	switch v := at.(type) {
	case *string:
		return *v
	case *bool:
		if *v {
			n = 1
		}
	case *int:
		n = int64(*v)
	case *int64:
		n = *v
	case *unit.Bytes:
		n = int64(*v)
	case *unit.Duration:
		n = v.D().Microseconds()
	}
	if n == 0 {
		return ""
	}
	return n
}

// Setting describes a setting to users.
type Setting struct {
	Name string // as users write it; "limits[].quota" for items of a list
	// Type is integer, number, boolean, text, duration, size, rate, quota or hours; object and list contain other
	// settings.
	Type string
	Doc  string // lists show only the first sentence
	// Default is the default value, or "" if Absent describes it in words.
	Default, Absent string
	Min, Max        string
	Values          []string
	Example         string
	Required        bool
	// Holds says from when a change applies, if not immediately.
	Holds string
}

// Settings returns all settings of a queue. Settings of a lane have names like "lanes.rate", settings of a limit names
// like "limits[].rate".
func Settings() []Setting { return describe("", specSettings) }

func typeOf(at any) string {
	switch at.(type) {
	case *int, *int64:
		return "integer"
	case *float64:
		return "number"
	case *bool:
		return "boolean"
	case *string:
		return "text"
	case *unit.Duration:
		return "duration"
	case *unit.Bytes:
		return "size"
	case *leaky.Rate:
		return "rate"
	case *Quota:
		return "quota"
	case *[]string, *[]Limit, *List, *Steps, *LaneLimits:
		return "list"
	case *Hours, *ReadmitHours:
		return "hours"
	}
	return "object"
}

// describe returns the rows of a table as users see them.
func describe[S any](prefix string, table []setting[S]) (list []Setting) {
	for _, r := range table {
		d := Setting{
			Name: prefix + r.name, Type: "object", Doc: r.doc, Absent: r.absent, Values: r.values, Example: r.example,
			Required: r.required, Holds: r.holds,
		}
		if r.at != nil {
			at := r.at(new(S))
			d.Type = typeOf(at)
			d.Default, d.Min, d.Max = written(at, r.preset), written(at, r.min), written(at, r.max)
		}
		list = append(append(list, d), r.items...)
	}
	return list
}

// written returns a bound or a default as users write it.
func written(at, v any) string {
	if v == nil {
		return ""
	}
	switch at.(type) {
	case *unit.Duration:
		text := time.Duration(number(v)).String()
		for _, none := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, none) {
				text = text[:len(text)-2]
			}
		}
		return text
	case *unit.Bytes:
		return unit.Bytes(number(v)).String()
	}
	return fmt.Sprint(v)
}
