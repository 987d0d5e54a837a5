package command

import (
	"testing"
	"time"
)

func TestMoments(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 10, 24, 9, 30, 0, 0, berlin) // the clocks are set back in the night
	for _, c := range []struct {
		text string
		way  int
		want string
		open bool
	}{
		{"2026-12-24T07:00:00+01:00", 1, "2026-12-24T07:00:00+01:00", false},
		{"2h", 1, "2026-10-24T11:30:00+02:00", false},
		{"2h", -1, "2026-10-24T07:30:00+02:00", false},
		{"07:00", 1, "2026-10-25T07:00:00+01:00", true},
		{"07:00", -1, "2026-10-24T07:00:00+02:00", true},
		{"10:00", 1, "2026-10-24T10:00:00+02:00", true},
		{"10:00", -1, "2026-10-23T10:00:00+02:00", true},
		{"09:30", 1, "2026-10-25T09:30:00+01:00", true},
		{"09:30", -1, "2026-10-24T09:30:00+02:00", true},
		{"today 07:00", 1, "2026-10-24T07:00:00+02:00", true},
		{"tomorrow 07:00", 1, "2026-10-25T07:00:00+01:00", true},
		{"tomorrow 07:00:30", 1, "2026-10-25T07:00:30+01:00", true},
		{"yesterday 07:00", -1, "2026-10-23T07:00:00+02:00", true},
		{"2026-12-24 07:00", 1, "2026-12-24T07:00:00+01:00", true},
		{"2026-12-24 07:00 UTC", 1, "2026-12-24T07:00:00Z", true},
		{"07:00 America/New_York", 1, "2026-10-24T07:00:00-04:00", true},
	} {
		at, open, err := readMoment(c.text, now, c.way)
		if err != nil || at.Format(time.RFC3339) != c.want || open != c.open {
			t.Errorf("%s is read as %s, %v, %v; want %s, %v", c.text, at.Format(time.RFC3339), open, err, c.want, c.open)
		}
	}
	for _, text := range []string{
		"", "7", "25:00", "soon", "tomorrow", "07:00 tomorrow", "-2h", "2026-12-24", "2026-13-24 07:00",
		"07:00 Europe/Nowhere", "2026-12-24T07:00:00", "a b c",
	} {
		if at, _, err := readMoment(text, now, 1); err == nil {
			t.Errorf("%q is read as %v", text, at)
		}
	}
}
