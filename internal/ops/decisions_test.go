package ops

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Each decision is logged once per second, and all decisions left out are counted.
func TestDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := NewDecisions(slog.New(slog.NewTextHandler(&out, nil)))
		asked := 0
		note := func(queue, reason string, times int) {
			for range times {
				d.Note("refused", queue, reason, func() []slog.Attr { asked++; return []slog.Attr{slog.String("job", "a")} })
			}
		}
		note("email", "full", 1000)
		note("email", "rate", 1)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		note("email", "full", 3)
		for i := range 300 {
			note(fmt.Sprint("q", i), "full", 1)
		}
		d.Close()
		text := out.String()
		for _, want := range []string{
			`msg=decision decision=refused queue=email reason=full job=a`, `queue=email reason=rate job=a`,
			`msg="decisions left out" decision=refused queue=email reason=full left_out=999`,
			`msg="decisions left out" decision=refused queue=email reason=full left_out=2`,
			`msg="decisions left out" left_out=201`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s is not in\n%.1000s", want, text)
			}
		}
		if n := strings.Count(text, "msg=decision "); n != 2+maxDecisions || asked != n {
			t.Errorf("%d are logged, and %d were asked for", n, asked)
		}
		(*Decisions)(nil).Note("refused", "q", "full", nil)
		(*Decisions)(nil).Close()
	})
}
