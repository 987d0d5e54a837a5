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

// epoch is from where on a number of seconds is no time to wait but an instant of the Unix clock: 31 years.
const epoch = 1e9

// Names of fields as net/http writes them: every answer is looked through for them, and none needs to be written anew
// for that.
const headerRateLimit = "Ratelimit"

var triples = []struct{ remaining, reset string }{
	{headerRateLimit + "-Remaining", headerRateLimit + "-Reset"},
	{"X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	{"X-Rate-Limit-Remaining", "X-Rate-Limit-Reset"},
}

// Wait is how long a receiver asks not to be called, at most queue.MaxStop.
type Wait struct {
	For       time.Duration
	Shortened bool // the receiver asks for longer
}

func waitOf(asked time.Duration) Wait {
	return Wait{min(max(0, asked), queue.MaxStop), asked > queue.MaxStop}
}

// Until is the instant at which the wait ends; zero without a wait.
func (w Wait) Until(now time.Time) time.Time {
	if w.For == 0 {
		return time.Time{}
	}
	return now.Add(w.For)
}

// Note is what the text of an attempt says of a wait that was shortened, empty of any other.
func (w Wait) Note() string {
	if !w.Shortened {
		return ""
	}
	return fmt.Sprintf(" (the wait that it asks for is shortened to %v)", w.For)
}

// RetryAfter reads the field of that name (RFC 9110, 10.2.3): a number of seconds, or a date, which is judged by the
// receiver's own clock. ok is false if it says neither.
func RetryAfter(h http.Header, now time.Time) (w Wait, ok bool) {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return w, false
	}
	if strings.Trim(value, "0123456789") == "" {
		n, _ := strconv.ParseFloat(value, 64) // too many digits are infinitely many seconds
		return waitOf(seconds(n)), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return w, false
	}
	return waitOf(at.Sub(clock(h, now))), true
}

// throttle is how long an answer that says "too many" asks to be spared: as Retry-After says, or else the fields of
// rate limits; 0 if it does not say.
func throttle(h http.Header, now time.Time) Wait {
	if w, ok := RetryAfter(h, now); ok {
		return w
	}
	return waitOf(max(draft(h), triple(h, now, false)))
}

// usedUp is how long an answer that says nothing else says that a quota has nothing left.
func usedUp(h http.Header, now time.Time) Wait {
	return waitOf(max(draft(h), triple(h, now, true)))
}

// clock is the receiver's, if it tells.
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
	return time.Duration(min(n, math.MaxInt32) * float64(time.Second)) // 68 years: no wait is as long, see waitOf
}

// draft reads RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers): a quota that has nothing left
// (r=0) has more in t seconds, or else in its policy's window w. The form of draft 7, limit=9, remaining=0, reset=5, is
// understood as well.
func draft(h http.Header) (wait time.Duration) {
	limits := h[headerRateLimit]
	if len(limits) == 0 {
		return 0
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
		if left, ok := number(m.params["r"]); !ok || left > 0 {
			continue
		}
		in, ok := number(m.params["t"])
		if !ok {
			in, _ = number(windows[m.name])
		}
		wait = max(wait, seconds(in))
	}
	if left, ok := number(older["remaining"]); ok && left <= 0 {
		in, _ := number(older["reset"])
		wait = max(wait, seconds(in))
	}
	return wait
}

// triple reads the fields that came before: X-RateLimit-Limit, -Remaining and -Reset, where the last is a number of
// seconds or, with many, an instant of the Unix clock. Where nothing is said of what remains, nothing does, unless that
// must be said.
func triple(h http.Header, now time.Time, said bool) (wait time.Duration) {
	for _, name := range triples {
		in, ok := number(h.Get(name.reset))
		if !ok {
			continue
		}
		if left, ok := number(h.Get(name.remaining)); ok && left > 0 || said && !ok {
			continue // it was another limit
		}
		if in >= 1000*epoch { // in milliseconds
			in /= 1000
		}
		if in >= epoch {
			in -= float64(clock(h, now).UnixMilli()) / 1000
		}
		wait = max(wait, seconds(in))
	}
	return wait
}

func number(text string) (float64, bool) {
	if text == "" { // as with most answers: an error would be made for nothing
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

// member is one of a list of structured fields (RFC 9651, 3.1).
type member struct {
	name   string // as it is written, with quotes
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

// split cuts a text at a character outside of quotes.
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
