package queue

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
)

func TestQuote(t *testing.T) {
	rate := func(s string) *leaky.Rate {
		r, err := leaky.ParseRate(s)
		if err != nil {
			t.Fatal(err)
		}
		return &r
	}
	lanes := func(rule LaneRule) func(*Info) { return func(i *Info) { i.Spec.Lanes.LaneRule = rule } }
	for _, tt := range []struct {
		what string
		info func(*Info)
		lane LaneInfo
		ask  QuoteRequest
		want string
	}{
		{"an empty queue", all(), LaneInfo{}, QuoteRequest{Jobs: 1}, "1 0 0: 0s 0s -"},
		{"all fit", all(), LaneInfo{}, QuoteRequest{Jobs: 100}, "100 0 0: 0s 9.9s -"},
		{"one too many", all(), LaneInfo{}, QuoteRequest{Jobs: 101}, "100 0 1 full: 0s 9.9s -"},
		{"their cost", all(), LaneInfo{}, QuoteRequest{Jobs: 10, Cost: 3}, "10 0 0: 0s 2.7s -"},
		{
			"the dearest", all(),
			LaneInfo{},
			QuoteRequest{Jobs: MaxQuoteJobs, Cost: 1000},
			"100 0 999999900 full: 0s 2h45m0s -",
		},
		{"behind others", waits(30, 1), LaneInfo{Waiting: 30}, QuoteRequest{Jobs: 2}, "2 0 0: 3s 3.1s 2.9s"},
		{
			"behind dearer ones", waits(30, 5),
			LaneInfo{Waiting: 30},
			QuoteRequest{Jobs: 2, Cost: 2},
			"2 0 0: 15s 15.2s 14.9s",
		},
		{
			"scheduled and leased ones have places", func(i *Info) { i.Scheduled, i.Leased = 60, 39 },
			LaneInfo{},
			QuoteRequest{Jobs: 2},
			"1 0 1 full: 0s 0s -",
		},
		{"full", waits(100, 1), LaneInfo{Waiting: 100}, QuoteRequest{Jobs: 2}, "0 0 2 full: - - 9.9s"},
		{
			"fuller than a lowered capacity", waits(120, 1),
			LaneInfo{Waiting: 120},
			QuoteRequest{Jobs: 2},
			"0 0 2 full: - - 11.9s",
		},
		{
			"the bucket", func(i *Info) { i.Bucket = bucketAt(time.Minute, 600) },
			LaneInfo{},
			QuoteRequest{Jobs: 2},
			"2 0 0: 1m0s 1m0.1s -",
		},
		{"a burst", func(i *Info) { i.Spec.Burst = 5 }, LaneInfo{}, QuoteRequest{Jobs: 7}, "7 0 0: 0s 200ms -"},
		{
			"paused until an instant", func(i *Info) { i.Pause = Pause{Since: i.Now, Until: i.Now.Add(time.Minute)} },
			LaneInfo{},
			QuoteRequest{Jobs: 3},
			"3 0 0: 1m0s 1m0.2s -; paused",
		},
		{
			"an adapted rate", all(waits(5, 1), func(i *Info) { i.Rate = leaky.PerSecond(5) }),
			LaneInfo{Waiting: 5},
			QuoteRequest{Jobs: 2},
			"2 0 0: 1s 1.2s 800ms",
		},
		{
			"its parent is",
			func(i *Info) { i.Parent = &Info{Pause: Pause{Since: i.Now, Until: i.Now.Add(time.Minute)}} },
			LaneInfo{},
			QuoteRequest{Jobs: 3},
			"3 0 0: 1m0s 1m0.2s -; paused",
		},
		{
			"paused", func(i *Info) { i.Pause.Since = i.Now },
			LaneInfo{},
			QuoteRequest{Jobs: 3},
			"3 0 0: 0s 200ms -; paused",
		},
		{
			"unlimited", all(waits(50, 1), func(i *Info) { i.Spec.Rate = leaky.Unlimited }),
			LaneInfo{Waiting: 50},
			QuoteRequest{Jobs: 60},
			"50 0 10 full: 0s 0s 0s",
		},
		{
			"the slowest, longer than time itself",
			all(
				waits(100_000_000, 1000),
				func(i *Info) { i.Spec.Rate, i.Spec.Capacity = *rate("1/744h"), MaxCapacity+1 },
			),
			LaneInfo{Waiting: 100_000_000},
			QuoteRequest{Jobs: 1},
			"1 0 0: 2562047h47m16.854775807s 2562047h47m16.854775807s 2562047h47m16.854775807s",
		},

		{"what finds no room waits", deferring, LaneInfo{}, QuoteRequest{Jobs: 110}, "100 10 0: 0s 10.9s -"},
		{"as much of it as may", deferring, LaneInfo{}, QuoteRequest{Jobs: 150}, "100 20 30 overflow_full: 0s 11.9s -"},
		{
			"behind those that wait there, room or not",
			all(deferring, waits(10, 1), func(i *Info) { i.Deferred, i.DeferredCost = 5, 10 }),
			LaneInfo{Waiting: 10},
			QuoteRequest{Jobs: 20},
			"0 15 5 overflow_full: 2s 3.4s 1.9s",
		},
		{
			"more are seen there than are recorded", all(deferring, func(i *Info) { i.Deferred = 5 }),
			LaneInfo{},
			QuoteRequest{Jobs: 1},
			"0 1 0: 500ms 500ms 400ms",
		},
		{
			"the overflow is full", all(deferring, func(i *Info) { i.Deferred, i.DeferredCost = 25, 25 }),
			LaneInfo{},
			QuoteRequest{Jobs: 1},
			"0 0 1 overflow_full: - - 2.4s",
		},
		{
			"those who may not wait have the places above the mark",
			all(waits(60, 1), func(i *Info) { i.Deferred, i.DeferredCost, i.Back = 5, 5, 40 }),
			LaneInfo{Waiting: 60},
			QuoteRequest{Jobs: 99},
			"30 0 69 full: 6s 8.9s 6.4s",
		},

		{
			"a lane's turns", func(i *Info) { i.Waiting, i.Ahead, i.Lanes = 40, 40, 2 },
			LaneInfo{Waiting: 1, Held: 1},
			QuoteRequest{Jobs: 50, Lane: "a"},
			"50 0 0: 300ms 8.9s 3.9s",
		},
		{
			"a new lane's first", func(i *Info) { i.Waiting, i.Ahead, i.Lanes = 40, 40, 2 },
			LaneInfo{},
			QuoteRequest{Jobs: 1, Lane: "b"},
			"1 0 0: 200ms 200ms 3.9s",
		},
		{
			"a lane's rate", lanes(LaneRule{Rate: leaky.PerSecond(2)}),
			LaneInfo{Waiting: 1, Held: 1},
			QuoteRequest{Jobs: 5, Lane: "a", Cost: 2},
			"5 0 0: 500ms 4.5s -",
		},
		{
			"a lane's bucket", lanes(LaneRule{Rate: leaky.PerSecond(2)}),
			LaneInfo{Bucket: bucketAt(time.Second, 1000)},
			QuoteRequest{Jobs: 2, Lane: "a"},
			"2 0 0: 1s 1.5s -",
		},
		{
			"not of the lane without a key", lanes(LaneRule{Rate: leaky.PerSecond(2), Capacity: 1}),
			LaneInfo{},
			QuoteRequest{Jobs: 2},
			"2 0 0: 0s 100ms -",
		},
		{
			"a lane's capacity", lanes(LaneRule{Capacity: 8}),
			LaneInfo{Held: 5},
			QuoteRequest{Jobs: 5, Lane: "a"},
			"3 0 2 lane_full: 0s 200ms -",
		},
		{
			"a lane over its capacity", lanes(LaneRule{Capacity: 8}),
			LaneInfo{Held: 9},
			QuoteRequest{Jobs: 5, Lane: "a"},
			"0 0 5 lane_full: - - -",
		},
		{
			"a full lane does not wait", all(deferring, lanes(LaneRule{Capacity: 8})),
			LaneInfo{},
			QuoteRequest{Jobs: 9, Lane: "a"},
			"8 0 1 lane_full: 0s 700ms -",
		},
		{
			"the rule of that lane", func(i *Info) { i.Spec.Lanes.Overrides = map[string]LaneRule{"a": {Capacity: 2}} },
			LaneInfo{},
			QuoteRequest{Jobs: 9, Lane: "a"},
			"2 0 7 lane_full: 0s 100ms -",
		},

		{
			"the backlog at another rate", waits(50, 1),
			LaneInfo{},
			QuoteRequest{Rate: rate("5/s")},
			"0 0 0: - - 4.9s; at 5/s: - - 9.8s",
		},
		{"no backlog", all(), LaneInfo{}, QuoteRequest{Rate: rate("5/s")}, "0 0 0: - - -; at 5/s: - - -"},
		{
			"jobs at another rate", waits(50, 1),
			LaneInfo{Waiting: 50},
			QuoteRequest{Jobs: 2, Rate: rate("unlimited")},
			"2 0 0: 5s 5.1s 4.9s; at unlimited: 0s 0s 0s",
		},
		{
			"a change is carried out as a Put would",
			all(waits(2, 1), func(i *Info) { i.Bucket = bucketAt(100*time.Millisecond, 1) }),
			LaneInfo{},
			QuoteRequest{Rate: rate("1/s")},
			"0 0 0: - - 200ms; at 1/s: - - 2s",
		},

		{
			"a further pace", all(waits(2, 1), limits("2/s")),
			LaneInfo{Waiting: 2},
			QuoteRequest{Jobs: 2},
			"2 0 0: 1s 1.5s 500ms",
		},
		{
			"a quota, in the windows to come", all(waits(2, 1), limits("5/m")),
			LaneInfo{Waiting: 2},
			QuoteRequest{Jobs: 10},
			"10 0 0: 200ms 1m55.1s 100ms",
		},
		{"what a quota has used", all(limits("5/m"), uses(5)), LaneInfo{}, QuoteRequest{Jobs: 1}, "1 0 0: 55s 55s -"},
		{
			"limits stay at another rate", all(waits(9, 1), limits("2/s")),
			LaneInfo{Waiting: 9},
			QuoteRequest{Rate: rate("unlimited")},
			"0 0 0: - - 4s; at unlimited: - - 4s",
		},
		{
			"a quota at another rate", all(waits(9, 1), limits("5/m")),
			LaneInfo{Waiting: 9},
			QuoteRequest{Rate: rate("1/s")},
			"0 0 0: - - 55.3s; at 1/s: - - 58s",
		},

		{"a parent that is slower", child(GroupInfo{}), LaneInfo{}, QuoteRequest{Jobs: 3}, "3 0 0: 0s 2s -"},
		{
			"a parent that is not", all(child(GroupInfo{}), parent(func(p *Info) { p.Rate = leaky.PerSecond(100) })),
			LaneInfo{},
			QuoteRequest{Jobs: 3},
			"3 0 0: 0s 200ms -",
		},
		{
			"turns with siblings", all(waits(2, 1), child(GroupInfo{Members: 3, Waiting: 100})),
			LaneInfo{Waiting: 2},
			QuoteRequest{Jobs: 2},
			"2 0 0: 8s 11s 5s",
		},
		{
			"no more than wait around it", all(waits(2, 1), child(GroupInfo{Members: 3, Waiting: 5})),
			LaneInfo{Waiting: 2},
			QuoteRequest{Jobs: 2},
			"2 0 0: 5s 6s 4s",
		},
		{
			"as dear as the dearest", all(waits(2, 1), child(GroupInfo{Members: 3, Waiting: 5, MaxCost: 3})),
			LaneInfo{Waiting: 2},
			QuoteRequest{Jobs: 2},
			"2 0 0: 8s 11s 5s",
		},
		{
			"what is deferred, behind all",
			all(
				deferring, waits(10, 1), child(GroupInfo{Members: 1, Waiting: 10}),
				func(i *Info) { i.Deferred, i.DeferredCost = 5, 10 },
			),
			LaneInfo{Waiting: 10},
			QuoteRequest{Jobs: 2},
			"0 2 0: 20s 21s 19s",
		},
		{
			"a parent's quota", all(child(GroupInfo{}), parent(all(limits("5/m"), uses(5)))),
			LaneInfo{},
			QuoteRequest{Jobs: 2},
			"2 0 0: 55s 56s -",
		},
		{
			"a paused parent", all(child(GroupInfo{}), parent(func(p *Info) { p.Pause.Since = p.Now })),
			LaneInfo{},
			QuoteRequest{Jobs: 1},
			"1 0 0: 0s 0s -; paused",
		},
		{
			"a child at another rate", all(waits(3, 1), child(GroupInfo{Members: 1, Waiting: 3})),
			LaneInfo{Waiting: 3},
			QuoteRequest{Rate: rate("1/m")},
			"0 0 0: - - 2s; at 1/m: - - 2m0s",
		},
		{
			"the parent's own jobs, at another rate",
			all(waits(3, 1), func(i *Info) { i.Group = GroupInfo{Children: 2, Members: 2, Waiting: 50} }),
			LaneInfo{Waiting: 3},
			QuoteRequest{Jobs: 1, Rate: rate("1/s")},
			"1 0 0: 700ms 700ms 500ms; at 1/s: 7s 7s 5s",
		},
	} {
		q, err := tt.ask.Quote(quoted(tt.info), &tt.lane)
		if got := shortly(q); err != nil || got != tt.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", tt.what, got, err, tt.want)
		}
	}
}

