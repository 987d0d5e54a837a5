package redisq_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// After a restart a job costlier than any before may have to wait longer. If it
// would depart after it has expired, it does not.
func TestExpiryUnderTheHold(t *testing.T) {
	for _, c := range []struct {
		name    string
		expires time.Duration // after it is looked at
		state   queue.State
	}{
		{"in time", 45 * time.Millisecond, queue.Leased},
		{"too late because of its cost", 25 * time.Millisecond, queue.Expired},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, at, _ := restarted(t)
			v.put("email", leaky.PerSecond(1000), nil)
			v.reserve("email") // puts the hold on
			*at += 10_000_000
			v.drain("email", 1)
			j := job("email", 3)
			j.Cost, j.ExpiresAt = 30, at.Time().Add(c.expires)
			v.append(j)
			v.reserve("email")
			if i, err := v.e.Job(v.ctx, "email", j.ID); err != nil || i.State != c.state {
				t.Errorf("%v, %v; want %v", i.State, err, c.state)
			}
		})
	}
}

// soon is a job that expires in a second.
func soon(at *leaky.Instant, name string, i int) queue.Job {
	j := job(name, i)
	j.ExpiresAt = at.Add(time.Second).Time()
	return j
}

// Whatever becomes of jobs that expire, and of their queue, nothing is kept of when they would.
func TestNothingIsLeftOfDeadlines(t *testing.T) {
	v, s, at := manual(t)
	v.put("email", leaky.Unlimited, func(s *queue.Spec) { s.Retry.MaxAttempts = 2 })
	v.put("other", leaky.Unlimited, nil)
	if err := v.e.Pause(v.ctx, "other", queue.Pause{}); err != nil {
		t.Fatal(err)
	}
	left := func(want string) {
		t.Helper()
		got := []string{}
		for _, key := range []string{"T", "T1", "T2"} {
			if s.Client().Exists(v.ctx, "ps{0}"+key).Val() > 0 {
				got = append(got, key)
			}
		}
		first := keptNumber(t, s, "ps{0}", "firstExpiry")
		if strings.Join(got, " ") != want || (want == "") != (first == 0) {
			t.Errorf("%v, the first at %d; want %s", got, first, want)
		}
	}
	v.append(soon(at, "email", 1), soon(at, "email", 2), soon(at, "email", 3), soon(at, "email", 4))
	left("T T1")
	jobs := v.reserve("email").Jobs
	left("")
	release, fail := deliver(jobs[1])[0], deliver(jobs[2])[0]
	release.Verdict, fail.Verdict, fail.After = queue.Release, queue.Fail, time.Hour
	v.settle(deliver(jobs[0])[0], release, fail)
	left("T T1")
	*at += 1_000_000
	v.reserve("email")
	left("")
	*at += 60_000_000 // the last one's lease runs out, and it ends at once
	v.reserve("email")
	left("")
	if i := v.info("email"); i.TimedOut != 3 || i.Delivered != 1 || i.Size() != 0 {
		t.Errorf("%+v", i)
	}
	v.append(soon(at, "other", 5), soon(at, "email", 6))
	left("T T1 T2")
	if err := v.e.Delete(v.ctx, "other", queue.AnyRevision, true); err != nil {
		t.Fatal(err)
	}
	left("T T1 T2") // what the queue had is the sweeper's
	for more := true; more; {
		var err error
		if more, err = v.e.Sweep(v.ctx, 0); err != nil {
			t.Fatal(err)
		}
	}
	left("T T1")
	if _, err := v.e.Cancel(v.ctx, "email", "job-0006"); err != nil {
		t.Fatal(err)
	}
	left("")
}

// While a key is not ours that has to do with jobs that expire nothing else stands still, and when
// it is put right they end, once.
func TestPlantedAmongJobsThatExpired(t *testing.T) {
	for _, key := range []string{"T1", "w1", "t1", digestKey("w1:", "lane-0001")[len("ps{0}"):], "q1 expired"} {
		t.Run(key, func(t *testing.T) {
			v, s, at := manual(t)
			v.put("email", leaky.Unlimited, nil)
			v.put("other", leaky.Unlimited, nil)
			keyed := inLane("email", 2, 1)
			keyed.ExpiresAt = at.Add(time.Second).Time()
			if err := v.e.Pause(v.ctx, "email", queue.Pause{}); err != nil {
				t.Fatal(err)
			}
			v.append(soon(at, "email", 1), keyed, job("email", 3), soon(at, "other", 4))
			undo := func() { s.Client().HDel(v.ctx, "ps{0}q1", "expired") }
			if name, field, isField := strings.Cut(key, " "); isField {
				s.Client().HSet(v.ctx, "ps{0}"+name, field, "planted")
			} else {
				undo = plant(t, s, "ps{0}"+key)
			}
			v.reserve("other")
			for i := range 5 {
				*at += 1_000_000
				if a := v.append(job("other", 10+i)); a[0].Outcome != queue.Accepted {
					t.Fatalf("%+v", a)
				}
				if got := v.reserve("other").Jobs; len(got) != 1 {
					t.Fatalf("granted %d", len(got))
				}
			}
			undo()
			*at += 2_000_000
			v.reserve("email")
			if i := v.info("email"); i.TimedOut != 2 || i.Waiting != 1 || i.Size() != 1 || i.Lanes != 1 {
				t.Errorf("%+v", i)
			}
			if n, err := v.e.Totals(v.ctx); err != nil || n.Waiting != 1 || n.Scheduled != 0 {
				t.Errorf("%+v, %v", n, err)
			}
		})
	}
}

// One whose record somebody else removed stands in nobody's way; its place is free when it is its turn.
func TestExpiredJobThatIsGone(t *testing.T) {
	v, s, at := manual(t)
	v.put("email", leaky.Unlimited, nil)
	if err := v.e.Pause(v.ctx, "email", queue.Pause{}); err != nil {
		t.Fatal(err)
	}
	v.append(soon(at, "email", 1), soon(at, "email", 2))
	s.Client().Del(v.ctx, "ps{0}j1:job-0001")
	*at += 1_000_000
	if r := v.reserve("email"); r.Next != 2*time.Second {
		t.Errorf("told %v", r.Next)
	}
	if i := v.info("email"); i.TimedOut != 1 || i.Size() != 1 {
		t.Errorf("%+v", i)
	}
	if err := v.e.Resume(v.ctx, "email"); err != nil {
		t.Fatal(err)
	}
	v.reserve("email")
	if i := v.info("email"); i.Size() != 0 {
		t.Errorf("%+v", i)
	}
}
