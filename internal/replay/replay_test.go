package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// line returns a line of the combined format.
func line(client, clock string) string {
	return fmt.Sprintf(`%s - - [10/Oct/2026:%s +0000] "GET /a?b=c HTTP/1.1" 200 5 "-" "curl/8"`+"\n", client, clock)
}

func list(t *testing.T, texts ...string) (all []Rule) {
	t.Helper()
	for _, text := range texts {
		some, err := ReadRules(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
	}
	return all
}

// TestUnusable checks the errors about logs and options.
func TestUnusable(t *testing.T) {
	good := line("10.0.0.1", "12:00:00")
	for name, c := range map[string]struct {
		o    Options
		logs []string
		want string
	}{
		"empty":        {Options{}, []string{""}, "log-1: no line to replay"},
		"blank":        {Options{}, []string{"\n \n\r\n"}, "log-1: no line to replay"},
		"binary":       {Options{}, []string{"\x7fELF\x00\x01"}, "binary"},
		"damaged gzip": {Options{}, []string{"\x1f\x8b\x00\x00"}, "packed by gzip, and damaged"},
		"cut gzip": {
			Options{Format: Combined}, []string{"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"}, "cannot be read",
		},
		"another thing": {Options{}, []string{"[core] hello\n"}, "--format combined, ndjson or csv"},
		"all broken": {
			Options{Format: Combined}, []string{"one\ntwo\n"}, `none of 2 lines can be used; line 1 of log-1 is not as HOST`,
		},
		"format": {Options{Format: "xml"}, []string{good}, "must be combined, ndjson or csv"},
		"field": {
			Options{Rules: list(t, "gap period=1s key={ip}")},
			[]string{good},
			"{ip} is no field of a combined log: there are {remote_addr}",
		},
		"column": {
			Options{Rules: list(t, "gap period=1s key=ip"), Format: CSV},
			[]string{"time,client\n1,a\n"},
			"{ip} is not a column; the columns are time, client",
		},
		"pointer": {
			Options{Rules: list(t, "gap period=1s key=ip")}, []string{`{"time":1}`}, "{ip} is no JSON pointer",
		},
		"cost": {Options{Cost: "weight"}, []string{good}, "--cost: {weight} is no field"},
		"no key": {
			Options{Rules: list(t, "gap period=1s key={user}")},
			[]string{good},
			"none of 1 lines has the key of the rule gap period=1s, {user}; line 1 of log-1 has no user",
		},
		"no time column":   {Options{}, []string{"a,b\n1,2\n"}, "--time must say which is the time; they are a, b"},
		"no time member":   {Options{}, []string{`{"a":1}`}, "--time must say which is the time"},
		"no such time":     {Options{Time: "/when"}, []string{`{"time":1}`}, "line 1 of log-1 has no time"},
		"time of combined": {Options{Time: "when"}, []string{good}, "a combined log has its own time"},
		"time format":      {Options{TimeFormat: "iso"}, []string{`{"time":1}`}, "--time-format"},
		"one bad log":      {Options{}, []string{good, "\x00"}, "log-2: is a binary file"},
		"five keys": {
			Options{Rules: list(
				t, "gap period=1s key={user}", "gap period=1s key={path}", "gap period=1s key={status}",
				"gap period=1s key={method}", "gap period=1s",
			)},
			[]string{good},
			"more than 4 different keys",
		},
	} {
		if c.o.Rules == nil {
			c.o.Rules = list(t, "gap period=1s")
		}
		if _, err := tryLogs(t, c.o, c.logs...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := tryLogs(t, Options{}, good); err == nil {
		t.Error("nothing to try is no error")
	}
}

// endless is a log without an end.
type endless struct{ cancel func() }

func (e *endless) Read(p []byte) (int, error) {
	e.cancel()
	n := 0
	for text := line("10.0.0.1", "12:00:00"); n+len(text) <= len(p); {
		n += copy(p[n:], text)
	}
	return n, nil
}

func TestBrokenOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, Options{Logs: []Log{{"endless", &endless{cancel}}}, Rules: list(t, "gap period=1s")})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A log that ends with the year 9999 is replayed like any other. Its report can be written, although waiting jobs leave
// later than JSON can express. In a log of the year 10000 all lines are broken.
func TestEndOfTime(t *testing.T) {
	q, err := ReadQueue("rate=1/d capacity=1000")
	if err != nil {
		t.Fatal(err)
	}
	ended := strings.ReplaceAll(line("10.0.0.1", "12:00:00"), "10/Oct/2026", "30/Dec/9999")
	for _, beyond := range []string{"31/Dec/9999:12:00:00 +0000", "31/Dec/9999:23:00:00 -0200"} {
		o := Options{Queues: []Queue{q}, Logs: []Log{{"log", strings.NewReader(strings.Repeat(ended, 9) +
			strings.Replace(line("10.0.0.1", "12:00:00"), "10/Oct/2026:12:00:00 +0000", beyond, 1))}}}
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if r.Requests != 9 || r.Broken != 1 || r.Queues[0].Accepted != 9 || strings.Contains(string(text), "last_left") {
			t.Errorf("%s: %s", beyond, text)
		}
	}
}

// TestNoAllocation checks that a line with a known key allocates nothing.
func TestNoAllocation(t *testing.T) {
	p, err := newPlay(t.Context(), &Options{
		Rules: list(t, "meter rate=5/s burst=10"),
		Logs:  []Log{{"log", strings.NewReader(line("10.0.0.1", "12:00:00"))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(line("10.0.0.1", "12:00:01"))
	if got := testing.AllocsPerRun(1000, func() {
		r, err := p.sources[0].request(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.take(r); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkMeter(b *testing.B) {
	log := randomLog(rand.New(rand.NewPCG(9, 9)), 100_000)
	all, err := ReadRules("meter rate=5/s burst=10", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(log) / 100_000))
	b.ReportAllocs()
	for n := 0; n < b.N; n += 100_000 {
		if _, err := Run(b.Context(), Options{Rules: all, Logs: []Log{{"log", io.LimitReader(
			strings.NewReader(log), int64(len(log)),
		)}}}); err != nil {
			b.Fatal(err)
		}
	}
}
