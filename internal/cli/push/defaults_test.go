package push_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/cli/push"
)

// Members of a line go before defaults, and its id does not depend on defaults.
func TestDefaults(t *testing.T) {
	at := time.Date(2030, 1, 2, 16, 4, 5, 500_000_000, time.FixedZone("", 3600))
	const text = "{\"payload\":1}\n" +
		"{ \"payload\":1, \"overflow\":\"reject\",\"id\":\"a\"}\n" +
		"{\"\\u006fverflow\":null,\"id\":\"b\",\"expires_at\":\"2031-01-01T00:00:00Z\"}\n" +
		"{\"payload\":{\"overflow\":\"x\"},\"id\":\"c\"}\n" +
		"[]\n"
	id := push.LineID([]byte(`{"payload":1}`), 1)
	for _, tt := range []struct {
		name     string
		defaults push.Defaults
		want     []string
	}{
		{"none", push.Defaults{}, []string{
			`{"id":"` + id + `","payload":1}`, `{ "payload":1, "overflow":"reject","id":"a"}`,
			`{"\u006fverflow":null,"id":"b","expires_at":"2031-01-01T00:00:00Z"}`, `{"payload":{"overflow":"x"},"id":"c"}`,
		}},
		{"all", push.Defaults{
			Lane: "a\"b", Priority: 9, NotBefore: at, Overflow: "defer", ExpiresAt: at.Add(time.Hour),
		}, []string{
			`{"lane":"a\"b","priority":9,"not_before":"2030-01-02T15:04:05.5Z","overflow":"defer",` +
				`"expires_at":"2030-01-02T16:04:05.5Z","id":"` + id + `","payload":1}`,
			`{"lane":"a\"b","priority":9,"not_before":"2030-01-02T15:04:05.5Z","expires_at":"2030-01-02T16:04:05.5Z", ` +
				`"payload":1, "overflow":"reject","id":"a"}`,
			`{"lane":"a\"b","priority":9,"not_before":"2030-01-02T15:04:05.5Z","\u006fverflow":null,"id":"b",` +
				`"expires_at":"2031-01-01T00:00:00Z"}`,
			`{"lane":"a\"b","priority":9,"not_before":"2030-01-02T15:04:05.5Z","overflow":"defer",` +
				`"expires_at":"2030-01-02T16:04:05.5Z","payload":{"overflow":"x"},"id":"c"}`,
		}},
		{"both", push.Defaults{Overflow: "defer", ExpiresAt: at}, []string{
			`{"overflow":"defer","expires_at":"2030-01-02T15:04:05.5Z","id":"` + id + `","payload":1}`,
			`{"expires_at":"2030-01-02T15:04:05.5Z", "payload":1, "overflow":"reject","id":"a"}`,
			`{"\u006fverflow":null,"id":"b","expires_at":"2031-01-01T00:00:00Z"}`,
			`{"overflow":"defer","expires_at":"2030-01-02T15:04:05.5Z","payload":{"overflow":"x"},"id":"c"}`,
		}},
	} {
		src, err := push.Open(strings.NewReader(text), push.NDJSON)
		if err != nil {
			t.Fatal(err)
		}
		src = tt.defaults.Of(src)
		var got []string
		for {
			l, err := src.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if l.Number == 1 && l.ID != id {
				t.Errorf("%s: the id is %s, want %s", tt.name, l.ID, id)
			}
			if l.Err == nil {
				got = append(got, string(l.Body))
			}
		}
		if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}
