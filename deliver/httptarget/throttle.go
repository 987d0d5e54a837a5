package httptarget

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
)

// epoch is the number of seconds, 31 years, from which on a value is not a wait but a Unix time.
const epoch = 1e9

// Names of fields in canonical form, so that looking them up in every answer does not allocate.
const headerRateLimit = "Ratelimit"

var triples = []struct{ remaining, reset string }{
	{headerRateLimit + "-Remaining", headerRateLimit + "-Reset"},
	{"X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	{"X-Rate-Limit-Remaining", "X-Rate-Limit-Reset"},
}

// Wait is how long a receiver wants no requests, at most queue.MaxStop.
type Wait struct {
	For       time.Duration
	Shortened bool // the receiver asked for longer
}

func waitOf(asked time.Duration) Wait {
	return Wait{min(max(0, asked), queue.MaxStop), asked > queue.MaxStop}
}

// Until returns the end of the wait; zero without a wait.
func (w Wait) Until(now time.Time) time.Time {
	if w.For == 0 {
		return time.Time{}
	}
	return now.Add(w.For)
}

// Note returns a note for the job's reason if the wait was shortened, else an empty text.
func (w Wait) Note() string {
	if !w.Shortened {
		return ""
	}
	return fmt.Sprintf(" (the wait that it asks for is shortened to %v)", w.For)
}

// RetryAfter parses the field of that name (RFC 9110, 10.2.3): a number of seconds, or a date by the receiver's clock.
// ok is false if there is neither.
func RetryAfter(h http.Header, now time.Time) (w Wait, ok bool) {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return w, false
	}
	if strings.Trim(value, "0123456789") == "" {
		n, _ := strconv.ParseFloat(value, 64) // too many digits yield infinity
		return waitOf(seconds(n)), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return w, false
	}
	return waitOf(at.Sub(clock(h, now))), true
}

// throttle returns the wait of an answer that refuses for too many requests: by Retry-After, or else by the fields of
// rate limits; 0 if there are none.
func throttle(h http.Header, now time.Time) Wait {
	if w, ok := RetryAfter(h, now); ok {
		return w
	}
	return waitOf(max(longest(draft(h), true), longest(triple(h, now), false)))
}

// usedUp returns the wait of a successful answer whose fields say that a quota has nothing left.
func usedUp(h http.Header, now time.Time) Wait {
	return waitOf(max(longest(draft(h), true), longest(triple(h, now), true)))
}

// clock returns the time of the receiver's clock, if the answer has it, else now.
func clock(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now
}

func seconds(n float64) time.Duration {
	if !(n > 0) { // NaN too
		return 0
	}
	return time.Duration(min(n, math.MaxInt32) * float64(time.Second)) // 68 years; waitOf shortens it
}

// stated is what fields of an answer say of a budget.
type stated struct {
	field string
	left  float64
	known bool // whether it says what is left
	in    time.Duration
}

// longest returns the longest wait for a budget with nothing left. If an answer does not say what is left, nothing is,
// unless strict.
func longest(list []stated, strict bool) (wait time.Duration) {
	for _, s := range list {
		if s.known && s.left <= 0 || !s.known && !strict {
			wait = max(wait, s.in)
		}
	}
	return wait
}

// draft parses RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers): of a quota, r is left, and it is
// renewed in t seconds, or else in its policy's window w. It also accepts the form of draft 7: limit=9, remaining=0,
// reset=5.
func draft(h http.Header) (list []stated) {
	limits := h[headerRateLimit]
	if len(limits) == 0 {
		return nil
	}
	windows := map[string]string{}
	for _, m := range members(h[headerRateLimit+"-Policy"]) {
		windows[m.name] = m.params["w"]
	}
	older := map[string]string{}
	for _, m := range members(limits) {
		if name, value, ok := strings.Cut(m.name, "="); ok && m.name[0] != '"' {
			older[strings.TrimSpace(name)] = strings.TrimSpace(value)
			continue
		}
		left, ok := number(m.params["r"])
		if !ok {
			continue
		}
		in, ok := number(m.params["t"])
		if !ok {
			in, _ = number(windows[m.name])
		}
		list = append(list, stated{headerRateLimit, left, true, seconds(in)})
	}
	if left, ok := number(older["remaining"]); ok {
		in, _ := number(older["reset"])
		list = append(list, stated{headerRateLimit, left, true, seconds(in)})
	}
	return list
}

// triple parses the older fields X-RateLimit-Limit, -Remaining and -Reset. Reset is a number of seconds, or, from some
// receivers, a Unix time.
func triple(h http.Header, now time.Time) (list []stated) {
	for _, name := range triples {
		in, ok := number(h.Get(name.reset))
		if !ok {
			continue
		}
		left, known := number(h.Get(name.remaining))
		list = append(list, stated{name.remaining, left, known, seconds(ahead(in, h, now))})
	}
	return list
}

// ahead returns how many seconds ahead a Reset is, which may be a Unix time in seconds or milliseconds.
func ahead(in float64, h http.Header, now time.Time) float64 {
	if in >= 1000*epoch {
		in /= 1000
	}
	if in >= epoch {
		in -= float64(clock(h, now).UnixMilli()) / 1000
	}
	return in
}

func number(text string) (float64, bool) {
	if text == "" { // the usual case; ParseFloat would allocate an error
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

// member is a member of a list in a structured field (RFC 9651, 3.1).
type member struct {
	name   string // as written, with quotes
	params map[string]string
}

func members(values []string) (list []member) {
	for _, text := range split(strings.Join(values, ","), ',') {
		parts := split(text, ';')
		m := member{strings.TrimSpace(parts[0]), map[string]string{}}
		for _, p := range parts[1:] {
			key, value, _ := strings.Cut(p, "=")
			m.params[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
		list = append(list, m)
	}
	return list
}

// split splits a text at a character outside of quotes.
func split(text string, at byte) (parts []string) {
	quoted, begin := false, 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quoted:
			i++
		case text[i] == '"':
			quoted = !quoted
		case text[i] == at && !quoted:
			parts, begin = append(parts, text[begin:i]), i+1
		}
	}
	return append(parts, text[begin:])
}
