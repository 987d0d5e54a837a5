package queuetest

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"time"

	form "github.com/penstock/penstock/internal/test/long"
	"github.com/penstock/penstock/queue"
)

func weight(n int64) queue.LaneRule { return queue.LaneRule{Weight: n} }

func weighs(n int64) func(*queue.Spec) { return func(s *queue.Spec) { s.Weight = n } }

// furthest returns how far the departures of a lane are from its share, in the worst window of a length. The lane's
// departures are those with its letter.
func furthest(order string, window int, letter byte, share float64) (worst float64) {
	n := 0
	for i := range len(order) {
		if order[i] == letter {
			n++
		}
		if i >= window && order[i-window] == letter {
			n--
		}
		if i >= window-1 {
			worst = max(worst, math.Abs(float64(n)-share*float64(window)))
		}
	}
	return worst
}

// inProportion fails unless each letter has its share of all windows of 1,000 departures, or half of a shorter order,
// to within 2 departures.
func (r *rig) inProportion(order string, weights map[byte]int64) {
	r.Helper()
	sum := int64(0)
	for _, w := range weights {
		sum += w
	}
	for letter, w := range weights {
		window := min(1000, len(order)/2)
		if off := furthest(order, window, letter, float64(w)/float64(sum)); off > 2 {
			r.Errorf("%c of weight %d is off by %.2f departures in a window of %d", letter, w, off, window)
		}
	}
}

// firstLetters returns the first letters of words.
func firstLetters(words string) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(words) {
		b.WriteByte(word[0])
	}
	return b.String()
}

