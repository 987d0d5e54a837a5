package replay

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// What a replay says that it holds is what it does hold, and at most four times that: budgets go by it.
func TestHeldIsWhatIsMeasured(t *testing.T) {
	var log strings.Builder
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 100_000 {
		fmt.Fprintf(&log, `{"time":"%s","user":"user-%06d","tenant":"%04d"}`+"\n",
			at.Add(time.Duration(i)*time.Millisecond).Format(time.RFC3339Nano), i, i%4000)
	}
	for _, c := range []struct{ name, rule, key string }{
		{"keys that come once", "meter rate=5/s", "/user"},
		{"keys that come again", "token_bucket rate=5/s burst=10", "/tenant"},
		{"each request is kept", "sliding_log limit=50 period=1h", "/tenant"},
		{"leases", "concurrency limit=50 ttl=1h", "/tenant"},
		{"one key", "sliding_log limit=10000 period=1h", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule, err := ReadRule(c.rule, &c.key)
			if err != nil {
				t.Fatal(err)
			}
			in := strings.NewReader(log.String())
			before := heap()
			p, err := newPlay(&Options{Logs: []Log{{"log", in}}, Rules: []Rule{rule}})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.run(context.Background()); err != nil {
				t.Fatal(err)
			}
			said, is := p.held(), heap()-before
			runtime.KeepAlive(p)
			t.Logf("%d KiB of %d", is>>10, said>>10)
			if is > said || said > 4*is+sourceCost {
				t.Errorf("it holds %d bytes, and says %d", is, said)
			}
		})
	}
}

// heap is what lives.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
