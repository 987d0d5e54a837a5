package app

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/drain"
)

func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	p := newPace(drain.NoObserver{}, func() time.Time { return now })
	feed := func(started, late int) {
		for range started {
			p.Departed(nil, 0)
		}
		for range late {
			p.Released("q", drain.Late)
			p.Released("q", drain.Stopping) // says nothing about pace
		}
	}
	want := func(what string, held bool) {
		t.Helper()
		if err := p.held(); (err == nil) != held {
			t.Errorf("%s: %v", what, err)
		}
	}
	want("nothing yet", true)
	feed(0, 19)
	want("too few to say", true)
	feed(0, 1)
	want("all late", false)
	if err := p.held(); !strings.Contains(err.Error(), "20 of the last 20") {
		t.Errorf("said %v", err)
	}
	feed(20, 0)
	want("half late", true)
	feed(0, 1)
	want("more than half late", false)
	now = now.Add(31 * time.Second)
	want("the window before counts", false)
	feed(5, 0)
	want("and the present one", true)
	now = now.Add(31 * time.Second)
	feed(0, 5)
	want("few again", true)
	feed(0, 50)
	want("late again", false)
	now = now.Add(time.Hour)
	want("long ago", true)
}
