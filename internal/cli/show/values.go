package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Int returns a number in decimal.
func Int(n int64) string { return strconv.FormatInt(n, 10) }

// Count returns a number of things, such as "1 queue" or "2 queues".
func Count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Int(n) + " " + thing + "s"
}

// Jobs returns a number of jobs.
func Jobs(n int64) string { return Count(n, "job") }

// Duration returns a duration in at most two units: 3d4h, 2h5m, 1m30s, 4.2s, 120ms. Negative ones are 0s.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// Age returns how long ago t was; empty without t.
func Age(now time.Time, t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return Duration(now.Sub(*t))
}

// Instant returns t in local time to the millisecond; empty without t.
func Instant(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02T15:04:05.000Z07:00")
}

// OrNone returns an escaped text, or "(none)".
func OrNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return Text(s)
}

// Because returns a text with its reason, if any.
func Because(text, reason string) string {
	if reason != "" {
		text += ": " + Text(reason)
	}
	return text
}

// By returns the author of an action, such as " by token:1, claimed by ann". by is authenticated, claimed is not.
func By(by, claimed string) string {
	switch {
	case by == "" && claimed == "":
		return ""
	case by == "":
		return " by " + Text(claimed)
	case claimed == "":
		return " by " + Text(by)
	}
	return " by " + Text(by) + ", claimed by " + Text(claimed)
}

// Clock returns t in local time, without its date if that is the date of now; empty without t.
func Clock(t *time.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	at, today := t.Local(), now.Local()
	switch {
	case at.YearDay() == today.YearDay() && at.Year() == today.Year():
		return at.Format(time.TimeOnly)
	case at.Sub(today).Abs() < 300*24*time.Hour:
		return at.Format("Jan 2 15:04")
	}
	return at.Format(time.DateOnly)
}

// Cut shortens a line to a width; 0 is no limit. Colors, as SGR sequences, have no width.
func Cut(text string, width int) string {
	if width <= 0 || Width(text) <= width {
		return text
	}
	var b strings.Builder
	colored := false
	for n := 0; n < width-1; {
		sequence := sgr(text)
		if sequence == 0 {
			_, sequence = utf8.DecodeRuneInString(text)
			n++
		} else {
			colored = true
		}
		b.WriteString(text[:sequence])
		text = text[sequence:]
	}
	b.WriteByte('~')
	if colored {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}

// Width returns the number of characters of a line. SGR sequences have no width.
func Width(text string) (n int) {
	for len(text) > 0 {
		if sequence := sgr(text); sequence > 0 {
			text = text[sequence:]
			continue
		}
		_, size := utf8.DecodeRuneInString(text)
		text, n = text[size:], n+1
	}
	return n
}

// sgr returns the length of the SGR sequence at the start of a text, 0 without one.
func sgr(text string) int {
	if !strings.HasPrefix(text, "\x1b[") {
		return 0
	}
	for n := 2; n < len(text); n++ {
		switch c := text[n]; {
		case c == 'm':
			return n + 1
		case c != ';' && (c < '0' || c > '9'):
			return 0
		}
	}
	return 0
}
