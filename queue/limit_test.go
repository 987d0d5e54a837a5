package queue

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
)

// TestQuotaWindowsByTheMinute goes minute by minute through years with unusual clock changes: a window ends when the
// calendar first shows a later one than ever before.
func TestQuotaWindowsByTheMinute(t *testing.T) {
	for _, c := range []struct {
		zone string
		year int
	}{
		{"Europe/Berlin", 2026},
		{"America/New_York", 2026},
		{"Australia/Lord_Howe", 2026}, // changes by half an hour
		{"America/Santiago", 2022},    // goes back at midnight: the day has 25 hours
		{"Asia/Beirut", 2023},         // midnight is skipped
		{"America/St_Johns", 2009},    // goes back at one minute past midnight: the day begins twice
		{"Pacific/Apia", 2011},        // a whole day is skipped
		{"Africa/Cairo", 2014},        // four changes
		{"Asia/Kathmandu", 2026},
		{"UTC", 2024},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, per := range []string{"d", "w", "mo"} {
			q := Quota{1, per}
			at := time.Date(c.year, 1, 1, 12, 0, 0, 0, zone)
			end, shown, windows := q.ends(at), q.number(at), 0
			for stop := at.AddDate(1, 1, 0); at.Before(stop); at = at.Add(time.Minute) {
				if n := q.number(at); n > shown {
					shown = n
					windows++
					if !at.Equal(end) {
						t.Fatalf("%s: a window of %s ends at %v, but the calendar changes at %v", c.zone, q, end, at)
					}
					end = q.ends(at)
				}
				if got := q.ends(at); !got.Equal(end) {
					t.Fatalf(
						"%s: at %v the window of %s ends at %v, but it began as one that ends at %v", c.zone, at, q,
						got, end,
					)
				}
			}
			if min := map[string]int{"d": 365, "w": 52, "mo": 12}[per]; windows < min {
				t.Fatalf("%s: %d windows of %s in 13 months", c.zone, windows, q)
			}
		}
	}
}

func TestQuotaDaysThatChangeClocks(t *testing.T) {
	for _, c := range []struct{ at, ends string }{
		{"2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"}, // 23 hours
		{"2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"}, // 25 hours
		{"2026-10-25T02:30:00+02:00", "2026-10-26T00:00:00+01:00"},
		{"2026-10-25T02:30:00+01:00", "2026-10-26T00:00:00+01:00"},
	} {
		at, _ := time.Parse(time.RFC3339, c.at)
		l := Limit{Quota: Quota{50000, "d"}, Timezone: "Europe/Berlin"}
		calendar, err := l.Calendar(at)
		if err != nil {
			t.Fatal(err)
		}
		ends, _ := time.Parse(time.RFC3339, c.ends)
		if before := calendar.End(leaky.Instant(at.AddDate(0, 0, -3).UnixMicro())).Time(); !before.Before(ends) ||
			before.After(at) {
			t.Errorf("three days before %s the window ends at %v", c.at, before)
		}
		if got := calendar.End(leaky.Instant(at.UnixMicro())).Time(); !got.Equal(ends) {
			t.Errorf("at %s the day ends at %v, want %s", c.at, got, c.ends)
		}
	}
}

func TestLimitsOfSpecs(t *testing.T) {
	const head = `{"rate": "14/s", "limits": [`
	for _, c := range []struct{ limits, field string }{
		{`{"quota": "50000/d", "timezone": "Europe/Berlin"}`, ""},
		{`{"rate": "500/m", "burst": 100}, {"quota": "1/mo"}, {"quota": "10/w"}, {"quota": "5/h"}`, ""},
		{`{"quota": "1/d"}, {"quota": "1/d"}, {"quota": "1/d"}, {"quota": "1/d"}, {"quota": "1/d"}`, "limits"},
		{`{}`, "limits.0"},
		{`{"quota": "50000/d"}, {"rate": "5/s", "quota": "50000/d"}`, "limits.1"},
		{`{"quota": "50000/d", "burst": 5}`, "limits.0"},
		{`{"quota": "0/d"}`, "limits.0.quota"},
		{`{"quota": "-1/d"}`, "limits.0.quota"},
		{`{"quota": "1e18/d"}`, "limits.0.quota"},
		{`{"quota": "1000000001/d"}`, "limits.0.quota"},
		{`{"quota": "5"}`, "limits.0.quota"},
		{`{"quota": "5/y"}`, "limits.0.quota"},
		{`{"quota": 5}`, "limits.0.quota"},
		{`{"quota": "5/d", "timezone": "Local"}`, "limits.0.timezone"},
		{`{"quota": "5/d", "timezone": "localtime"}`, "limits.0.timezone"},
		{`{"quota": "5/d", "timezone": "Mars/Olympus"}`, "limits.0.timezone"},
		{`{"quota": "5/h", "timezone": "Europe/Berlin"}`, "limits.0.timezone"},
		{`{"rate": "5/s", "timezone": "Europe/Berlin"}`, "limits.0.timezone"},
		{`{"rate": "unlimited"}`, "limits.0"},
		{`{"rate": "5/s", "burst": 0}`, "limits.0.burst"},
		{`{"rate": "5/s", "burst": -1}`, "limits.0.burst"},
	} {
		_, err := ParseSpec([]byte(head + c.limits + "]}"))
		var field *invalid.Error
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s: %v", c.limits, err)
		case c.field != "" && !errors.As(err, &field):
			t.Errorf("%s: %v, want an error of %s", c.limits, err, c.field)
		case c.field != "" && field.Field != c.field:
			t.Errorf("%s: %v, want an error of %s", c.limits, err, c.field)
		}
	}
}

// TestRateAmongLimits checks that a rate means the same in either place.
func TestRateAmongLimits(t *testing.T) {
	a, err := ParseSpec([]byte(`{"limits": [{"quota": "50000/d"}, {"rate": "14/s", "burst": 3}, {"rate": "500/m"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseSpec([]byte(`{"rate": "14/s", "burst": 3, "limits": [{"quota": "50000/d"}, {"rate": "500/m"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
	if _, err := ParseSpec([]byte(`{"limits": [{"quota": "50000/d"}]}`)); err == nil {
		t.Error("a spec without any rate was accepted")
	}
	if _, err := ParseSpec([]byte(`{"burst": 5, "limits": [{"rate": "14/s", "burst": 3}]}`)); err == nil {
		t.Error("a spec with two bursts for one rate was accepted")
	}
}
