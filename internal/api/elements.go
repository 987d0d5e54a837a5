package api

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// tooMany reports whether a list of JSON, or one in an object, has more elements than may be. It is asked before they
// are made into values: 350,000 empty objects have room in a body of 1 MiB, and take a hundred times that as leases.
func tooMany(raw []byte, most int) bool {
	if bytes.Count(raw, []byte{','}) < most {
		return false
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	list := 0 // its depth, once one has begun
	for n := 0; ; {
		token, err := d.ReadToken()
		if err != nil {
			return false // the end, or JSON that is none, as who reads it tells
		}
		switch {
		case list == 0 && token.Kind() == '[':
			list = d.StackDepth()
		case list > 0 && d.StackDepth() < list:
			list, n = 0, 0
		case list > 0 && (d.StackDepth() == list || d.StackDepth() == list+1 && (token.Kind() == '{' || token.Kind() == '[')):
			if token.Kind() == '}' || token.Kind() == ']' {
				continue
			}
			if n++; n > most {
				return true
			}
		}
	}
}
