package console

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/wire"
)

func TestContentIsShownSafelyAndBounded(t *testing.T) {
	encoded := func(s string) *string {
		text := base64.StdEncoding.EncodeToString([]byte(s))
		return &text
	}
	for _, c := range []struct {
		name        string
		job         wire.Job
		begins      string
		cut, binary bool
	}{
		{"JSON", wire.Job{ContentType: "application/json", Payload: []byte(`{"a":[1]}`)}, "{\n  \"a\": [", false, false},
		{"text", wire.Job{ContentType: "text/plain", PayloadBase64: encoded("héllo")}, "héllo", false, false},
		{"binary", wire.Job{ContentType: "image/png", PayloadBase64: encoded("\x89PNG\x00")}, "00000000  89 50", false, true},
		{
			"much of it",
			wire.Job{ContentType: "text/plain", PayloadBase64: encoded(strings.Repeat("é", 1<<19))},
			"éé", true,
			false,
		},
		{
			"much that is binary", wire.Job{PayloadBase64: encoded(strings.Repeat("\xff", 1<<20))}, "00000000  ff", true, true,
		},
		{"nothing", wire.Job{}, "", false, false},
	} {
		got := contentOf(&c.job)
		if !strings.HasPrefix(got.Text, c.begins) || got.Cut != c.cut || got.Binary != c.binary ||
			len(got.Text) > 2*maxShownText {
			t.Errorf("%s: %.40q of %d bytes, cut %v, binary %v", c.name, got.Text, len(got.Text), got.Cut, got.Binary)
		}
	}
}
