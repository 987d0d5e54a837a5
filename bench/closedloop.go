package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock/penstock/bench/closedloop"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// closedLoopPicture is written for a full-size run in the module's directory.
const closedLoopPicture = "docs/closed-loop.svg"

var closedLoop = Figure{
	Name: "closed-loop", Unit: "x of a constant limit used", Rounds: 1,
	Goal: "constant limit: >= 0.85 used, <= 0.02 refused; a sine of 10 minutes: >= 0.7 used",
	Met:  func(ours, _, _ float64) bool { return ours >= 0.85 },
	Setup: func(context.Context) (Measurements, error) {
		var notes []string
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) {
				var used float64
				var err error
				used, notes, err = measureClosedLoop(ctx)
				return used, err
			},
			Notes: func() string { return strings.Join(notes, "; ") },
		}, nil
	},
}

// measureClosedLoop returns the part of the constant limit that was used, or 0 if another goal was missed.
func measureClosedLoop(ctx context.Context) (used float64, notes []string, err error) {
	var panels []closedloop.Panel
	missed := false
	for i, c := range []struct {
		title string
		limit closedloop.Limit
		span  time.Duration
		least float64 // goal for the part used
	}{
		{"a constant limit of 10/s", func(leaky.Instant) float64 { return 10 }, lasting(5 * time.Minute), 0.85},
		{"a limit that falls from 20/s to 5/s and rises again", stepped, lasting(5 * time.Minute), 0},
		{"a limit that rises and falls in 10 minutes", sine, lasting(10 * time.Minute), 0.7},
	} {
		r, err := runClosedLoop(ctx, c.limit, c.span)
		if err != nil {
			return 0, nil, err
		}
		allowed := 0.0
		for k := range r.Rates {
			allowed += c.limit(leaky.Instant(k)*100_000) / 10
		}
		part, refused := float64(r.Asked-r.Refused)/allowed, float64(r.Refused)/float64(r.Asked)
		if i == 0 {
			used, missed = part, refused > 0.02
		}
		missed = missed || part < c.least
		notes = append(notes, fmt.Sprintf(
			"%s: %.1f %% of it used, %.2f %% of the requests refused", c.title, 100*part, 100*refused,
		))
		panels = append(panels, closedloop.Panel{
			Title: fmt.Sprintf("%s: %.1f %% of it used, %.2f %% of the requests refused", c.title, 100*part, 100*refused),
			Limit: c.limit, Run: r,
		})
	}
	if missed {
		used = 0
	}
	if _, err := os.Stat(filepath.Dir(closedLoopPicture)); err != nil || scale != 1 {
		return used, notes, nil
	}
	file, err := os.Create(closedLoopPicture)
	if err != nil {
		return 0, nil, err
	}
	return used, append(notes, "drawn in "+closedLoopPicture), errors.Join(closedloop.Draw(file, panels), file.Close())
}

func stepped(at leaky.Instant) float64 {
	if s := at / 1_000_000; s >= 100 && s < 200 {
		return 5
	}
	return 20
}

func sine(at leaky.Instant) float64 { return 10 + 5*math.Sin(2*math.Pi*float64(at)/600e6) }

// runClosedLoop runs a queue with 3 drainers against a token bucket of 5 whose Retry-After is a second.
func runClosedLoop(ctx context.Context, limit closedloop.Limit, span time.Duration) (closedloop.Run, error) {
	dir, err := os.MkdirTemp("", "penstock-bench")
	if err != nil {
		return closedloop.Run{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	clock := closedloop.NewClock()
	e, err := boltq.Open(ctx, filepath.Join(dir, "store"), boltq.Options{Now: clock.Now})
	if err != nil {
		return closedloop.Run{}, err
	}
	defer func() { _ = e.Close() }()
	return closedloop.Loop{
		Spec: queue.Spec{Name: "q", Rate: leaky.PerSecond(5), Adapt: queue.Adapt{
			Floor: leaky.PerSecond(1), Ceiling: leaky.PerSecond(50),
		}},
		Receiver: closedloop.Tokens(limit, 5), Drainers: 3, Trip: time.Millisecond, Answer: 200 * time.Millisecond,
		After: time.Second, For: span, Seed: 1,
	}.Run(ctx, e, clock)
}
