package quote

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

func TestQuote(t *testing.T) {
	rate := func(s string) *leaky.Rate {
		r, err := leaky.ParseRate(s)
		if err != nil {
			t.Fatal(err)
		}
		return &r
	}
	lanes := func(rule queue.LaneRule) func(*queue.Info) {
		return func(i *queue.Info) { i.Spec.Lanes.LaneRule = rule }
	}
	for _, tt := range []struct {
		what string
		info func(*queue.Info)
		lane queue.LaneInfo
		ask  Request
		want string
	}{
		{"an empty queue", all(), queue.LaneInfo{}, Request{Jobs: 1}, "1 0 0: 0s 0s - exact"},
		{"all fit", all(), queue.LaneInfo{}, Request{Jobs: 100}, "100 0 0: 0s 9.9s - exact"},
		{"one too many", all(), queue.LaneInfo{}, Request{Jobs: 101}, "100 0 1 full: 0s 9.9s - exact"},
		{"their cost", all(), queue.LaneInfo{}, Request{Jobs: 10, Cost: 3}, "10 0 0: 0s 2.7s -"},
		{
			"the dearest", all(),
			queue.LaneInfo{},
			Request{Jobs: MaxJobs, Cost: 1000},
			"100 0 999999900 full: 0s 2h45m0s -",
		},
		{"behind others", waits(30, 1), queue.LaneInfo{Waiting: 30}, Request{Jobs: 2}, "2 0 0: 3s 3.1s 2.9s exact"},
		{
			"behind dearer ones", waits(30, 5),
			queue.LaneInfo{Waiting: 30},
			Request{Jobs: 2, Cost: 2},
			"2 0 0: 14.91875s 14.91875s 14.5s",
		},
		{
			"scheduled and leased ones have places", func(i *queue.Info) { i.Scheduled, i.Leased = 60, 39 },
			queue.LaneInfo{},
			Request{Jobs: 2},
			"1 0 1 full: 0s 0s -",
		},
		{"full", waits(100, 1), queue.LaneInfo{Waiting: 100}, Request{Jobs: 2}, "0 0 2 full: - - 9.9s exact"},
		{
			"fuller than a lowered capacity", waits(120, 1),
			queue.LaneInfo{Waiting: 120},
			Request{Jobs: 2},
			"0 0 2 full: - - 11.9s exact",
		},
		{
			"the bucket", func(i *queue.Info) { i.Bucket = bucketAt(time.Minute, 600) },
			queue.LaneInfo{},
			Request{Jobs: 2},
			"2 0 0: 1m0s 1m0.1s - exact",
		},
		{"a burst", func(i *queue.Info) { i.Spec.Burst = 5 }, queue.LaneInfo{}, Request{Jobs: 7}, "7 0 0: 0s 200ms - exact"},
		{
			"paused until an instant",
			func(i *queue.Info) { i.Pause = queue.Pause{Since: i.Now, Until: i.Now.Add(time.Minute)} },
			queue.LaneInfo{},
			Request{Jobs: 3},
			"3 0 0: 1m0s 1m0.2s -; paused",
		},
		{
			"an adapted rate", all(waits(5, 1), func(i *queue.Info) { i.Rate = leaky.PerSecond(5) }),
			queue.LaneInfo{Waiting: 5},
			Request{Jobs: 2},
			"2 0 0: 1s 1.2s 800ms exact",
		},
		{
			"a rate to which it would never adapt",
			all(waits(5, 1), func(i *queue.Info) {
				i.Spec.Adapt = queue.Adapt{Floor: leaky.PerSecond(5), Ceiling: leaky.PerSecond(20)}
			}),
			queue.LaneInfo{Waiting: 5},
			Request{Rate: rate("unlimited")},
			"0 0 0: - - 400ms; at unlimited: - - 0s exact",
		},
		{
			"its parent is",
			func(i *queue.Info) {
				i.Parent = &queue.Info{Pause: queue.Pause{Since: i.Now, Until: i.Now.Add(time.Minute)}}
			},
			queue.LaneInfo{},
			Request{Jobs: 3},
			"3 0 0: 1m0s 1m0.2s -; paused",
		},
		{
			"paused", func(i *queue.Info) { i.Pause.Since = i.Now },
			queue.LaneInfo{},
			Request{Jobs: 3},
			"3 0 0: - - - never: paused; paused",
		},
		{
			"unlimited", all(waits(50, 1), func(i *queue.Info) { i.Spec.Rate = leaky.Unlimited }),
			queue.LaneInfo{Waiting: 50},
			Request{Jobs: 60},
			"50 0 10 full: 0s 0s 0s exact",
		},
		{
			"the slowest, longer than time itself",
			all(
				waits(100_000_000, 1000),
				func(i *queue.Info) { i.Spec.Rate, i.Spec.Capacity = *rate("1/744h"), queue.MaxCapacity+1 },
			),
			queue.LaneInfo{Waiting: 100_000_000},
			Request{Jobs: 1},
			"1 0 0: 2562047h47m16.854775807s 2562047h47m16.854775807s 2562047h47m16.854775807s",
		},

		{"what finds no room waits", deferring, queue.LaneInfo{}, Request{Jobs: 110}, "100 10 0: 0s 10.9s -"},
		{"as much of it as may", deferring, queue.LaneInfo{}, Request{Jobs: 150}, "100 20 30 overflow_full: 0s 11.9s -"},
		{
			"behind jobs that wait there, room or not",
			all(deferring, waits(10, 1), func(i *queue.Info) { i.Deferred, i.DeferredCost = 5, 10 }),
			queue.LaneInfo{Waiting: 10},
			Request{Jobs: 20},
			"0 15 5 overflow_full: 2s 3.4s 1.9s",
		},
		{
			"more are seen there than are recorded", all(deferring, func(i *queue.Info) { i.Deferred = 5 }),
			queue.LaneInfo{},
			Request{Jobs: 1},
			"0 1 0: 500ms 500ms 400ms",
		},
		{
			"the overflow is full", all(deferring, func(i *queue.Info) { i.Deferred, i.DeferredCost = 25, 25 }),
			queue.LaneInfo{},
			Request{Jobs: 1},
			"0 0 1 overflow_full: - - 2.4s",
		},
		{
			"jobs that may not wait have the places above the mark",
			all(waits(60, 1), func(i *queue.Info) { i.Deferred, i.DeferredCost, i.Back = 5, 5, 40 }),
			queue.LaneInfo{Waiting: 60},
			Request{Jobs: 99},
			"30 0 69 full: 6s 8.9s 6.4s",
		},

		{
			"a lane's turns", func(i *queue.Info) { i.Waiting, i.Ahead, i.Lanes = 40, 40, 2 },
			queue.LaneInfo{Waiting: 1, Size: 1},
			Request{Jobs: 50, Lane: "a"},
			"50 0 0: 300ms 8.9s 3.9s",
		},
		{
			"a new lane's first", func(i *queue.Info) { i.Waiting, i.Ahead, i.Lanes = 40, 40, 2 },
			queue.LaneInfo{},
			Request{Jobs: 1, Lane: "b"},
			"1 0 0: 100ms 100ms 3.9s",
		},
		{
			"a lane's rate", all(waits(1, 1), lanes(queue.LaneRule{Rate: leaky.PerSecond(2)})),
			queue.LaneInfo{Waiting: 1, Size: 1},
			Request{Jobs: 5, Lane: "a", Cost: 2},
			"5 0 0: 500ms 4.5s 0s",
		},
		{
			"a lane's bucket", lanes(queue.LaneRule{Rate: leaky.PerSecond(2)}),
			queue.LaneInfo{Bucket: bucketAt(time.Second, 1000)},
			Request{Jobs: 2, Lane: "a"},
			"2 0 0: 1s 1.5s -",
		},
		{
			"not of the lane without a key", lanes(queue.LaneRule{Rate: leaky.PerSecond(2), Capacity: 1}),
			queue.LaneInfo{},
			Request{Jobs: 2},
			"2 0 0: 0s 100ms - exact",
		},
		{
			"a lane's capacity", lanes(queue.LaneRule{Capacity: 8}),
			queue.LaneInfo{Size: 5},
			Request{Jobs: 5, Lane: "a"},
			"3 0 2 lane_full: 0s 200ms -",
		},
		{
			"a lane over its capacity", lanes(queue.LaneRule{Capacity: 8}),
			queue.LaneInfo{Size: 9},
			Request{Jobs: 5, Lane: "a"},
			"0 0 5 lane_full: - - - exact",
		},
		{
			"a full lane does not wait", all(deferring, lanes(queue.LaneRule{Capacity: 8})),
			queue.LaneInfo{},
			Request{Jobs: 9, Lane: "a"},
			"8 0 1 lane_full: 0s 700ms -",
		},
		{
			"the rule of that lane",
			func(i *queue.Info) { i.Spec.Lanes.Overrides = map[string]queue.LaneRule{"a": {Capacity: 2}} },
			queue.LaneInfo{},
			Request{Jobs: 9, Lane: "a"},
			"2 0 7 lane_full: 0s 100ms -",
		},

		{
			"the backlog at another rate", waits(50, 1),
			queue.LaneInfo{},
			Request{Rate: rate("5/s")},
			"0 0 0: - - 4.9s; at 5/s: - - 9.8s",
		},
		{"no backlog", all(), queue.LaneInfo{}, Request{Rate: rate("5/s")}, "0 0 0: - - - exact; at 5/s: - - - exact"},
		{
			"jobs at another rate", waits(50, 1),
			queue.LaneInfo{Waiting: 50},
			Request{Jobs: 2, Rate: rate("unlimited")},
			"2 0 0: 5s 5.1s 4.9s exact; at unlimited: 0s 0s 0s exact",
		},
		{
			"a change is carried out as a Put would",
			all(waits(2, 1), func(i *queue.Info) { i.Bucket = bucketAt(100*time.Millisecond, 1) }),
			queue.LaneInfo{},
			Request{Rate: rate("1/s")},
			"0 0 0: - - 200ms; at 1/s: - - 2s",
		},

		{
			"a further pace", all(waits(2, 1), limits("2/s")),
			queue.LaneInfo{Waiting: 2},
			Request{Jobs: 2},
			"2 0 0: 1s 1.5s 500ms",
		},
		{
			"a quota, in the windows to come", all(waits(2, 1), limits("5/m")),
			queue.LaneInfo{Waiting: 2},
			Request{Jobs: 10},
			"10 0 0: 200ms 1m55.1s 100ms",
		},
		{"what a quota has used", all(limits("5/m"), uses(5)), queue.LaneInfo{}, Request{Jobs: 1}, "1 0 0: 55s 55s -"},
		{
			"limits stay at another rate", all(waits(9, 1), limits("2/s")),
			queue.LaneInfo{Waiting: 9},
			Request{Rate: rate("unlimited")},
			"0 0 0: - - 4s; at unlimited: - - 4s",
		},
		{
			"a quota at another rate", all(waits(9, 1), limits("5/m")),
			queue.LaneInfo{Waiting: 9},
			Request{Rate: rate("1/s")},
			"0 0 0: - - 55.3s; at 1/s: - - 58s",
		},

		{"a parent that is slower", child(queue.GroupInfo{}), queue.LaneInfo{}, Request{Jobs: 3}, "3 0 0: 0s 2s -"},
		{
			"a parent that is not", all(child(queue.GroupInfo{}), parent(func(p *queue.Info) { p.Rate = leaky.PerSecond(100) })),
			queue.LaneInfo{},
			Request{Jobs: 3},
			"3 0 0: 0s 200ms -",
		},
		{
			"turns with siblings", all(waits(2, 1), child(queue.GroupInfo{Members: 3, Waiting: 100})),
			queue.LaneInfo{Waiting: 2},
			Request{Jobs: 2},
			"2 0 0: 8s 11s 5s",
		},
		{
			"no more than wait around it", all(waits(2, 1), child(queue.GroupInfo{Members: 3, Waiting: 5})),
			queue.LaneInfo{Waiting: 2},
			Request{Jobs: 2},
			"2 0 0: 5s 6s 4s",
		},
		{
			"as dear as the dearest", all(waits(2, 1), child(queue.GroupInfo{Members: 3, Waiting: 5, MaxCost: 3})),
			queue.LaneInfo{Waiting: 2},
			Request{Jobs: 2},
			"2 0 0: 8s 10s 5s",
		},
		{
			"what is deferred, behind all",
			all(
				deferring, waits(10, 1), child(queue.GroupInfo{Members: 1, Waiting: 10}),
				func(i *queue.Info) { i.Deferred, i.DeferredCost = 5, 10 },
			),
			queue.LaneInfo{Waiting: 10},
			Request{Jobs: 2},
			"0 2 0: 20s 21s 19s",
		},
		{
			"a parent's quota", all(child(queue.GroupInfo{}), parent(all(limits("5/m"), uses(5)))),
			queue.LaneInfo{},
			Request{Jobs: 2},
			"2 0 0: 55s 56s -",
		},
		{
			"a paused parent", all(child(queue.GroupInfo{}), parent(func(p *queue.Info) { p.Pause.Since = p.Now })),
			queue.LaneInfo{},
			Request{Jobs: 1},
			"1 0 0: - - - never: paused; paused",
		},
		{
			"a child at another rate", all(waits(3, 1), child(queue.GroupInfo{Members: 1, Waiting: 3})),
			queue.LaneInfo{Waiting: 3},
			Request{Rate: rate("1/m")},
			"0 0 0: - - 2s; at 1/m: - - 2m0s",
		},
		{
			"the parent's own jobs, at another rate",
			all(waits(3, 1), func(i *queue.Info) { i.Group = queue.GroupInfo{Children: 2, Members: 2, Waiting: 50} }),
			queue.LaneInfo{Waiting: 3},
			Request{Jobs: 1, Rate: rate("1/s")},
			"1 0 0: 700ms 700ms 500ms; at 1/s: 7s 7s 5s",
		},
	} {
		q, err := tt.ask.Quote(lineupOf(quoted(tt.info), tt.ask.Lane, tt.lane), &tt.lane)
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
		ask   Request
		field string
	}{
		{Request{}, "jobs"},
		{Request{Jobs: -1}, "jobs"},
		{Request{Jobs: -1, Rate: &slow}, "jobs"},
		{Request{Jobs: MaxJobs + 1}, "jobs"},
		{Request{Jobs: 1e18}, "jobs"},
		{Request{Jobs: math.MaxInt64}, "jobs"},
		{Request{Jobs: 1, Cost: -1}, "cost"},
		{Request{Jobs: 1, Cost: 1001}, "cost"},
		{Request{Jobs: 1, Lane: strings.Repeat("a", 257)}, "lane"},
		{Request{Jobs: 1, Lane: "\xff"}, "lane"},
		{Request{Rate: &slow}, "rate"}, // at a burst of 100 it spans years
	} {
		var field *invalid.Error
		i := quoted(func(i *queue.Info) { i.Spec.Burst = 100 })
		if _, err := tt.ask.Quote(&queue.Lineup{Info: *i}, &queue.LaneInfo{}); !errors.As(err, &field) ||
			field.Field != tt.field {
			t.Errorf("%+v: %v, want %s", tt.ask, err, tt.field)
		}
	}
}
