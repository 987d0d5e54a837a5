package redisq_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/redisq"
)

// family makes a parent, number 1, and two children.
func (v *env) family(rate leaky.Rate) {
	v.t.Helper()
	v.put("ses", rate, nil)
	v.put("ses.a", leaky.Unlimited, nil)
	v.put("ses.b", leaky.Unlimited, nil)
}

// out delivers what leaves within some time, and counts it by queue.
func (v *env) out(at *leaky.Instant, steps int) map[string]int {
	v.t.Helper()
	seen := map[string]int{}
	for range steps {
		jobs := v.reserve("ses").Jobs
		for _, j := range jobs {
			seen[j.Queue]++
		}
		v.settle(deliver(jobs...)...)
		*at += 3_000_000
	}
	return seen
}

// A member that somebody broke stops none of its siblings, and is where it was when it is mended.
func TestPlantedMemberStopsNoSibling(t *testing.T) {
	broken := map[string]string{"1": "ses", "2": "ses.a"}
	for number, name := range broken {
		for _, key := range []string{"w", "t", "f", "e", "d", "r", "q"} {
			if key+number == "q1" { // then nobody knows the rate
				continue
			}
			t.Run(key+number, func(t *testing.T) {
				v, s, at := manual(t)
				v.family(leaky.PerSecond(1))
				for i := range 3 {
					v.append(job("ses", i), job("ses.a", i), job("ses.b", i))
				}
				undo := plant(t, s, "ps{0}"+key+number)
				seen := v.out(at, 12)
				for _, other := range []string{"ses", "ses.a", "ses.b"} {
					if want := 3; other != name && seen[other] != want {
						t.Errorf("%d left %s while %s was broken, want %d", seen[other], other, name, want)
					}
				}
				undo()
				for name, n := range v.out(at, 12) {
					seen[name] += n
				}
				if seen["ses"] != 3 || seen["ses.a"] != 3 || seen["ses.b"] != 3 {
					t.Errorf("mended: %v left, want 3 of each", seen)
				}
				if g := v.info("ses").Group; g != (queue.GroupInfo{Children: 2, Weights: 2, MaxCost: 1}) {
					t.Errorf("%+v", g)
				}
			})
		}
	}
}

// Nor does one of which somebody wrote what is no number, and what it stops on is given to nobody in vain.
func TestPlantedNumberStopsNoSibling(t *testing.T) {
	for _, field := range []string{
		"n", "d", "burst", "tat", "rem", "last", "lastCost", "lastFence", "capacity", "size", "turn", "maxCost",
		"coveredCost", "lease", "retry.max_attempts", "retention.for", "retention.max", "revision", "finish", "told",
	} {
		for _, value := range []string{"planted", "nan", "inf"} {
			t.Run(field+" "+value, func(t *testing.T) {
				v, s, at := manual(t)
				v.family(leaky.Unlimited)
				v.put("ses.a", leaky.PerSecond(100), nil)
				v.append(job("ses", 0), job("ses.a", 0), job("ses.b", 0), job("ses.b", 1), job("ses.b", 2))
				plantValue(t, s, "ps{0}q2", field, value)
				seen := map[string]int{}
				for range 5 {
					jobs := v.reserve("ses").Jobs
					for i, o := range v.settle(deliver(jobs...)...) {
						if seen[jobs[i].Queue]++; o.Stale || o.Err != nil {
							t.Errorf("%s of %s was never leased: %+v", jobs[i].ID, jobs[i].Queue, o)
						}
					}
					*at += 3_000_000
				}
				if seen["ses"] != 1 || seen["ses.b"] != 3 {
					t.Errorf("%v left", seen)
				}
			})
		}
	}
}

// What is broken of one group stops no other.
func TestPlantedGroupStopsNoOther(t *testing.T) {
	for _, key := range []string{"q1", "R1", "Y1"} {
		t.Run(key, func(t *testing.T) {
			v, s, at := manual(t)
			v.family(leaky.PerSecond(1))
			v.put("sms", leaky.PerSecond(1), nil)
			v.put("sms.a", leaky.Unlimited, nil)
			v.append(job("ses", 1), job("ses.a", 2))
			undo := plant(t, s, "ps{0}"+key)
			v.append(job("sms", 1), job("sms.a", 2))
			if seen := v.out(at, 5); seen["sms"] != 1 || seen["sms.a"] != 1 || len(seen) != 2 {
				t.Errorf("%v left", seen)
			}
			undo()
			v.append(job("ses.b", 3))
			if seen := v.out(at, 5); seen["ses"] != 1 || seen["ses.a"] != 1 || seen["ses.b"] != 1 {
				t.Errorf("mended: %v left", seen)
			}
		})
	}
}

