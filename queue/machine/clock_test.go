package machine

import (
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
)

func TestTheClockIgnoresKnownJumps(t *testing.T) {
	const s = leaky.Instant(time.Second / time.Microsecond)
	type look struct{ wall, latest, shows, ahead leaky.Instant }
	for name, looks := range map[string][]look{
		"it goes as the wall clock does": {{10 * s, 0, 10 * s, 0}, {12 * s, 0, 12 * s, 0}},
		"back, which shows by itself": {
			{10 * s, 0, 10 * s, 0}, {5 * s, 0, 10 * s, 5 * s}, {6 * s, 0, 11 * s, 5 * s},
		},
		"ahead, which looks like time that passed": {{10 * s, 0, 10 * s, 0}, {99 * s, 0, 99 * s, 0}},
		"ahead, and a caller knows better": {
			{10 * s, 0, 10 * s, 0}, {99 * s, 11 * s, 11 * s, -88 * s}, {100 * s, 0, 12 * s, -88 * s},
		},
		"ahead for a while": {
			{10 * s, 10 * s, 10 * s, 0}, {99 * s, 11 * s, 11 * s, -88 * s}, {12 * s, 12 * s, 11 * s, -s},
		},
		"a little ahead, as a slow call is": {
			{10 * s, 10 * s, 10 * s, 0}, {11*s + s/2, 11 * s, 11*s + s/2, 0}, {12*s + s, 12 * s, 12 * s, -s},
		},
		"ahead, and it stands still until a caller knows better": {
			{10 * s, 10 * s, 10 * s, 0},
			{99 * s, 0, 10 * s, -89 * s},
			{100 * s, 0, 10 * s, -90 * s},
			{101 * s, 12 * s, 12 * s, -89 * s},
			{102 * s, 0, 13 * s, -89 * s},
		},
		"or until none does for a while": {
			{10 * s, 10 * s, 10 * s, 0},
			{99 * s, 0, 10 * s, -89 * s},
			{102 * s, 0, 10 * s, -92 * s},
			{102*s + 1, 0, 102*s + 1, 0},
			{199 * s, 0, 199 * s, 0},
		},
		"what it was not told of it never takes back": {
			{99 * s, 99 * s, 99 * s, 0}, {99 * s, 50 * s, 99 * s, 0}, {100 * s, 100 * s, 100 * s, 0},
		},
	} {
		var c Clock
		for i, l := range looks {
			if shows := c.Look(l.wall, l.latest); shows != l.shows || c.Ahead != l.ahead {
				t.Errorf("%s: look %d shows %v, %v ahead, want %v, %v", name, i, shows, c.Ahead, l.shows, l.ahead)
			}
		}
	}
}

func TestJumpsOfTheWallClockAreCounted(t *testing.T) {
	at := func(d time.Duration) leaky.Instant { return leaky.Instant(time.Hour.Microseconds()).Add(d) }
	var c Clock
	c.Look(at(0), at(0))
	c.Look(at(time.Second+4*time.Second), at(time.Second)) // too short to be reported
	if s := c.State(); s.Jumps != 0 || !s.Jumped.IsZero() || s.Ahead != -4*time.Second {
		t.Errorf("%+v", s)
	}
	c.Look(at(time.Hour), at(2*time.Second))
	c.Look(at(3*time.Second), at(3*time.Second))
	if s := c.State(); s.Jumps != 2 || !s.Jumped.Equal(at(2*time.Second).Time()) || s.Ahead != -time.Second {
		t.Errorf("%+v", s)
	}
}
