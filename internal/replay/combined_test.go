package replay

import (
	"testing"
	"time"
)

// TestFields reads the fields of a combined line, with names, quotes and escapes as servers write them.
func TestFields(t *testing.T) {
	const log = `::1 - Jane Doe [02/Oct/2026:12:00:00 +0000] "POST /a\"b?x=[1] HTTP/2" 404 - "https://e.example/\\" ` +
		`"M \"q\" z"`
	for field, want := range map[string]string{
		"remote_addr": "::1", "user": "Jane Doe", "method": "POST", "path": `/a\"b`, "query": "x=[1]", "protocol": "HTTP/2",
		"status": "404", "bytes": "",
		"header.Referer": `https://e.example/\\`, "header.User-Agent": `M \"q\" z`,
	} {
		c := &combined{clock: &clock{zone: time.UTC}}
		slot, err := c.slot(field)
		if err != nil {
			t.Fatal(err)
		}
		_, values, err := c.parse([]byte(log))
		if err != nil || string(values[slot]) != want {
			t.Errorf("%s: %q, %v; want %q", field, values[slot], err, want)
		}
	}
}