// While a child is broken it gets no parent: it would go round its rate. It can be deleted, and so can the
// child of a parent whose own jobs are broken.
func TestPlantedChildGetsNoParent(t *testing.T) {
	v, s, _ := manual(t)
	v.put("ses.a", leaky.Unlimited, nil)
	undo := plant(t, s, "ps{0}q1")
	if _, err := v.e.Put(v.ctx, queue.Spec{Name: "ses", Rate: leaky.PerSecond(1)}, queue.AnyRevision); err == nil {
		t.Error("a parent was made")
	}
	undo()
	v.put("ses", leaky.PerSecond(1), nil)
	plant(t, s, "ps{0}w2")
	if err := v.e.Delete(v.ctx, "ses.a", queue.AnyRevision, true); err != nil {
		t.Error(err)
	}
	if err := v.e.Delete(v.ctx, "ses", queue.AnyRevision, true); err != nil {
		t.Error(err)
	}
}

// A group that has no children any more leaves nothing behind.
func TestGroupsLeaveNothing(t *testing.T) {
	v, s, at := manual(t)
	v.put("ses", leaky.PerSecond(10), nil)
	v.append(job("ses", 0))
	// What was done to a queue stays recorded when it is gone.
	left := func() []string {
		return slices.DeleteFunc(keys(t, s), func(k string) bool {
			return k == "ps{0}G" || strings.HasPrefix(k, "ps{0}H:") || strings.HasPrefix(k, "ps{0}P:")
		})
	}
	before, fields := left(), fieldsOf(t, s)
	for range 3 {
		v.put("ses.a", leaky.Unlimited, nil)
		v.put("ses.b", leaky.PerSecond(3), nil)
		v.append(job("ses.a", 1), job("ses.b", 2))
		want := queue.GroupInfo{Children: 2, Weights: 2, Members: 3, Weight: 3, Waiting: 3, MaxCost: 1}
		if g := v.info("ses").Group; g != want {
			t.Errorf("%+v", g)
		}
		for _, name := range []string{"ses.a", "ses.b"} {
			if err := v.e.Delete(v.ctx, name, queue.AnyRevision, true); err != nil {
				t.Fatal(err)
			}
		}
		for more := true; more; {
			var err error
			if more, err = v.e.Sweep(v.ctx, 0); err != nil {
				t.Fatal(err)
			}
		}
		if after := left(); strings.Join(after, " ") != strings.Join(before, " ") {
			t.Errorf("keys %v became %v", before, after)
		}
		if after := fieldsOf(t, s); after["also"] != fields["also"] {
			t.Errorf("%v became %v", fields, after)
		}
	}
	if seen := v.out(at, 2); seen["ses"] != 1 {
		t.Errorf("%v left", seen)
	}
}

