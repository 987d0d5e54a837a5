package push_test

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/cli/push"
)

func TestCountLines(t *testing.T) {
	tests := []struct {
		format, text string
		want         int
	}{
		{push.NDJSON, "", 0},
		{push.NDJSON, "{}\n\n  \n{}", 2},
		{push.NDJSON, "{}\r\n{}\r\n", 2},
		{push.NDJSON, strings.Repeat("x", 300<<10) + "\n{}\n", 2},
		{push.CSV, "", 0},
		{push.CSV, "a,b\n", 0},
		{push.CSV, "a,b\n1,\"two\nlines\"\n\n3,4", 2},
	}
	for _, tt := range tests {
		if got, err := push.CountLines(strings.NewReader(tt.text), tt.format); err != nil || got != tt.want {
			t.Errorf("%s %.20q: %d, %v, want %d", tt.format, tt.text, got, err, tt.want)
		}
	}
}
