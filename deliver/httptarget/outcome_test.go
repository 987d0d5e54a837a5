package httptarget

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

// What answers mean, with nothing said about it in the setting and with something.
func TestOutcomes(t *testing.T) {
	const soon = 30 * time.Second
	statuses := map[string]string{
		"409": Delivered, "404": Retry, "4xx": Dead, "418": Throttled, "500": Down, "503": Retry, "202": Retry,
		"5xx": Delivered, "429": Dead, "403": MaybeThrottled,
	}
	for _, c := range []struct {
		status   int
		header   string // name: value
		statuses map[string]string
		want     queue.Verdict
		trouble  bool
		in       time.Duration // 0: no instant
	}{
		{200, "", nil, queue.Deliver, false, 0},
		{299, "Retry-After: 30", nil, queue.Deliver, false, 0},
		{301, "Location: /there", nil, queue.Fail, false, 0},
		{400, "", nil, queue.Bury, false, 0},
		{401, "", nil, queue.Fail, false, 0},
		{403, "", nil, queue.Fail, false, 0},
		{404, "", nil, queue.Fail, false, 0},
		{408, "", nil, queue.Fail, false, 0},
		{409, "", nil, queue.Fail, false, 0},
		{409, "Retry-After: 30", nil, queue.Fail, false, soon},
		{410, "", nil, queue.Bury, false, 0},
		{413, "Retry-After: 30", nil, queue.Bury, false, 0},
		{422, "", nil, queue.Bury, false, 0},
		{425, "", nil, queue.Fail, false, 0},
		{429, "", nil, queue.Throttle, false, untold},
		{429, "Retry-After: 30", nil, queue.Throttle, false, soon},
		{429, "Retry-After: 0", nil, queue.Throttle, false, untold},
		{429, `RateLimit: "default";r=0;t=30`, nil, queue.Throttle, false, soon},
		{500, "", nil, queue.Fail, true, 0},
		{500, "Retry-After: 30", nil, queue.Fail, true, soon},
		{502, "", nil, queue.Fail, true, 0},
		{503, "", nil, queue.Fail, true, 0},
		{503, "Retry-After: 30", nil, queue.Throttle, false, soon},
		{504, "", nil, queue.Fail, true, 0},
		{600, "", nil, queue.Fail, true, 0},

		{409, "", statuses, queue.Deliver, false, 0},
		{404, "", statuses, queue.Fail, false, 0},
		{401, "", statuses, queue.Bury, false, 0},
		{418, "Retry-After: 30", statuses, queue.Throttle, false, soon},
		{403, "", statuses, queue.Fail, false, 0},
		{403, "Retry-After: 30", statuses, queue.Throttle, false, soon},
		{403, `RateLimit: "default";r=0;t=30`, statuses, queue.Throttle, false, soon},
		{403, `RateLimit: "default";r=1;t=30`, statuses, queue.Fail, false, 0},
		{500, "", statuses, queue.Down, false, 0},
		{502, "", statuses, queue.Deliver, false, 0},
		{503, "Retry-After: 30", statuses, queue.Fail, true, soon},
		{202, "", statuses, queue.Fail, false, 0},
		{200, "", statuses, queue.Deliver, false, 0},
		{429, "Retry-After: 30", statuses, queue.Bury, false, 0},
	} {
		t.Run(fmt.Sprint(c.status, " ", c.header, len(c.statuses)), func(t *testing.T) {
			addr := raw(t, nil, func(_ int, conn net.Conn) {
				if _, err := conn.Read(make([]byte, 4096)); err == nil {
					_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d X\r\nContent-Length: 0\r\n%s\r\n\r\n", c.status, c.header)
				}
			})
			target := Default()
			target.URL, target.Statuses = "http://"+addr, c.statuses
			if err := target.Check("deliver.http"); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			said := drain.What(sender(t, Options{}).Deliver(t.Context(), jobFor("", "{}"), opened(), target))
			if said.Verdict != c.want || said.Trouble != c.trouble || said.Until.IsZero() != (c.in == 0) {
				t.Errorf("says %+v, want %v", said, c.want)
			}
			if c.in != 0 && (said.Until.Before(begin.Add(c.in)) || said.Until.After(time.Now().Add(c.in))) {
				t.Errorf("until in %v, want %v", said.Until.Sub(begin), c.in)
			}
		})
	}
}

