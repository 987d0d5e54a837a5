package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestBrokenLines checks that broken lines are counted and the first ones reported.
func TestBrokenLines(t *testing.T) {
	good := line("10.0.0.1", "12:00:00")
	long := strings.Repeat("x", 3*MaxLineBytes) + "\n"
	log := good + "nonsense\n\n" + long + strings.Replace(good, "/Oct/", "/Foo/", 1) + strings.Replace(
		good, "10/Oct", "31/Feb", 1,
	) + "\x00\x01\n" +
		strings.Replace(good, "200", "xyz", 1) + strings.Replace(good, " +0000", "", 1) + strings.TrimSuffix(good, "\n") +
		"\r\n" + strings.TrimSuffix(good, "\n")
	log = strings.Replace(log, "\x00\x01", "nil", 1)
	r := replayed(t, Options{Rules: list(t, "gap period=1s")}, log)
	if r.Requests != 3 || r.Broken != 7 {
		t.Errorf("%d requests, %d broken; want 3 and 7", r.Requests, r.Broken)
	}
	var told []string
	for _, f := range r.Faults {
		told = append(told, fmt.Sprint(f.Line))
	}
	if got := strings.Join(told, " "); got != "2 4 5 6 7" {
		t.Errorf("reported lines %s", got)
	}
}

// TestLate checks that lines up to Window lines late are sorted, and later ones are taken at the latest instant.
func TestLate(t *testing.T) {
	var b strings.Builder
	for i := range 4 * Window {
		b.WriteString(line("10.0.0.1", time.Unix(int64(i/8), 0).UTC().Format("15:04:05")))
		if i == Window-1 {
			b.WriteString(line("10.0.0.2", "00:00:00")) // at most Window-1 lines after those of its second
		}
		if i == 2*Window+10 { // more lines are read than can be sorted at a time
			b.WriteString(line("10.0.0.2", time.Unix(int64(i-Window+20)/8, 0).UTC().Format("15:04:05")))
		}
		if i == 4*Window-1 {
			b.WriteString(line("10.0.0.3", "00:00:00"))
		}
	}
	r := replayed(t, Options{Rules: list(t, "fixed_window limit=8 period=1s")}, b.String())
	if r.Late != 1 || r.Requests != 4*Window+3 || r.Rules[0].Refused != 0 {
		t.Errorf("%d late, %d requests, %d refused", r.Late, r.Requests, r.Rules[0].Refused)
	}
	if r.From.Unix()%86400 != 0 || r.Came[0].Asked != 9 {
		t.Errorf("from %v, at most %d in a second", r.From, r.Came[0].Asked)
	}
}