var weightRules = []rule{
	{"lanes share in proportion to their weights", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(weight(3)), except("a", weight(1)), except("c", weight(10)))
		for _, lane := range []string{"a", "b", "c"} {
			r.appendToLane(q, lane, lane, 2200, 1)
		}
		if i := r.info(q); i.Lanes != 3 || i.LaneWeights != 14 {
			r.Errorf("%d lanes of weight %d", i.Lanes, i.LaneWeights)
		}
		r.inProportion(r.order(q, 2800), map[byte]int64{'a': 1, 'b': 3, 'c': 10})
	}},
	{"so do the members of a group, the parent too", func(r *rig) {
		r.put(groupSpec("p unlimited", weighs(1)))
		r.put(groupSpec("a unlimited", weighs(3)))
		r.put(groupSpec("b unlimited", weighs(10)))
		for _, q := range []string{"p", "a", "b"} {
			r.accept(named(q), numbered(q, 2200)...)
		}
		want := queue.GroupInfo{Children: 2, Weights: 13, Members: 3, Weight: 14, Waiting: 6600, MaxCost: 1}
		if i := r.info("ses"); i.Group != want {
			r.Errorf("%+v, want %+v", i.Group, want)
		}
		r.inProportion(r.order("ses", 2800), map[byte]int64{'p': 1, 'a': 3, 'b': 10})
	}},
	{"costs count by their weights", func(r *rig) {
		q := r.queue("q", "unlimited", except("a", weight(4)))
		r.appendToLane(q, "a", "a", 400, 2)
		r.appendToLane(q, "b", "b", 400, 3)
		order := r.order(q, 330) // 4 x 3 = 12 of a for 2 of b
		if off := furthest(order, 280, 'a', 12.0/14); off > 2 {
			r.Errorf("a is off by %.2f: %s", off, order)
		}
	}},
	{"what a heavy lane does not use, the others get in proportion", func(r *rig) {
		q := r.queue("q", "unlimited", except("a", weight(1000)), except("b", weight(3)))
		r.appendToLane(q, "a", "a", 2, 1)
		r.appendToLane(q, "b", "b", 1200, 1)
		r.appendToLane(q, "c", "c", 1200, 1)
		got := r.order(q, 1402)
		if strings.Count(got[:4], "a") != 2 {
			r.Errorf("the heavy lane began late: %s", got[:40])
		}
		r.inProportion(got[4:], map[byte]int64{'b': 3, 'c': 1})
		if i := r.info(q); i.LaneWeights != 4 {
			r.Errorf("the lanes left weigh %d", i.LaneWeights)
		}
	}},
	{"a lane that waits for its own rate gets that rate, or its share if that is less", func(r *rig) {
		for _, tt := range []struct {
			name   string
			heavy  int64 // weight of lane c
			shares map[byte]int64
		}{
			{"its rate", 1, map[byte]int64{'a': 2, 'b': 4, 'c': 4}}, // of 10: a leaves in each fifth slot
			{"its share", 8, map[byte]int64{'a': 1, 'b': 1, 'c': 8}},
		} {
			q := r.queue("g."+tt.name[4:], "10/s", except("a", laneRate("2/s")), except("c", weight(tt.heavy)))
			for letter, share := range tt.shares {
				r.appendToLane(q, string(letter), string(letter), 20*int(share), 1)
			}
			r.inProportion(firstLetters(r.departureTimes(q, r.clock.Now(), 200)), tt.shares)
		}
	}},
	{"jobs without a lane weigh 1, and an override without a weight too", func(r *rig) {
		q := r.queue("q", "unlimited", everyLane(weight(5)), except("b", laneRate("unlimited")))
		r.fills(q, 3)
		r.appendToLane(q, "b", "b", 3, 1)
		r.appendToLane(q, "a", "a", 9, 1)
		if i := r.info(q); i.LaneWeights != 7 || i.Lanes != 3 {
			r.Errorf("%d lanes of weight %d", i.Lanes, i.LaneWeights)
		}
	}},
	{"a job's estimate knows the weights", func(r *rig) {
		q := r.queue("q", "1/s", except("a", weight(10)))
		r.appendToLane(q, "a", "a", 50, 1)
		r.appendToLane(q, "b", "b", 50, 1)
		t0 := r.clock.Now()
		for _, tt := range []struct {
			lane, id string
			ahead    int
		}{{"a", "a50", 50 + 5}, {"b", "b50", 50 + 51}, {"c", "c1", 11}} { // at most all others leave first
			a := r.acceptJobs(jobOfLane(tt.lane, q, tt.id+"x"))[0]
			if got := instantOf(a.ETA.At).Sub(t0); got != time.Duration(tt.ahead)*time.Second {
				r.Errorf("%s leaves after %v, want %d s", tt.id, got, tt.ahead)
			}
		}
	}},
	{"a new weight holds at once, with jobs waiting", func(r *rig) {
		n := form.Of(3000, 100_000)
		q := r.queue("q", "unlimited", withCapacity(2*int64(n)), except("b", weight(3)))
		for at := 0; at < n; at += 2500 {
			r.appendToLane(q, "a", fmt.Sprint("a", at, "-"), min(2500, n-at), 1)
			r.appendToLane(q, "b", fmt.Sprint("b", at, "-"), min(2500, n-at), 1)
		}
		r.inProportion(r.order(q, 1200), map[byte]int64{'a': 1, 'b': 3})
		r.queue(q, "unlimited", withCapacity(2*int64(n)), except("a", weight(10)))
		if i := r.info(q); i.LaneWeights != 11 {
			r.Errorf("the lanes weigh %d", i.LaneWeights)
		}
		r.inProportion(r.order(q, 1200), map[byte]int64{'a': 10, 'b': 1})
		r.queue(q, "unlimited", withCapacity(2*int64(n)), everyLane(weight(7)))
		r.inProportion(r.order(q, 1200), map[byte]int64{'a': 1, 'b': 1})
	}},
	{"a child's new weight holds at once", func(r *rig) {
		r.group("p unlimited", "a unlimited", "b unlimited")
		r.accept("ses.a", numbered("a", 3000)...)
		r.accept("ses.b", numbered("b", 3000)...)
		r.inProportion(r.order("ses", 1200), map[byte]int64{'a': 1, 'b': 1})
		r.put(groupSpec("b unlimited", weighs(4)))
		want := queue.GroupInfo{Children: 2, Weights: 5, Members: 2, Weight: 5, Waiting: 4800, MaxCost: 1}
		if i := r.info("ses"); i.Group != want {
			r.Errorf("%+v, want %+v", i.Group, want)
		}
		r.inProportion(r.order("ses", 1200), map[byte]int64{'a': 1, 'b': 4})
		r.delete("ses.b")
		if g := r.info("ses").Group; g.Weights != 1 || g.Weight != 1 {
			r.Errorf("%+v", g)
		}
	}},
	{"a pull child shares by its weight, beside drainers and other pull children", func(r *rig) {
		r.family("100/s", 4000, "b")
		r.queue("ses.a", "unlimited", pulled, weighs(3))
		r.queue("ses.c", "unlimited", pulled, weighs(6))
		r.accept("ses.c", numbered("c", 4000)...)
		d, a, c := &asker{}, &asker{pulls: "ses.a"}, &asker{pulls: "ses.c"}
		r.together(20*time.Second, d, a, c)
		r.within("the drainer", d.total(), 200, 6)
		r.within("the lighter pull child", a.total(), 600, 6)
		r.within("the heavier pull child", c.total(), 1200, 6)
	}},
	{"random lanes leave as exact fair queueing says", func(r *rig) {
		rnd := rand.New(rand.NewPCG(33, 5))
		for trace := range form.Of(25, 10_000) {
			r.laneTrace(rnd, fmt.Sprint("q", trace))
		}
	}},
}