// What is said beside a success counts only where nothing is left.
func TestUsedUp(t *testing.T) {
	now := time.Date(2026, 11, 22, 7, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		headers []string
		want    time.Duration
	}{
		{nil, 0},
		{[]string{"Retry-After", "120"}, 0}, // of a 202, when to look again
		{[]string{"RateLimit", `"default";r=0;t=3`}, 3 * time.Second},
		{[]string{"RateLimit", `"default";r=1;t=3`}, 0},
		{[]string{"RateLimit", `"a";r=9;t=60, "b";r=0;t=2`}, 2 * time.Second},
		{[]string{"RateLimit", `limit=100, remaining=0, reset=50`}, 50 * time.Second},
		{[]string{"RateLimit", `limit=100, remaining=1, reset=50`}, 0},
		{[]string{"RateLimit-Remaining", "0", "RateLimit-Reset", "40"}, 40 * time.Second},
		{[]string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(now.Unix() + 90)}, 90 * time.Second},
		{[]string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(now.Unix() - 90)}, 0},
		{[]string{"X-RateLimit-Reset", "40"}, 0},
		{[]string{"X-RateLimit-Remaining", "many", "X-RateLimit-Reset", "40"}, 0},
		{[]string{"X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "40"}, 0},
		{[]string{"X-RateLimit-Remaining", "0"}, 0},
		{[]string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "99999999"}, queue.MaxStop},
	} {
		h := http.Header{}
		for i := 0; i < len(c.headers); i += 2 {
			h.Add(c.headers[i], c.headers[i+1])
		}
		if got := usedUp(h, now).For; got != c.want {
			t.Errorf("%q: %v, want %v", c.headers, got, c.want)
		}
	}
	// Nearly all answers say nothing, and that must cost next to nothing.
	silent := http.Header{"Date": {now.Format(http.TimeFormat)}, "Content-Length": {"0"}}
	if n := testing.AllocsPerRun(10, func() { usedUp(silent, now) }); n > 0 {
		t.Errorf("an answer that says nothing of limits: %v allocations", n)
	}
}

const untold = 0 // the answer does not say for how long

