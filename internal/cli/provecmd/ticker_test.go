package provecmd

import (
	"strings"
	"testing"
	"time"
)

// Without a terminal a run of prove prints a line every 5 s.
func TestTickerWithoutATerminal(t *testing.T) {
	var out strings.Builder
	ticker := newTicker(&out)
	for s := range 16 {
		ticker.show(time.Duration(s)*time.Second, time.Duration(s*int(time.Second)).String())
	}
	ticker.end()
	if out.String() != "5s\n10s\n15s\n" {
		t.Errorf("it prints %q", &out)
	}
}
