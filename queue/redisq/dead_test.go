package redisq_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// bury makes jobs dead.
func (v *env) bury(name string, ids ...int) {
	v.t.Helper()
	for _, i := range ids {
		v.append(job(name, i))
	}
	var out []queue.Settlement
	for _, s := range deliver(v.reserve(name).Jobs...) {
		s.Verdict, s.Reason = queue.Bury, "no"
		out = append(out, s)
	}
	if len(out) != len(ids) {
		v.t.Fatalf("%d of %d were granted", len(out), len(ids))
	}
	v.settle(out...)
}

// Whatever happens to a script between a client and Redis, it is carried out once and
// answered for.
func TestKeeperLostReply(t *testing.T) {
	v, proxy := proxied(t, false)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			v.t = t
			name := map[string]string{
				"reply swallowed": "swallowed", "command lost": "lost",
				"three replies swallowed": "thrice", "reply late by 150 ms": "late",
			}[f.name]
			v.put(name, leaky.Unlimited, nil)
			v.bury(name, 1, 2, 3)
			f.inject(proxy, faultproxy.Script("job-0001"))
			if out, err := v.e.Replay(v.ctx, name, []string{"job-0001", "job-0009", "job-0002"}); err != nil ||
				fmt.Sprint(out) != "[replayed not_dead replayed]" {
				t.Errorf("replay: %v, %v", out, err)
			}
			proxy.Clear()
			f.inject(proxy, faultproxy.Script("job-0003"))
			if out, err := v.e.Forget(v.ctx, name, []string{"job-0003", "job-0009"}); err != nil ||
				fmt.Sprint(out) != "[true false]" {
				t.Errorf("forget: %v, %v", out, err)
			}
			proxy.Clear()
			v.append(job(name, 4))
			f.inject(proxy, faultproxy.Script(name))
			p, err := v.e.Purge(v.ctx, queue.PurgeRequest{Queue: name, State: queue.Waiting, Limit: 2})
			if err != nil || p.Jobs != 2 || p.Next == "" {
				t.Errorf("purge: %+v, %v", p, err)
			}
			proxy.Clear()
			if i := v.info(name); i.Waiting != 1 || i.Cancelled != 2 || i.Replayed != 2 || i.Dead != 0 {
				t.Errorf("%+v", i)
			}
			v.drain(name, 1)
		})
	}
}

// What somebody else put into a dead job's place is left alone, and the others are dealt with.
func TestPlantedDeadJob(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
	v.put("email", leaky.Unlimited, nil)
	v.bury("email", 1, 2, 3, 4)
	plant(t, s, "ps{0}j1:job-0001")
	kept := s.Client().Get(v.ctx, "ps{0}j1:job-0002").Val() // its fingerprint stands twice
	s.Client().SetRange(v.ctx, "ps{0}j1:job-0002", int64(strings.LastIndex(kept, kept[16:24])), "xxxxxxxxx")
	s.Client().Del(v.ctx, "ps{0}j1:job-0003")
	ids := []string{"job-0001", "job-0002", "job-0003", "job-0004"}
	l, err := v.e.ListJobs(v.ctx, queue.ListRequest{Queue: "email", State: queue.Dead, Limit: 10})
	if err != nil || len(l.Jobs) != 2 {
		t.Errorf("listed %+v, %v", l, err)
	}
	if out, err := v.e.Replay(v.ctx, "email", ids); err != nil ||
		fmt.Sprint(out) != "[broken broken not_dead replayed]" {
		t.Errorf("replay: %v, %v", out, err)
	}
	if out, err := v.e.Forget(v.ctx, "email", ids); err != nil || fmt.Sprint(out) != "[false true false false]" {
		t.Errorf("forget: %v, %v", out, err)
	}
	if i := v.info("email"); i.Waiting != 1 || i.Replayed != 1 {
		t.Errorf("%+v", i)
	}
}

// While a key of a queue is not ours, nothing of it is listed, purged or replayed.
func TestKeeperOfABrokenQueue(t *testing.T) {
	for _, key := range []string{"w1", "t1", "f1", "u1", "h1", "L1"} {
		s := redistest.New(t, redistest.Options{})
		v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
		v.put("email", leaky.Unlimited, nil)
		v.bury("email", 1, 2)
		laned := job("email", 3)
		laned.Lane = "x"
		v.append(laned, job("email", 4))
		undo := plant(t, s, "ps{0}"+key)
		_, err1 := v.e.ListJobs(v.ctx, queue.ListRequest{Queue: "email", State: queue.Waiting, Limit: 10})
		_, err2 := v.e.Purge(v.ctx, queue.PurgeRequest{Queue: "email", State: queue.Waiting, Limit: 10})
		_, err3 := v.e.Replay(v.ctx, "email", []string{"job-0001"})
		for _, err := range []error{err1, err2, err3} {
			if !errors.Is(err, queue.ErrCorrupt) {
				t.Errorf("%s: %v", key, err)
			}
		}
		undo()
		if i := v.info("email"); i.Waiting != 2 || i.Dead != 2 || i.Cancelled != 0 || i.Lanes != 2 {
			t.Errorf("%s: put right: %+v", key, i)
		}
	}
}

// A call of a purge takes a bounded time however many there are.
func BenchmarkPurge(b *testing.B) {
	s := redistest.New(b, redistest.Options{})
	v := open(b, s.Client(), redisq.Options{Init: true, Partitions: 1})
	v.put("email", leaky.Unlimited, func(s *queue.Spec) { s.Capacity = 1_000_000 })
	for b.Loop() {
		b.StopTimer()
		var list []queue.Job
		for i := range 500 {
			j := job("email", i)
			j.ID = fmt.Sprint(j.ID, "-", b.N, "-", time.Now().UnixNano())
			j.Lane = fmt.Sprint("lane-", i%250)
			list = append(list, j)
		}
		v.append(list...)
		b.StartTimer()
		if p, err := v.e.Purge(v.ctx, queue.PurgeRequest{
			Queue: "email", State: queue.Waiting,
			Limit: 500,
		}); err != nil || p.Jobs == 0 {
			b.Fatal(p, err)
		}
	}
}

// A queue whose keys are not ours does not hide the jobs of others from a search, and its broken jobs are left out.
func TestFindBesideABrokenQueue(t *testing.T) {
	for _, key := range []string{"w1", "t1", "e1", "q1", "K1", "j1:job-0001", "d:broken", "f1"} {
		s := redistest.New(t, redistest.Options{})
		v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
		for _, name := range []string{"broken", "email"} {
			v.put(name, leaky.Unlimited, nil)
		}
		v.bury("broken", 2)
		v.append(job("broken", 1), job("email", 1), job("email", 3))
		plant(t, s, "ps{0}"+key)
		for _, req := range []queue.FindRequest{
			{ID: "job-0003"}, {ID: "job-0003", Prefix: true}, {ID: "job-00", Prefix: true},
		} {
			req.Limit = 10
			found, err := v.e.FindJobs(v.ctx, req)
			if err != nil || found.Next != "" || !slices.ContainsFunc(found.Jobs, func(j queue.JobInfo) bool {
				return j.Queue == "email" && j.ID == "job-0003"
			}) {
				t.Errorf("%s: find %+v: %+v, %v", key, req, found, err)
			}
		}
	}
}
