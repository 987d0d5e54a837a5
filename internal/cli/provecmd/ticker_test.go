package provecmd

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Without a terminal a run of prove prints a line every 5 s.
func TestTickerWithoutATerminal(t *testing.T) {
	var out strings.Builder
	ticker := newTicker(&out, 15*time.Second)
	for s := range 16 {
		ticker.show(time.Duration(s)*time.Second, fmt.Sprintf("%d accepted", s))
	}
	ticker.end()
	want := "5.0s of 15.0s  5 accepted\n10.0s of 15.0s  10 accepted\n15.0s of 15.0s  15 accepted\n"
	if out.String() != want {
		t.Errorf("it prints %q", out.String())
	}
}
