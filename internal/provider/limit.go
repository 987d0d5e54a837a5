package provider

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxLimit is the maximum number of a Limit.
const MaxLimit = 1_000_000_000

// Limit is a number per period.
type Limit struct {
	N   int64
	Per time.Duration
}

var units = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// ParseLimit parses a limit such as 500/m; the units are s, m and h.
func ParseLimit(text string) (Limit, error) {
	number, unit, _ := strings.Cut(text, "/")
	n, err := strconv.ParseInt(strings.ReplaceAll(number, "_", ""), 10, 64)
	if per := units[unit]; err == nil && per != 0 && n >= 1 && n <= MaxLimit {
		return Limit{n, per}, nil
	}
	return Limit{}, fmt.Errorf("%q: must be a number per second, minute or hour, such as 500/m, and at most %d",
		text, MaxLimit)
}

// none is the text of the zero Limit.
const none = "unlimited"

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Limit) UnmarshalText(text []byte) (err error) {
	if string(text) == none {
		*l = Limit{}
		return nil
	}
	*l, err = ParseLimit(string(text))
	return err
}

// String implements fmt.Stringer.
func (l Limit) String() string {
	for unit, per := range units {
		if per == l.Per {
			return strconv.FormatInt(l.N, 10) + "/" + unit
		}
	}
	return none
}

// MarshalText implements encoding.TextMarshaler.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// interval returns the time in which one is refilled.
func (l Limit) interval() time.Duration { return l.Per / time.Duration(l.N) }

// per returns the number that a duration refills.
func (l Limit) per(d time.Duration) float64 { return float64(l.N) * float64(d) / float64(l.Per) }

// time returns how long refilling a number takes.
func (l Limit) time(n float64) time.Duration {
	return time.Duration(n * float64(l.Per) / float64(l.N))
}
