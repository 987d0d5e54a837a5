package queue

import (
	"strings"
	"testing"
)

// Whatever was parsed before, the result is that of ParseSpec.
func TestSpecParser(t *testing.T) {
	texts := []string{
		`{"name":"a","rate":"1/s"}`,
		`{"name":"b","rate":"1/s"}`,
		`{"name":"a.b","rate":"1/s"}`,
		`{"name":"c","rate":"2/s"}`,
		`{"name":"d","rate":"2/s","pull":true}`,
		`{"name":"e","rate":"2/s","pull":true}`,
		`{"name":"e.f","rate":"2/s","pull":true}`, // a child cannot be a pull queue
		`{"name":"","rate":"2/s"}`,
		`{"name":"B","rate":"2/s"}`,
		`{"name":"\u0061","rate":"2/s"}`,
		`{"name":"f"`,
		`{"name":"f`,
		`{"name":"f","rate":"2/s","name":"g"}`,
		`{"name":"g","rate":"2/s","name":"g"}`,
		`{"name":"g","rate":"2/s"} `,
		`{"name":"g","rate":"2/s"}x`,
		`{"rate":"2/s"}`,
		``,
		`{"name":"g","rate":"2/s","lanes":{"overrides":{"x":{"rate":"1/s"}}},"deliver":{"http":{"url":"https://a.b/"}}}`,
		`{"name":"h","rate":"2/s","lanes":{"overrides":{"x":{"rate":"1/s"}}},"deliver":{"http":{"url":"https://a.b/"}}}`,
		`{"name":"i","rate":"2/s"` + strings.Repeat(" ", MaxSpecBytes) + `}`,
	}
	var p SpecParser
	for _, before := range texts {
		for _, text := range texts {
			_, _ = p.Parse([]byte(before))
			got, err := p.Parse([]byte(text))
			want, wantErr := ParseSpec([]byte(text))
			if !got.Equal(want) || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Errorf("%.60s after %.60s: %+v, %v; want %+v, %v", text, before, got, err, want, wantErr)
			}
		}
	}
}
