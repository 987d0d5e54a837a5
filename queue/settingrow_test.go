package queue

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each field of a spec has a row, and each row is complete.
func TestTableOfSettingsIsComplete(t *testing.T) {
	rows := map[string]Setting{}
	for _, s := range Settings() {
		if _, twice := rows[s.Name]; twice {
			t.Errorf("%s is there twice", s.Name)
		}
		rows[s.Name] = s
		first, _, _ := strings.Cut(s.Doc, ". ")
		if len(first) < 10 || len(first) > 100 || !strings.HasSuffix(s.Doc, ".") {
			t.Errorf("%s: its first sentence is %q", s.Name, first)
		}
		if strings.Contains(s.Doc, "](") { // it is also shown by the CLI, the console and the API reference
			t.Errorf("%s: its doc has a link, which leads nowhere from most places", s.Name)
		}
		switch s.Type {
		case "integer", "number", "duration", "size":
			if s.Max == "" && s.Name != "burst" { // its bound is described with the rate's
				t.Errorf("%s has no greatest value", s.Name)
			}
		case "object", "list":
			continue
		case "text":
			if s.Values == nil && s.Example == "" && s.Name != "name" {
				t.Errorf("%s has neither values nor an example", s.Name)
			}
		}
		if s.Default == "" && s.Absent == "" && !s.Required && s.Name != "name" && s.Name != "rate" {
			t.Errorf("%s does not say what applies without it", s.Name)
		}
	}
	fields := map[string]bool{}
	namesOf(reflect.TypeFor[Spec](), "", fields)
	for name := range fields {
		if _, there := rows[name]; !there {
			t.Errorf("%s has no row", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if !fields[name] {
			t.Errorf("%s is the name of no field", name)
		}
	}
}

// namesOf finds the names by which a type and its fields are written.
func namesOf(t reflect.Type, path string, into map[string]bool) {
	for f := range fieldsOf(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" { // embedded
			namesOf(f.Type, path, into)
			continue
		}
		name = path + name
		into[name] = true
		switch of := f.Type; {
		case of == reflect.TypeFor[[]Limit]():
			namesOf(of.Elem(), name+"[].", into)
		case of == reflect.TypeFor[LaneLimits](): // they have no quotas
			for _, field := range []string{"unit", "rate", "burst"} {
				into[name+"[]."+field] = true
			}
		case of == reflect.TypeFor[map[string]Estimate]():
			namesOf(of.Elem(), name+".UNIT.", into)
		case of == reflect.TypeFor[ReadmitHours]() || of == reflect.TypeFor[Hours]() && path != "":
			// They have the fields of hours.
		case of == reflect.TypeFor[Hours]():
			namesOf(reflect.TypeFor[OpenHours](), name+".", into)
		case of.Kind() == reflect.Struct && of.PkgPath() == t.PkgPath() && of != reflect.TypeFor[Quota]():
			namesOf(of, name+".", into)
		}
	}
}

func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// A setting that scripts use is named in one, or among the fields they read of every queue.
func TestScriptsGoByTheirSettings(t *testing.T) {
	scripts := sources(t, "redisq/lua/*/*.lua") + sources(t, "redisq/fields.go")
	for _, r := range specSettings {
		if r.scripts && !regexp.MustCompile(`['"\[]`+regexp.QuoteMeta(r.name)+`['" ]`).MatchString(scripts) {
			t.Errorf("no script uses %s", r.name)
		}
	}
}
