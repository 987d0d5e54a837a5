package queuetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/queue"
)

// appendToLane appends n jobs of a cost to a lane; their ids begin with a prefix.
func (r *rig) appendToLane(queueName, lane, prefix string, n int, cost int64) {
	r.Helper()
	list := jobsOfLane(lane, queueName, numbered(prefix, n)...)
	for i := range list {
		list[i].Cost = cost
	}
	r.acceptJobs(list...)
}

// sameDepartures compares departures, as departureTimes or order formats them.
func (r *rig) sameDepartures(got, want string) {
	r.Helper()
	if got != want {
		r.Errorf("departures:\n got %s\nwant %s", got, want)
	}
}

// order grants and delivers n jobs and returns the first letters of their ids.
func (r *rig) order(queueName string, n int) string {
	r.Helper()
	var b strings.Builder
	for b.Len() < n {
		got := r.reserve(queueName, min(n-b.Len(), queue.MaxReserve))
		if len(got) == 0 {
			r.Fatalf("only %d departed: %s", b.Len(), b.String())
		}
		for _, v := range got {
			b.WriteByte(v.ID[0])
		}
		r.deliver(got...)
	}
	return b.String()
}

// jain returns Jain's index of fairness: 1 when all shares are equal.
func jain(share map[string]int64) float64 {
	var sum, squares float64
	for _, v := range share {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	return sum * sum / (float64(len(share)) * squares)
}

var laneTurnRules = []rule{
	{"lanes take turns, ties by digest", func(r *rig) {
		k := keys(3)
		q := r.queue("q", "unlimited")
		r.appendToLane(q, k[2], "z", 2, 1)
		r.appendToLane(q, k[0], "x", 4, 1)
		r.appendToLane(q, k[1], "y", 3, 1)
		r.sameDepartures(r.order(q, 9), "xyzxyzxyx")
	}},
	{"the lane without a key takes its turn like any other", func(r *rig) {
		k := keys(2)
		q := r.queue("q", "unlimited")
		r.appendToLane(q, "", "k", 6, 1)
		if got := r.order(q, 2); got != "kk" {
			r.Errorf("departed %s", got)
		}
		r.appendToLane(q, k[1], "y", 3, 1)
		r.appendToLane(q, k[0], "x", 2, 1)
		r.sameDepartures(r.order(q, 9), "kxykxykyk")
		r.appendToLane(q, "", "l", 3, 1) // alone again
		if got := r.order(q, 1); got != "l" {
			r.Errorf("departed %s", got)
		}
		r.appendToLane(q, k[0], "p", 2, 1)
		r.sameDepartures(r.order(q, 4), "lplp")
	}},
	{"costs count", func(r *rig) {
		k := keys(2)
		q := r.queue("q", "unlimited")
		r.appendToLane(q, k[0], "x", 3, 3)
		r.appendToLane(q, k[1], "y", 12, 1)
		r.sameDepartures(r.order(q, 15), "yyxyyyxyyyxyyyy")
	}},
	{"a lane that empties and fills again gains nothing", func(r *rig) {
		k := keys(3)
		q := r.queue("q", "unlimited")
		r.appendToLane(q, k[1], "y", 100, 1)
		r.appendToLane(q, k[2], "z", 100, 1)
		var order strings.Builder
		for i := range 100 { // x always has exactly one job
			if j := r.append(jobOfLane(k[0], q, fmt.Sprint("x", i)))[0]; j.Outcome != queue.Accepted {
				r.Fatalf("%+v", j)
			}
			order.WriteString(r.order(q, 1))
			for order.String()[order.Len()-1] != 'x' {
				order.WriteString(r.order(q, 1))
			}
		}
		if x, all := strings.Count(order.String(), "x"), order.Len(); x != 100 || all < 3*100-2 {
			r.Errorf("x had %d of %d departures: %s", x, all, order.String())
		}
	}},
	{"a late lane waits for one turn of each other lane, and gains nothing by having waited", func(r *rig) {
		k := keys(4)
		q := r.queue("q", "unlimited")
		for i, prefix := range []string{"a", "b", "c"} {
			r.appendToLane(q, k[i], prefix, 50, 1)
		}
		r.order(q, 60)
		r.appendToLane(q, k[3], "z", 20, 1)
		got := r.order(q, 40)
		if first := strings.IndexByte(got, 'z'); first > 3 {
			r.Errorf("z waited for %d departures: %s", first, got)
		}
		if n := strings.Count(got, "z"); n < 9 || n > 11 {
			r.Errorf("z had %d of 40: %s", n, got)
		}
	}},
	{"a deep lane does not hold up small lanes", func(r *rig) {
		q := r.queue("q", "unlimited")
		for i := range 4 {
			r.appendToLane(q, "flood", fmt.Sprint("flood", i), 500, 1)
		}
		for i := range 99 {
			r.appendToLane(q, fmt.Sprint("small-", i), fmt.Sprint("small", i, "-"), 10, 1)
		}
		order := r.order(q, 1100) // 1.1 x (99 + 1) x 10
		if n := strings.Count(order, "s"); n != 990 {
			r.Errorf("%d of 990 jobs of small lanes are among the first 1100", n)
		}
		if i := r.info(q); i.Lanes != 1 || i.Waiting != 2000+990-1100 {
			r.Errorf("%d lanes, %d waiting", i.Lanes, i.Waiting)
		}
	}},
	{"lanes that are always backlogged share the outflow equally, whatever their jobs cost", func(r *rig) {
		q := r.queue("q", "unlimited")
		cost, share := map[string]int64{}, map[string]int64{}
		for i := range 20 {
			lane := fmt.Sprint("lane-", i)
			cost[lane], share[lane] = 1+int64(i%4), 0
			r.appendToLane(q, lane, fmt.Sprint(lane, "-"), 150, cost[lane])
		}
		for range 30 {
			for _, v := range r.reserve(q, 37) {
				share[v.Lane] += v.Cost
				r.deliver(v)
			}
		}
		if j := jain(share); j < 0.99 {
			r.Errorf("Jain's index is %v of %v", j, share)
		}
	}},
	{"turns carry on from one reserve to the next, and across settlements", func(r *rig) {
		k := keys(3)
		q := r.queue("q", "unlimited")
		for i, prefix := range []string{"x", "y", "z"} {
			r.appendToLane(q, k[i], prefix, 4, 1)
		}
		var got strings.Builder
		for i := range 12 {
			v := r.reserveAs(fmt.Sprint("client", i%3), q, 1).Jobs[0]
			got.WriteByte(v.ID[0])
			if i%2 == 0 {
				r.deliver(v)
			}
			r.clock.Advance(time.Millisecond)
		}
		if got.String() != "xyzxyzxyzxyz" {
			r.Errorf("departed %s", got.String())
		}
	}},
	{"the queue keeps its pace with any lanes", func(r *rig) {
		s := spec("q", "14/s", func(s *queue.Spec) { s.Burst = 3 })
		r.put(s)
		for i := range 12 {
			r.appendToLane(s.Name, fmt.Sprint("lane-", i%11), fmt.Sprint("j", i, "-"), 10, 1+int64(i%3))
		}
		r.follow(mirrorOf(s), s.Name, 120)
		if i := r.info(s.Name); i.Lost != 0 {
			r.Errorf("%d slots lost", i.Lost)
		}
	}},
}

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
		r.sameDepartures(r.order("ses", 9), "bpabpapaa")
	}},
	{"costs count", func(r *rig) {
		r.group("p unlimited", "a unlimited", "b unlimited")
		r.appendMember("a", 3, 3)
		r.appendMember("b", 12, 1)
		r.sameDepartures(r.order("ses", 15), "abbbabbbabbbbbb")
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
