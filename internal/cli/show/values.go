package show

import (
	"fmt"
	"strconv"
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

// Cut shortens a line to a width; 0 is no limit.
func Cut(text string, width int) string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "~"
}
