package client

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestLinesAreReadAsJSON(t *testing.T) {
	for _, text := range []string{
		`{"line":1,"status":202,"id":"a","state":"waiting","position":7,` +
			`"eta":{"at":"2026-01-02T15:04:05.123456Z","exact":false}}`,
		`{"line":1,"status":202,"id":"a","state":"waiting","eta":{"at":"2026-01-02T15:04:05Z","exact":true}}` + "\r\n",
		`{"line":2,"status":202,"id":"a","state":"scheduled"}`,
		`{"line":2,"status":200,"id":"a\"b","state":"scheduled","replayed":true}`,
		`{"line":2,"status":200,"id":"a","state":"scheduled","news":[1]}`,
		`{"status":202,"line":3,"id":"a","state":"waiting"}`,
		`{"line":3,"status":429,"reason":"full","retry_after_ms":7}`,
		`{"line":3,"status":202,"id":"a","state":"waiting","position":-1}`,
		`{"line":3,"status":202,"id":"a","state":"waiting","eta":{"at":"soon","exact":true}}`,
		`{"line":3,"status":202,"id":"a","state":"wai`, `{"line":`, ``, `hello`,
	} {
		var want, got Line
		wanted, err := json.Unmarshal([]byte(text), &want), parseLine([]byte(text), &got)
		if (err == nil) != (wanted == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v, %v", text, got, err, want, wanted)
		}
	}
}