// fairLane is a lane of an oracle, which searches all lanes for each departure and computes with fractions.
type fairLane struct {
	key, letter string
	digest      queue.LaneDigest
	weight      int64
	costs       []int64
	tag         *big.Rat
}

func (ln *fairLane) later(from *big.Rat, cost int64) *big.Rat {
	return new(big.Rat).Add(from, big.NewRat(cost, ln.weight))
}

// laneTrace appends jobs to lanes of random weights, and compares their departures with the oracle.
func (r *rig) laneTrace(rnd *rand.Rand, name string) {
	r.Helper()
	exact := []int64{1, 2, 3, 5, 7, 10, 13, 16} // these divide tagUnit
	change, lanes, served := []func(*queue.Spec){}, []*fairLane{}, new(big.Rat)
	for i := range 2 + rnd.IntN(4) {
		letter := string(rune('a' + i))
		ln := &fairLane{key: letter + name, letter: letter, weight: exact[rnd.IntN(len(exact))]}
		ln.digest = queue.DigestLane(ln.key)
		change, lanes = append(change, except(ln.key, weight(ln.weight))), append(lanes, ln)
	}
	q, appended := r.queue(name, "unlimited", change...), 0
	var got, want strings.Builder
	for range 30 {
		if ln := lanes[rnd.IntN(len(lanes))]; rnd.IntN(3) > 0 {
			n, cost := 1+rnd.IntN(8), 1+rnd.Int64N(4)
			r.appendToLane(q, ln.key, fmt.Sprint(ln.letter, appended, "-"), n, cost)
			if appended++; len(ln.costs) == 0 {
				ln.tag = ln.later(served, cost)
			}
			for range n {
				ln.costs = append(ln.costs, cost)
			}
		}
		var first *fairLane
		for _, ln := range lanes {
			if len(ln.costs) == 0 {
				continue
			}
			if first == nil || ln.tag.Cmp(first.tag) < 0 ||
				ln.tag.Cmp(first.tag) == 0 && bytes.Compare(ln.digest[:], first.digest[:]) < 0 {
				first = ln
			}
		}
		if first == nil {
			continue
		}
		want.WriteString(first.letter)
		served, first.tag = first.tag, first.later(first.tag, first.costs[0])
		first.costs = first.costs[1:]
		got.WriteString(r.order(q, 1))
	}
	if got.String() != want.String() {
		r.Errorf("departures of %s:\n got %s\nwant %s", name, got.String(), want.String())
	}
	r.check(r.e.Delete(r.ctx, q, queue.AnyRevision, true))
}