// How long answers ask to be spared.
func TestThrottle(t *testing.T) {
	now := time.Date(2026, 11, 22, 7, 0, 0, 0, time.UTC)
	date := func(at time.Time) string { return at.Format(http.TimeFormat) }
	for _, c := range []struct {
		headers []string // name, value, ...
		want    time.Duration
	}{
		{nil, untold},
		{[]string{"Retry-After", "120"}, 2 * time.Minute},
		{[]string{"Retry-After", " 7 "}, 7 * time.Second},
		{[]string{"Retry-After", "99999999999999999999"}, queue.MaxStop},
		{[]string{"Retry-After", "-1"}, untold},
		{[]string{"Retry-After", "soon"}, untold},
		{[]string{"Retry-After", "1e3"}, untold},
		{[]string{"Retry-After", date(now.Add(time.Minute))}, time.Minute},
		{[]string{"Retry-After", "Sunday, 22-Nov-26 07:00:30 GMT"}, 30 * time.Second},
		// The receiver's clock is an hour ahead, or behind.
		{[]string{"Retry-After", date(now.Add(61 * time.Minute)), "Date", date(now.Add(time.Hour))}, time.Minute},
		{[]string{"Retry-After", date(now.Add(-59 * time.Minute)), "Date", date(now.Add(-time.Hour))}, time.Minute},
		{[]string{"Retry-After", date(now.Add(-time.Minute))}, untold},
		{[]string{"Retry-After", date(now.AddDate(5, 0, 0))}, queue.MaxStop},
		{[]string{"Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"}, queue.MaxStop},
		{[]string{"Retry-After", "5", "RateLimit", `"a";r=0;t=60`}, 5 * time.Second},

		{[]string{"RateLimit", `"default";r=0;t=30`}, 30 * time.Second},
		{[]string{"RateLimit", `"burst";r=12;t=2, "daily";r=0;t=3600`}, time.Hour},
		{[]string{"RateLimit", `"a";r=0;t=5`, "RateLimit", `"b";r=0;t=9`}, 9 * time.Second},
		{[]string{"RateLimit", `"a,b;r=0;t=99";r=0;t=4`}, 4 * time.Second},
		{[]string{"RateLimit", `"a\"b";r=0;t=4`}, 4 * time.Second},
		{[]string{"RateLimit", `"a";r=7;t=5`}, untold},
		{[]string{"RateLimit", `"a";t=5`}, untold},
		{[]string{"RateLimit", `"a";r=0`, "RateLimit-Policy", `"b";q=5;w=9,"a";q=100;w=60`}, time.Minute},
		{[]string{"RateLimit", `"a";r=0;t=x`}, untold},
		{[]string{"RateLimit", `;;;,,="`}, untold},
		{[]string{"RateLimit", `limit=100, remaining=0, reset=50`}, 50 * time.Second},
		{[]string{"RateLimit", `limit=100, remaining=3, reset=50`}, untold},

		{[]string{"RateLimit-Limit", "10", "RateLimit-Remaining", "0", "RateLimit-Reset", "40"}, 40 * time.Second},
		{[]string{"X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "40"}, 40 * time.Second},
		{[]string{"X-RateLimit-Reset", "0.25"}, 250 * time.Millisecond},
		{[]string{"X-Rate-Limit-Reset", fmt.Sprint(now.Unix() + 90)}, 90 * time.Second},
		{[]string{"X-RateLimit-Reset", fmt.Sprint(now.Unix() + 90)}, 90 * time.Second},
		{[]string{"X-RateLimit-Reset", fmt.Sprint(now.UnixMilli() + 1500)}, 1500 * time.Millisecond},
		{[]string{"X-RateLimit-Reset", fmt.Sprint(now.Unix() + 3690), "Date", date(now.Add(time.Hour))}, 90 * time.Second},
		{[]string{"X-RateLimit-Reset", fmt.Sprint(now.Unix() - 90)}, untold},
		{[]string{"X-RateLimit-Remaining", "5", "X-RateLimit-Reset", "40"}, untold},
		{[]string{"X-RateLimit-Reset", "NaN"}, untold},
		{[]string{"X-RateLimit-Reset", "Inf"}, untold},
		{[]string{"X-RateLimit-Reset", "-5"}, untold},
	} {
		h := http.Header{}
		for i := 0; i < len(c.headers); i += 2 {
			h.Add(c.headers[i], c.headers[i+1])
		}
		got := throttle(h, now).For
		if got < c.want-time.Millisecond || got > c.want+time.Millisecond {
			t.Errorf("%q: %v, want %v", c.headers, got, c.want)
		}
	}
}

// A wait beyond the limit is shortened to it, and the attempt says so, in whatever form the receiver asks.
func TestShortenedWaits(t *testing.T) {
	const most = 24 * time.Hour
	for _, c := range []struct {
		status    int
		header    string // name: value
		shortened bool
	}{
		{429, "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", true},
		{429, "Retry-After: 99999999999999999999", true},
		{429, "Retry-After: 86401", true},
		{429, "Retry-After: 86400", false},
		{429, "X-RateLimit-Reset: 99999999", true},
		{503, "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", true},
		{404, "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", true},
		{404, "Retry-After: 99999999999999999999", true},
		{200, `RateLimit: "daily";r=0;t=99999999`, true},
	} {
		addr := raw(t, nil, func(_ int, conn net.Conn) {
			if _, err := conn.Read(make([]byte, 4096)); err == nil {
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d X\r\nContent-Length: 0\r\n%s\r\n\r\n", c.status, c.header)
			}
		})
		target := Default()
		target.URL = "http://" + addr
		begin := time.Now()
		err := sender(t, Options{}).Deliver(t.Context(), jobFor("", "{}"), opened(), target)
		if at := drain.What(err).Until; at.Before(begin.Add(most)) || at.After(time.Now().Add(most)) {
			t.Errorf("%d, %s: until %v, want in %v", c.status, c.header, at, most)
		}
		if says := strings.Contains(fmt.Sprint(err), "shortened to 24h0m0s"); says != c.shortened {
			t.Errorf("%d, %s: says %v", c.status, c.header, err)
		}
	}
}

func FuzzThrottle(f *testing.F) {
	f.Add("Retry-After", `"a";r=0;t=5`)
	f.Add("RateLimit", `"a\`)
	f.Fuzz(func(t *testing.T, name, value string) {
		h := http.Header{}
		h.Set(name, value)
		h.Set("RateLimit", value)
		now := time.Unix(1e9, 0)
		if w := throttle(h, now); w.For < 0 || w.For > queue.MaxStop || w.Shortened && w.For < queue.MaxStop {
			t.Errorf("%q: %q: %+v", name, value, w)
		}
	})
}