func TestQuoteRefuses(t *testing.T) {
	slow, err := leaky.ParseRate("1/744h")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		ask   QuoteRequest
		field string
	}{
		{QuoteRequest{}, "jobs"},
		{QuoteRequest{Jobs: -1}, "jobs"},
		{QuoteRequest{Jobs: -1, Rate: &slow}, "jobs"},
		{QuoteRequest{Jobs: MaxQuoteJobs + 1}, "jobs"},
		{QuoteRequest{Jobs: 1e18}, "jobs"},
		{QuoteRequest{Jobs: math.MaxInt64}, "jobs"},
		{QuoteRequest{Jobs: 1, Cost: -1}, "cost"},
		{QuoteRequest{Jobs: 1, Cost: 1001}, "cost"},
		{QuoteRequest{Jobs: 1, Lane: strings.Repeat("a", 257)}, "lane"},
		{QuoteRequest{Jobs: 1, Lane: "\xff"}, "lane"},
		{QuoteRequest{Rate: &slow}, "rate"}, // at a burst of 100 it spans years
	} {
		var field *FieldError
		if _, err := tt.ask.Quote(quoted(func(i *Info) { i.Spec.Burst = 100 }), &LaneInfo{}); !errors.As(err, &field) ||
			field.Field != tt.field {
			t.Errorf("%+v: %v, want %s", tt.ask, err, tt.field)
		}
	}
}
