package replaycmd

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/replay"
)

// What the help shows can be copied.
func TestReplaySampleRules(t *testing.T) {
	for line := range strings.Lines(sampleRules()) {
		if _, err := replay.ReadRule(strings.TrimSpace(line), nil); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
}
