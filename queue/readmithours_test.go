package queue

import (
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/penstock/penstock/queue/invalid"
)

// TestReadmitHours reads the wall clock, whatever the zone does to it.
func TestReadmitHours(t *testing.T) {
	const berlin = "Europe/Berlin"
	tests := []struct {
		name, between, zone, at string
		open                    bool
		opens                   string
	}{
		{"always", "", "", "2026-05-01T12:00:00Z", true, "2026-05-01T12:00:00Z"},
		{"within", "09:00-17:00", "", "2026-05-01T09:00:00Z", true, "2026-05-01T09:00:00Z"},
		{"the end is outside", "09:00-17:00", "", "2026-05-01T17:00:00Z", false, "2026-05-02T09:00:00Z"},
		{"a second before", "09:00-17:00", "", "2026-05-01T08:59:59Z", false, "2026-05-01T09:00:00Z"},
		{"over midnight, evening", "22:00-06:00", "", "2026-05-01T23:30:00Z", true, "2026-05-01T23:30:00Z"},
		{"over midnight, morning", "22:00-06:00", "", "2026-05-01T05:59:59Z", true, "2026-05-01T05:59:59Z"},
		{"over midnight, day", "22:00-06:00", "", "2026-05-01T06:00:00Z", false, "2026-05-01T22:00:00Z"},
		{"summer time", "22:00-06:00", berlin, "2026-07-01T20:00:00Z", true, "2026-07-01T20:00:00Z"},
		{"winter time", "22:00-06:00", berlin, "2026-12-01T20:00:00Z", false, "2026-12-01T21:00:00Z"},
		// On 29 March 2026 clocks in Berlin go from 02:00 to 03:00 at 01:00Z.
		{"spring, before a skipped span", "02:00-02:30", berlin, "2026-03-29T00:59:59Z", false, "2026-03-29T01:00:00Z"},
		{"spring, a skipped span is later", "02:00-02:30", berlin, "2026-03-29T01:29:59Z", true, "2026-03-29T01:29:59Z"},
		{"spring, after it", "02:00-02:30", berlin, "2026-03-29T01:30:00Z", false, "2026-03-30T00:00:00Z"},
		{"spring, the skipped hour", "02:00-04:00", berlin, "2026-03-29T00:30:00Z", false, "2026-03-29T01:00:00Z"},
		{"spring, the end comes sooner", "22:00-06:00", berlin, "2026-03-29T04:00:00Z", false, "2026-03-29T20:00:00Z"},
		// On 25 October 2026 they go from 03:00 back to 02:00 at 01:00Z.
		{"autumn, the first time", "02:00-02:30", berlin, "2026-10-25T00:10:00Z", true, "2026-10-25T00:10:00Z"},
		{"autumn, the second time", "02:00-02:30", berlin, "2026-10-25T01:10:00Z", false, "2026-10-26T01:00:00Z"},
		{"autumn, over both", "01:30-03:00", berlin, "2026-10-25T01:59:59Z", true, "2026-10-25T01:59:59Z"},
		{"autumn, the end comes later", "22:00-06:00", berlin, "2026-10-25T04:59:59Z", true, "2026-10-25T04:59:59Z"},
		{"a zone of half an hour", "09:00-17:00", "Asia/Kolkata", "2026-05-01T03:30:00Z", true, "2026-05-01T03:30:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Deferral{Timezone: tt.zone}
			d.ReadmitBetween = ReadmitIn(tt.between)
			w, err := d.Schedule()
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, tt.at)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.Open(at); got != tt.open {
				t.Errorf("open: %v, want %v", got, tt.open)
			}
			if got := w.Opens(at).UTC().Format(time.RFC3339); got != tt.opens {
				t.Errorf("opens %s, want %s", got, tt.opens)
			}
		})
	}
}

func TestReadmitHoursRefuseNonsense(t *testing.T) {
	for _, tt := range []struct{ between, zone, field string }{
		{"22:00", "", "deferred.readmit_between"},
		{"22:00-", "", "deferred.readmit_between"},
		{"22-06", "", "deferred.readmit_between"},
		{"25:00-06:00", "", "deferred.readmit_between"},
		{"22:00-06:60", "", "deferred.readmit_between"},
		{"22:00-22:00", "", "deferred.readmit_between"},
		{"22:00-06:00-07:00", "", "deferred.readmit_between"},
		{"22:00-06:00", "Europe/Atlantis", "deferred.timezone"},
		{"22:00-06:00", "../etc/passwd", "deferred.timezone"},
		{"22:00-06:00", "Local", "deferred.timezone"},
		{"", "Europe/Berlin", "deferred.timezone"},
	} {
		d := Deferral{Timezone: tt.zone}
		d.ReadmitBetween = ReadmitIn(tt.between)
		_, err := d.Schedule()
		var f *invalid.Error
		if !errors.As(err, &f) || f.Field != tt.field {
			t.Errorf("%q in %q: %v, want an error of %s", tt.between, tt.zone, err, tt.field)
		}
	}
}

// When clocks go forward in Berlin, on 29 March 2026, the hour from 02:00, which is 01:00 UTC, is skipped.
func TestHoursWhenClocksGoForward(t *testing.T) {
	for _, tt := range []struct{ open, want string }{
		{"02:00-03:00", "01:00-02:00"},
		{"02:30-03:15", "01:30-02:15"},
		{"01:30-02:30", "00:30-01:30"},
		{"02:00-04:00", "01:00-02:00"},
		{"02:30-02:45; 03:00-03:10", "01:00-01:10 01:30-01:45"},
		{"22:00-02:30", "21:00-01:30"}, // since the evening before
	} {
		h := OpenHours{Open: ListOf(strings.Split(tt.open, "; ")...), Timezone: "Europe/Berlin"}.Hours()
		s, err := h.Schedule("hours")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for from, to := range s.spans(time.Date(2026, 3, 29, 0, 20, 0, 0, time.UTC)) {
			if to.After(time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)) {
				break
			}
			got = append(got, from.UTC().Format("15:04")+"-"+to.UTC().Format("15:04"))
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s is open at %s UTC, want %s", tt.open, text, tt.want)
		}
	}
}

// Hours that never open are an error, however they are written.
func TestHoursWithoutSpans(t *testing.T) {
	for _, spec := range []string{
		`{"hours":{}}`, `{"hours":{"open":[]}}`, `{"hours":{"timezone":"Europe/Berlin"}}`, `{"lanes":{"hours":{"open":[]}}}`,
		`{"lanes":{"overrides":{"a":{"hours":{}}}}}`, `{"overflow":"defer","deferred":{"readmit_between":{"open":[]}}}`,
	} {
		s, err := ParseSpec([]byte(`{"name":"q","rate":"1/s",` + spec[1:]))
		if err == nil {
			err = s.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), "pause") {
			t.Errorf("%s: %v", spec, err)
		}
	}
}
