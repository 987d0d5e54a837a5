package queue

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

// nested returns a text with n opening brackets.
func nested(open string, n int) string { return strings.Repeat(open, n) }

// allocated returns how many bytes f allocates, including freed ones.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The memory for parsing a document grows with its length, whatever its shape: twice the bytes, about twice the
// memory. Documents nested too deep cost next to nothing.
func TestDocumentsCostLinearMemory(t *testing.T) {
	parsers := map[string]func(string) error{
		"spec": func(s string) error { _, err := ParseSpec([]byte(s)); return err },
		"rule": func(s string) error { _, err := rules.Parse([]byte(s)); return err },
	}
	shapes := map[string]func(n int) string{
		"lists":           func(n int) string { return nested("[", n) },
		"objects":         func(n int) string { return nested(`{"a":`, n/5) },
		"lists in limits": func(n int) string { return `{"limits":` + nested("[", n) },
		"closed objects": func(n int) string {
			return nested(`{"a":`, n/6) + "1" + nested("}", n/6)
		},
		"a long name among many": func(n int) string {
			return `{"` + strings.Repeat("x", n/2) + `":[` + strings.Repeat("0,", n/4) + `0]}`
		},
		"a long name of many names": func(n int) string {
			return `{"lanes":{"overrides":{"` + strings.Repeat("x", n/2) + `":{` + strings.Repeat(`"a":{},`, n/16) + `"b":{}}}}}`
		},
		"names as deep as allowed": func(n int) string {
			return nested(
				`{"`+strings.Repeat("x", n/128)+`":`, jsondepth.Max-1,
			) + `[` + strings.Repeat("0,", n/4) + `0]` + nested("}", jsondepth.Max-1)
		},
		"overrides": func(n int) string {
			return `{"rate":"1/s","lanes":{"overrides":{` + strings.Repeat(
				`"a":{"rate":"1/s"},`, n/20,
			) + `"b":{"rate":"1/s"}}}}`
		},
	}
	for parser, parse := range parsers {
		for shape, text := range shapes {
			t.Run(parser+"/"+shape, func(t *testing.T) {
				const n = 32 << 10
				small, large := text(n), text(2*n)
				cost := func(s string) uint64 {
					return allocated(func() {
						if parse(s) == nil {
							t.Error("it was accepted")
						}
					})
				}
				cost(small)
				one, two := cost(small), cost(large)
				if two > 3*one+64<<10 || two > 64*uint64(len(large)) {
					t.Errorf("%d bytes cost %d, %d bytes %d", len(small), one, len(large), two)
				}
			})
		}
	}
}

// The error of a document nested too deep names the field and the place.
func TestDocumentTooDeep(t *testing.T) {
	for _, parse := range []func([]byte) error{
		func(b []byte) error { _, err := ParseSpec(b); return err },
		func(b []byte) error { _, err := rules.Parse(b); return err },
	} {
		err := parse([]byte(`{"rate":"1/s","deliver":{"http":` + nested("[", 62) + nested("]", 62) + `}}`))
		if err != nil && strings.Contains(err.Error(), "levels") {
			t.Errorf("64 levels: %v", err)
		}
		var field *invalid.Error
		err = parse([]byte(`{"rate":"1/s","deliver":{"http":` + nested("[", 9000)))
		if !errors.As(err, &field) || !strings.HasPrefix(field.Field, "deliver.http") ||
			!strings.Contains(field.Reason, "deeper than 64 levels, at byte ") {
			t.Errorf("%v", err)
		}
	}
}
