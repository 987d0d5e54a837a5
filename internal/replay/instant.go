package replay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/leaky"
)

// clock parses the times of one log. Successive lines often have the same time, so it remembers the last text.
type clock struct {
	layout string // as in Options.TimeFormat
	zone   *time.Location
	text   []byte
	at     leaky.Instant
}

// Names accepted by Options.TimeFormat besides layouts of package time.
var unixFormats = map[string]int64{"unix": 1_000_000, "unix_ms": 1_000, "unix_us": 1}

// layouts are tried in turn on texts that are not numbers. Package time accepts a fraction after the seconds of each.
var layouts = []string{
	time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 MST", combinedLayout,
	"2006-01-02T15:04:05-0700", "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006/01/02 15:04:05",
	time.RFC1123Z, time.RFC1123, time.ANSIC,
}

const combinedLayout = "02/Jan/2006:15:04:05 -0700"

func newClock(layout string, zone *time.Location) (*clock, error) {
	if zone == nil {
		zone = time.UTC
	}
	if _, ok := unixFormats[layout]; !ok && layout != "" && !strings.Contains(layout, "05") {
		return nil, fmt.Errorf(
			"--time-format %q: must be unix, unix_ms, unix_us, or how Go writes 2 January 2006 15:04:05, seconds included, "+
				"such as \"02.01.2006 15:04:05\"",
			layout,
		)
	}
	return &clock{layout: layout, zone: zone}, nil
}

// read parses a time.
func (c *clock) read(text []byte) (leaky.Instant, error) {
	if len(text) > 0 && string(text) == string(c.text) {
		return c.at, nil
	}
	at, err := c.parse(string(text))
	if err != nil {
		return 0, err
	}
	if at < 0 || at > lastInstant {
		return 0, fmt.Errorf("has the time %s, which is not from 1970 to 9999", clip.Quote(string(text), 40))
	}
	c.text, c.at = append(c.text[:0], text...), at
	return at, nil
}

var lastInstant = leaky.Instant(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).UnixMicro())

func (c *clock) parse(text string) (leaky.Instant, error) {
	if text == "" {
		return 0, errors.New("has no time")
	}
	if unit, ok := unixFormats[c.layout]; ok {
		return number(text, unit)
	}
	if c.layout != "" {
		t, err := time.ParseInLocation(c.layout, text, c.zone)
		if err != nil {
			return 0, fmt.Errorf("has the time %s, which does not match --time-format", clip.Quote(text, 40))
		}
		return leaky.Instant(t.UnixMicro()), nil
	}
	if at, err := number(text, 0); err == nil {
		return at, nil
	}
	for _, layout := range layouts {
		t, err := time.ParseInLocation(layout, text, c.zone)
		if err != nil {
			continue
		}
		if name, offset := t.Zone(); offset == 0 && t.Location() != time.UTC && t.Location() != c.zone && name != "" &&
			name != "UTC" && name != "GMT" {
			return 0, fmt.Errorf(
				"has the time %s, whose zone %s is ambiguous; write the offset", clip.Quote(text, 40), name,
			)
		}
		return leaky.Instant(t.UnixMicro()), nil
	}
	return 0, fmt.Errorf(
		"has the time %s, which is in no known form; describe it with --time-format", clip.Quote(text, 40),
	)
}

// number parses a count of units since 1970, with or without a fraction. Unit 0 chooses by size: seconds until the year
// 5138, then milliseconds and microseconds.
func number(text string, unit int64) (leaky.Instant, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("has the time %s, which is not a number", clip.Quote(text, 40))
	}
	if unit == 0 {
		switch {
		case n < 1e11:
			unit = 1_000_000
		case n < 1e14:
			unit = 1_000
		default:
			unit = 1
		}
	}
	if n < 0 || n > int64(lastInstant)/unit {
		return 0, fmt.Errorf("has the time %s, which is not from 1970 to 9999", clip.Quote(text, 40))
	}
	at := n * unit
	for i := 0; i < len(fraction); i++ {
		digit := fraction[i]
		if digit < '0' || digit > '9' {
			return 0, fmt.Errorf("has the time %s, which is not a number", clip.Quote(text, 40))
		}
		unit /= 10
		at += int64(digit-'0') * unit
	}
	return leaky.Instant(at), nil
}

// readCombined parses the usual form of web servers, 02/Jan/2006:15:04:05 -0700, without the general parser.
func (c *clock) readCombined(text []byte) (leaky.Instant, error) {
	if string(text) == string(c.text) && len(text) > 0 {
		return c.at, nil
	}
	at, ok := combinedInstant(text)
	if !ok { // with a fraction, or in another form
		return c.read(text)
	}
	c.text, c.at = append(c.text[:0], text...), at
	return at, nil
}

func combinedInstant(t []byte) (leaky.Instant, bool) {
	if len(t) != len(combinedLayout) || t[2] != '/' || t[6] != '/' || t[11] != ':' || t[14] != ':' || t[17] != ':' ||
		t[20] != ' ' {
		return 0, false
	}
	month := monthOf(t[3], t[4], t[5])
	day, ok1 := digits(t[0:2])
	year, ok2 := digits(t[7:11])
	hour, ok3 := digits(t[12:14])
	minute, ok4 := digits(t[15:17])
	second, ok5 := digits(t[18:20])
	zone, ok6 := digits(t[22:26])
	if month == 0 || !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) || day < 1 || day > 31 || hour > 23 || minute > 59 ||
		second > 60 || year < 1970 || zone%100 > 59 || zone > 2459 {
		return 0, false
	}
	at := time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	if at.Day() != day && second < 60 && hour < 24 {
		return 0, false // 31 February
	}
	offset := int64(zone/100*3600 + zone%100*60)
	switch t[21] {
	case '-':
		offset = -offset
	case '+':
	default:
		return 0, false
	}
	seconds := at.Unix() - offset
	instant := leaky.Instant(seconds * 1_000_000)
	return instant, instant >= 0 && instant <= lastInstant
}

func digits(b []byte) (n int, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

func monthOf(a, b, c byte) time.Month {
	const names = "JanFebMarAprMayJunJulAugSepOctNovDec"
	for m := 0; m < len(names); m += 3 {
		if names[m] == a && names[m+1] == b && names[m+2] == c {
			return time.Month(m/3 + 1)
		}
	}
	return 0
}
