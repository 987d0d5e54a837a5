package console

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"slices"
	"strings"
	"testing"
)

// No field of the replay form is cut off or ignored silently.
func TestReplayForm(t *testing.T) {
	for _, c := range []struct {
		name, says string
		fields     [][2]string
	}{
		{"right", "", [][2]string{{"rule", strings.Repeat("x", maxPart)}}},
		{"long", "rule: longer than 8192 bytes", [][2]string{{"rule", strings.Repeat("x", maxPart+1)}}},
		{"many", "has more than 15 fields before its log", slices.Repeat([][2]string{{"rule", "x"}}, maxParts)},
	} {
		var body bytes.Buffer
		w := multipart.NewWriter(&body)
		for _, f := range c.fields {
			_ = w.WriteField(f[0], f[1])
		}
		log, _ := w.CreateFormFile(logField, "a.log")
		fmt.Fprint(log, "line")
		_ = w.Close()
		asked, in, err := replayForm(multipart.NewReader(&body, w.Boundary()))
		switch {
		case c.says == "" && (err != nil || in == nil || asked.Get("rule") != c.fields[0][1]):
			t.Errorf("%s: %v", c.name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %s", c.name, err, c.says)
		}
	}
}