func fieldsOf(t *testing.T, s *redistest.Server) map[string]string {
	t.Helper()
	fields, err := s.Client().HGetAll(t.Context(), "ps{0}q1").Result()
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// Whatever a restart lost, the parent's law and a child's hold over what was granted before it and after.
func TestWindowLawOfAGroupWhateverWasLost(t *testing.T) {
	t.Parallel()
	for _, p := range persistences {
		t.Run(p.name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(8, 9))
			l := newLossy(t, p)
			child := *l // what it alone started
			put := func() {
				l.put("ses", leaky.PerSecond(10), func(s *queue.Spec) { s.Burst = 2 })
				l.put("ses.a", leaky.Unlimited, nil)
				l.put("ses.b", leaky.PerSecond(4), nil)
			}
			put()
			costs := int64(1)
			work := func(steps int) {
				for range steps {
					for range rnd.IntN(4) {
						l.add([]string{"ses", "ses.a", "ses.b"}[rnd.IntN(3)], 1+rnd.Int64N(costs)*rnd.Int64N(2))
					}
					for _, j := range l.reserve("ses").Jobs {
						s := deliver(j)[0]
						if rnd.IntN(10) == 0 {
							s.Verdict = queue.Release // and it does not start
						} else {
							l.start(j)
							if child.at = l.at; j.Queue == "ses.b" {
								child.start(j)
							}
						}
						if rnd.IntN(2) == 0 {
							l.settle(s)
						}
					}
					l.at += leaky.Instant(rnd.Int64N(150_000))
				}
			}
			lost := 0
			for round := range int64(8) {
				work(20)
				l.keep()
				kept := len(l.starts)
				costs = min(1+round, 4)
				work(5 + rnd.IntN(20))
				lost += len(l.starts) - kept
				l.lose(rnd)
				put()
				l.at += leaky.Instant(rnd.IntN(1000))
			}
			work(100)
			if lost < 8 || len(child.starts) < 20 {
				t.Errorf("only %d grants were lost, %d were of the child", lost, len(child.starts))
			}
			l.judge(leaky.PerSecond(10), 2)
			child.judge(leaky.PerSecond(4), 1)
		})
	}
}

// A parent's costliest job may have been a child's, and be lost.
func TestHoldOfAParentWhateverWasLost(t *testing.T) {
	p := persistences[0]
	p.cut = func(*lossy, *rand.Rand) {}
	l := newLossy(t, p)
	l.family(leaky.PerSecond(1))
	l.add("ses.a", 1)
	l.wait("ses", 1)
	l.keep()
	l.at += 10_000_000
	l.add("ses.a", 5)
	l.add("ses.b", 5)
	l.wait("ses", 2)
	l.lose(nil)
	l.add("ses.b", 1)
	l.wait("ses", 1) // under a hold that knows of no cost but 1
	l.add("ses.a", 5)
	l.add("ses", 2)
	l.wait("ses", 2)
	l.judge(leaky.PerSecond(1), 1)
}

// A thousand children, made before their parent or after it, come out in one round of turns; and a group lies on
// one node of a cluster.
func TestManyChildren(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, redistest.ClusterOptions{})
	at := epoch
	v := open(t, c.Client(), redisq.Options{Init: true, Partitions: 4, Now: func() leaky.Instant { return at }})
	var list []string
	add := func(n int) {
		for range n {
			list = append(list, "ses."+strconv.Itoa(len(list)))
			v.put(list[len(list)-1], leaky.Unlimited, nil)
		}
	}
	add(queue.MaxChildren / 2)
	var jobs []queue.Job
	for i, name := range list {
		jobs = append(jobs, job(name, i))
	}
	v.append(jobs...)
	v.put("ses", leaky.Unlimited, nil)
	add(queue.MaxChildren / 2)
	if _, err := v.e.Put(v.ctx, queue.Spec{Name: "ses.more", Rate: leaky.Unlimited}, queue.AnyRevision); !isField(err,
		"name") {
		t.Errorf("one more: %v", err)
	}
	jobs = nil
	for i, name := range list {
		for k := range 2 {
			jobs = append(jobs, job(name, 1000*(k+1)+i))
		}
	}
	v.append(jobs...)
	if g, want := v.info("ses").Group, int64(2500); g.Waiting != want || g.Members != queue.MaxChildren ||
		g.Children != queue.MaxChildren {
		t.Errorf("%+v", g)
	}
	seen := map[string]int{}
	for n := 0; n < queue.MaxChildren; {
		r := v.reserve("ses")
		for _, j := range r.Jobs {
			seen[j.Queue]++
		}
		n += len(r.Jobs)
		v.settle(deliver(r.Jobs...)...)
	}
	if len(seen) != queue.MaxChildren {
		t.Errorf("%d jobs are of %d children", queue.MaxChildren, len(seen))
	}
	for _, name := range list {
		if err := v.e.Delete(v.ctx, name, queue.AnyRevision, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.e.Delete(v.ctx, "ses", queue.AnyRevision, false); err != nil {
		t.Error(err)
	}
}

func isField(err error, field string) bool {
	var f *invalid.Error
	return errors.As(err, &f) && f.Field == field
}
