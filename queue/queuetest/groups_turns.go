package queuetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

// appendMember appends n jobs of a cost to a queue of a group; their ids begin with its letter.
func (r *rig) appendMember(letter string, n int, cost int64) {
	r.Helper()
	r.litters++
	r.appendToLane(named(letter), "", fmt.Sprint(letter, r.litters, "-"), n, cost)
}

var groupTurnRules = []rule{
	{"members take turns, ties by age of the queue", func(r *rig) {
		r.group("b unlimited", "p unlimited", "a unlimited")
		r.appendMember("a", 4, 1)
		r.appendMember("b", 2, 1)
		r.appendMember("p", 3, 1)
		if got := r.order("ses", 9); got != "bpabpapaa" {
			r.Errorf("departed %s, want bpabpapaa", got)
		}
	}},
	{"costs count", func(r *rig) {
		r.group("p unlimited", "a unlimited", "b unlimited")
		r.appendMember("a", 3, 3)
		r.appendMember("b", 12, 1)
		if got := r.order("ses", 15); got != "abbbabbbabbbbbb" {
			r.Errorf("departed %s, want abbbabbbabbbbbb", got)
		}
	}},
	{"a late member waits for one turn at most, and gains nothing by having waited", func(r *rig) {
		r.group("p unlimited", "a unlimited", "b unlimited", "z unlimited")
		r.appendMember("a", 100, 1)
		r.appendMember("b", 100, 1)
		r.order("ses", 80)
		r.appendMember("z", 20, 1)
		got := r.order("ses", 60)
		if first := strings.IndexByte(got, 'z'); first > 2 {
			r.Errorf("z waited for %d departures: %s", first, got)
		}
		if n := strings.Count(got, "z"); n != 20 {
			r.Errorf("z had %d of 60: %s", n, got)
		}
	}},
	{"a member that empties and fills again gains nothing", func(r *rig) {
		r.group("p unlimited", "a unlimited", "b unlimited", "z unlimited")
		r.appendMember("a", 150, 1)
		r.appendMember("b", 150, 1)
		var order strings.Builder
		for range 100 { // z always has exactly one job
			r.appendMember("z", 1, 1)
			order.WriteString(r.order("ses", 1))
			for order.String()[order.Len()-1] != 'z' {
				order.WriteString(r.order("ses", 1))
			}
		}
		if z, all := strings.Count(order.String(), "z"), order.Len(); z != 100 || all < 3*100-2 {
			r.Errorf("z had %d of %d departures: %s", z, all, order.String())
		}
	}},
	{"a slow child gets its turn when its rate allows, and nothing extra", func(r *rig) {
		r.group("p 100/s", "a unlimited", "b unlimited", "z 10/s 4")
		r.appendMember("a", 300, 1)
		r.appendMember("b", 300, 1)
		r.appendMember("z", 30, 1)
		var order strings.Builder
		for range 201 { // 2 s: z is bound by its own rate, after its burst
			order.WriteString(r.order("ses", 1))
			r.clock.Advance(10 * time.Millisecond)
		}
		got := order.String()
		if n := strings.Count(got, "z"); n < 22 || n > 24 {
			r.Errorf("z had %d of %d departures, want its rate of them: %s", n, len(got), got)
		}
		if strings.Contains(got, "zz") {
			r.Errorf("z went twice while others were waiting: %s", got)
		}
		if a, b := strings.Count(got, "a"), strings.Count(got, "b"); a-b > 1 || b-a > 1 {
			r.Errorf("a had %d and b %d", a, b)
		}
	}},
	{"children that are always backlogged share the outflow equally, whatever their jobs cost", func(r *rig) {
		r.group("p unlimited")
		share := map[string]int64{}
		for i := range 20 {
			letter := fmt.Sprint("m", i)
			r.group(letter + " unlimited")
			share[named(letter)] = 0
			r.appendMember(letter, 150, 1+int64(i%4))
		}
		for range 30 {
			for _, v := range r.reserve("ses", 37) { // never settled: there is room for all
				share[v.Queue] += v.Cost
			}
		}
		if j := jain(share); j < 0.99 {
			r.Errorf("Jain's index is %v of %v", j, share)
		}
	}},
	{"turns carry on from one reserve to the next, and across settlements", func(r *rig) {
		r.group("p unlimited", "a unlimited", "b unlimited")
		for _, letter := range []string{"p", "a", "b"} {
			r.appendMember(letter, 4, 1)
		}
		var got strings.Builder
		for i := range 12 {
			v := r.reserveAs(fmt.Sprint("client", i%3), "ses", 1).Jobs[0]
			got.WriteByte(v.ID[0])
			if i%2 == 0 {
				r.deliver(v)
			}
			r.clock.Advance(time.Millisecond)
		}
		if got.String() != "pabpabpabpab" {
			r.Errorf("departed %s", got.String())
		}
	}},
	{"a child with many lanes has no more than a child without", func(r *rig) {
		r.group("p unlimited", "a unlimited", "b unlimited")
		for i := range 20 {
			r.appendToLane("ses.a", fmt.Sprint("lane-", i), fmt.Sprint("a", i, "-"), 3, 1)
		}
		r.appendMember("b", 30, 1)
		if got := r.order("ses", 40); strings.Count(got, "b") != 20 {
			r.Errorf("b had %d of 40: %s", strings.Count(got, "b"), got)
		}
	}},
	{"a visit makes a hundred resting lanes ready over all members, and a hundred more for a changed rule", func(r *rig) {
		const lanes = 60
		group := func(rule string) {
			for _, letter := range []string{"p", "a", "b", "z"} {
				r.put(groupSpec(letter+" unlimited", everyLane(laneRate(rule))))
			}
		}
		visit := func(want int) {
			r.Helper()
			list := r.reserve("ses", queue.MaxReserve)
			r.deliver(list...)
			if len(list) != want {
				r.Errorf("%d departed in a visit, want %d", len(list), want)
			}
		}
		group("1/m")
		for _, letter := range []string{"a", "b", "z"} {
			for i := range lanes {
				r.appendToLane(named(letter), fmt.Sprint("lane-", i), fmt.Sprint(letter, i, "-"), 3, 1)
			}
		}
		visit(3 * lanes) // they were ready
		r.clock.Advance(time.Minute)
		visit(100)
		visit(80)
		visit(0)
		group("1/s")
		r.clock.Advance(time.Second)
		visit(100)
		visit(80)
		visit(0)
	}},
	{"with 100,000 jobs in a lane, other lanes and children are delayed by their turns only", func(r *rig) {
		deep := 100_000
		if testing.Short() {
			deep = 5_000
		}
		const lanes, each = 99, 10
		r.put(groupSpec("p unlimited"))
		r.put(groupSpec("a unlimited", withCapacity(200_000)))
		r.group("b unlimited")
		for i := range deep / 500 {
			r.appendToLane("ses.a", "flood", fmt.Sprint("flood", i, "-"), 500, 1)
		}
		for i := range lanes {
			r.appendToLane("ses.a", fmt.Sprint("small-", i), fmt.Sprint("small", i, "-"), each, 1)
		}
		r.order("ses", 1) // the flood is under way
		r.appendMember("b", 1, 1)
		if got := r.order("ses", 3); !strings.Contains(got, "b") {
			r.Errorf("a sibling's only job was delayed by more than a turn: %s", got)
		}
		order := r.order("ses", (lanes+1)*each*11/10)
		if n := strings.Count(order, "s"); n < lanes*each-3 {
			r.Errorf("%d of %d jobs of small lanes are among the first %d", n, lanes*each, len(order))
		}
		if i := r.info("ses.a"); i.Lanes != 1 || i.Waiting < int64(deep)-200 {
			r.Errorf("%d lanes, %d waiting", i.Lanes, i.Waiting)
		}
		r.check(r.e.Delete(r.ctx, "ses.a", queue.AnyRevision, true))
	}},
}
