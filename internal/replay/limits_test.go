package replay

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A replay reports at least the memory that it holds, and at most four times as much: budgets depend on it.
func TestHeldMatchesTheHeap(t *testing.T) {
	var log strings.Builder
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 100_000 {
		fmt.Fprintf(&log, `{"time":"%s","user":"user-%06d","tenant":"%04d"}`+"\n",
			at.Add(time.Duration(i)*time.Millisecond).Format(time.RFC3339Nano), i, i%4000)
	}
	for _, c := range []struct{ name, rule, key, queue string }{
		{"keys that occur once", "meter rate=5/s", "/user", ""},
		{"keys that occur again", "token_bucket rate=5/s burst=10", "/tenant", ""},
		{"each request is kept", "sliding_log limit=50 period=1h", "/tenant", ""},
		{"leases", "concurrency limit=50 ttl=1h", "/tenant", ""},
		{"one key", "sliding_log limit=10000 period=1h", "", ""},
		{"jobs that wait", "meter rate=5/s", "", "rate=5/s capacity=1000000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule, err := ReadRule(c.rule, &c.key)
			if err != nil {
				t.Fatal(err)
			}
			var queues []Queue
			if c.queue != "" {
				q, err := ReadQueue(c.queue)
				if err != nil {
					t.Fatal(err)
				}
				queues = []Queue{q}
			}
			in := strings.NewReader(log.String())
			before := heap()
			p, err := newPlay(t.Context(), &Options{Logs: []Log{{"log", in}}, Rules: []Rule{rule}, Queues: queues})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.run(); err != nil {
				t.Fatal(err)
			}
			said, is := p.held(), heap()-before
			runtime.KeepAlive(p)
			t.Logf("%d KiB of %d", is>>10, said>>10)
			if is > said || said > 4*is+sourceCost {
				t.Errorf("it holds %d bytes and reports %d", is, said)
			}
		})
	}
}

// A replay that exceeds its memory ends within a few hundred lines, with Hold's error, wherever the memory goes: to
// keys, to the rules' states of them, or to the requests of one second.
func TestHoldIsAskedAsItGrows(t *testing.T) {
	enough := errors.New("that is enough")
	for _, c := range []struct {
		name, rule string
		key        func(line int) string
		spread     bool
	}{
		{"long keys", "meter rate=5/s", func(i int) string { return fmt.Sprintf("%01000d", i) }, false},
		{"keys that occur again", "meter rate=5/s", func(i int) string { return fmt.Sprint(i % 20_000) }, false},
		{"one second", "meter rate=5/s", func(int) string { return "k" }, true},
		{"each request is kept", "sliding_log limit=10000 period=1h", func(int) string { return "k" }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			log.WriteString("time,key\n")
			for i := range 60_000 {
				fmt.Fprintf(&log, "1000,%s\n", c.key(i))
			}
			key := "key"
			rule, err := ReadRule(c.rule, &key)
			if err != nil {
				t.Fatal(err)
			}
			told, greatest := int64(sourceCost), int64(0)
			o := Options{Logs: []Log{{"log", strings.NewReader(log.String())}}, Rules: []Rule{rule}, Spread: c.spread}
			o.Limits.Hold = func(n int64) error {
				greatest, told = max(greatest, n-told), n
				return nil
			}
			if _, err := Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			most := told - 1
			if greatest > 2<<20 {
				t.Errorf("it took %d bytes more at once", greatest)
			}
			o.Logs[0].In = strings.NewReader(log.String())
			o.Limits.Hold = func(n int64) error {
				if n > most {
					return enough
				}
				return nil
			}
			if _, err := Run(t.Context(), o); !errors.Is(err, enough) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A line of a table has as many values as there are columns, and further ones take no memory.
func TestColumnsAreBounded(t *testing.T) {
	commas := strings.Repeat(",", MaxLineBytes-2)
	for _, c := range []struct{ name, log, says string }{
		{"line", "time,key\n1000,a\n" + commas + "\n1001,a\n", fmt.Sprintf("has %d values for 2 columns", MaxLineBytes-1)},
		{"header", "time" + commas[:10_000] + "\n1000\n", fmt.Sprintf("names 10001 columns; at most %d", maxColumns)},
	} {
		t.Run(c.name, func(t *testing.T) {
			log, err := openLines(strings.NewReader(c.log), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			clock, err := newClock("", nil)
			if err != nil {
				t.Fatal(err)
			}
			before := heap()
			f, err := newCSV(clock, "", log.sample())
			if err == nil {
				if err = log.pass(); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					var line []byte
					if line, err = log.next(); err != nil {
						t.Fatal(err)
					}
					_, _, err = f.parse(line)
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %s", err, c.says)
			}
			if grew := heap() - before; grew > 256<<10 {
				t.Errorf("it takes %d bytes", grew)
			}
			runtime.KeepAlive(f)
			runtime.KeepAlive(log)
		})
	}
}

// Hold is asked before buffers are made, and before anything of the log is read.
func TestHoldIsAskedBeforeReading(t *testing.T) {
	enough := errors.New("that is enough")
	in := strings.NewReader(line("10.0.0.1", "12:00:00"))
	size := in.Len()
	_, err := Run(t.Context(), Options{
		Logs: []Log{{"log", in}}, Rules: list(t, "meter rate=5/s"),
		Limits: Limits{Hold: func(int64) error { return enough }},
	})
	if !errors.Is(err, enough) || in.Len() != size {
		t.Errorf("%v, %d bytes of %d are left", err, in.Len(), size)
	}
}

// heap returns the size of the live heap.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
