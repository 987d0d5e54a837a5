package pointer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// at returns the value to which a path leads, as an independent implementation finds it.
func at(t *testing.T, text []byte, p Pointer) (value any) {
	t.Helper()
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	for _, token := range p {
		switch v := value.(type) {
		case map[string]any:
			value = v[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || token != strconv.Itoa(i) || i >= len(v) || i < 0 {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// A scanner accepts what encoding/json accepts, and finds what it finds.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`{"a":{"b":[1,2,{"c":-0.5e+7}]},"d":"\u00e9\n","e":[],"f":{},"g":true,"h":false,"i":null}`, `{"a":{"b":12}}`,
		` [ 1 , {"a" : "b" } ] `, `{"a":1,"a":2}`, `"x`, `01`, `1.`, `1e`, `-`, `[1,]`, `{"a"}`, `tru`, `nul l`,
		"\"\x01\"", `"\u12g4"`,
		`{"b":{"a":7}}`, `[5,[6]]`, `{"":{"":3}}`, `0`, `-0`, `1E5`, `{"a":{"b":1e1}}`, `{"a":12345678901234567890}`,
	} {
		f.Add([]byte(seed), "/a/b", uint8(3))
		f.Add([]byte(seed), "/0", uint8(1))
		f.Add([]byte(seed), "/a", uint8(7))
	}
	f.Fuzz(func(t *testing.T, text []byte, pointer string, part uint8) {
		p, fault := Parse(pointer)
		if fault != "" {
			return
		}
		s := NewScanner([]Pointer{p})
		for rest := text; len(rest) > 0; {
			n := min(len(rest), max(1, int(part)))
			s.Write(rest[:n])
			rest = rest[n:]
		}
		s.Write([]byte{' '}) // ends a number
		if len(s.stack) > maxDepth || len(s.key) > maxKeyBytes+1 || len(s.number) > MaxNumberBytes+1 {
			t.Errorf("it keeps %d levels, %d bytes of a name, %d of a number", len(s.stack), len(s.key), len(s.number))
		}
		if valid := json.Valid(text); s.Complete() != valid {
			if !valid || strings.Count(string(text), "[")+strings.Count(string(text), "{") <= maxDepth {
				t.Fatalf("%q is complete: %v", text, !valid)
			}
			return
		} else if !valid || strings.ToValidUTF8(string(text), "") != string(text) {
			return
		}
		got := s.found[0]
		if got.Times > 1 { // encoding/json takes the last one
			return
		}
		switch v := at(t, text, p).(type) {
		case nil:
			if got.Times != 0 && !strings.Contains(string(text), "null") && !duplicates(text) {
				t.Fatalf("%q at %q: %+v, want nothing", text, pointer, got)
			}
		case float64:
			if n, err := strconv.ParseFloat(got.Number, 64); len(got.Number) <= MaxNumberBytes && (err != nil || n != v) &&
				!duplicates(text) {
				t.Fatalf("%q at %q: %+v, want %v", text, pointer, got, v)
			}
		default:
			if got.Number != "" && !duplicates(text) {
				t.Fatalf("%q at %q: %+v, want no number", text, pointer, got)
			}
		}
	})
}

// duplicates reports whether an object in a text has a name twice, or an escaped name that may be one.
func duplicates(text []byte) bool {
	dec := json.NewDecoder(strings.NewReader(string(text)))
	names := []map[string]bool{nil}
	isName := []bool{false}
	for {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		top := len(names) - 1
		if d, ok := token.(json.Delim); ok {
			switch d {
			case '{', '[':
				isName[top] = names[top] != nil
				names, isName = append(names, nil), append(isName, false)
				if d == '{' {
					names[top+1], isName[top+1] = map[string]bool{}, true
				}
			default:
				names, isName = names[:top], isName[:top]
			}
			continue
		}
		if names[top] == nil {
			continue
		}
		if isName[top] {
			name := fmt.Sprint(token)
			if names[top][name] {
				return true
			}
			names[top][name] = true
		}
		isName[top] = !isName[top]
	}
}
