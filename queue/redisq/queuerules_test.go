package redisq_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// windowRule lets through so much by a header, in a window that does not end during a test.
func windowRule(name string, limit int64, action string) rules.Rule {
	return rules.Rule{
		Name: name, Algorithm: leaky.AlgorithmFixedWindow,
		Bound: rules.Bound{Limit: limit, Period: unit.Duration(leaky.MaxPeriod)}, Key: "{header.to}", Action: action,
	}
}

func (v *env) rule(r rules.Rule) {
	v.t.Helper()
	if _, err := v.e.PutRule(v.ctx, r, queue.AnyRevision); err != nil {
		v.t.Fatal(err)
	}
}

func jobTo(queueName string, i int, to string) queue.Job {
	j := job(queueName, i)
	j.Headers = map[string]string{"To": to}
	return j
}

// Jobs of one call that ask about the same key are counted together, although the first of the call cannot be asked.
func TestKeysAreSharedBehindAJobThatCannotBeAsked(t *testing.T) {
	v, _, _ := manual(t)
	v.rule(windowRule("mail.user", 1, ""))
	v.put("mail", leaky.PerSecond(100), func(s *queue.Spec) { s.Rules = []string{"mail.user"} })
	v.append(jobTo("mail", 0, "bob")) // so that the rule is known here
	got := v.append(job("mail", 1), jobTo("mail", 2, "ann"), jobTo("mail", 3, "ann"))
	for i, want := range []queue.AppendOutcome{queue.Invalid, queue.Accepted, queue.LimitReached} {
		if got[i].Outcome != want {
			t.Errorf("job %d: %+v, want %v", i, got[i], want)
		}
	}
}

// What one process knows of rules is never what decides: another changes them, and the next append goes by that.
func TestAppendAsksRulesAsTheyAre(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	at := leaky.Instant(1_700_000_000_000_000)
	options := redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return at }}
	v, other := open(t, s.Client(), options), open(t, s.Client(), options)
	other.rule(windowRule("mail.user", 2, ""))
	other.rule(windowRule("mail.shadow", 1, rules.Shadow))
	other.put("mail", leaky.PerSecond(100), func(s *queue.Spec) { s.Rules = []string{"mail.user"} })
	other.put("mail.otp", leaky.PerSecond(100), func(s *queue.Spec) { s.Rules = []string{"mail.shadow", "mail.user"} })
	n := 0
	bring := func(want queue.AppendOutcome, to string) queue.Appended {
		t.Helper()
		n++
		a := v.append(jobTo("mail.otp", n, to))[0]
		if a.Outcome != want {
			t.Fatalf("job %d to %s: %+v, want %v", n, to, a, want)
		}
		return a
	}
	a := bring(queue.Accepted, "ann")
	if len(a.Rules) != 2 || a.Rules[0].Rule != "mail.user" || a.Rules[0].Remaining != 1 || !a.Rules[1].Shadow ||
		a.Rules[1].Remaining != 0 {
		t.Errorf("said %+v", a.Rules)
	}
	bring(queue.Accepted, "ann")
	if a = bring(queue.LimitReached, "ann"); a.RetryAfter <= 0 || len(a.Rules) != 2 || a.Rules[0].Allowed {
		t.Errorf("refused %+v", a)
	}
	bring(queue.Accepted, "bob")
	other.rule(windowRule("mail.user", 3, ""))
	bring(queue.Accepted, "ann")
	bring(queue.LimitReached, "ann")
	if err := other.e.ResetRule(v.ctx, "mail.user"); err != nil {
		t.Fatal(err)
	}
	bring(queue.Accepted, "ann")
	other.put("mail", leaky.PerSecond(100), nil)
	other.put("mail.otp", leaky.PerSecond(100), nil)
	for range 5 {
		if a := bring(queue.Accepted, "ann"); a.Rules != nil {
			t.Errorf("asked %+v", a.Rules)
		}
	}
	other.put("mail", leaky.PerSecond(100), func(s *queue.Spec) { s.Rules = []string{"mail.user"} })
	bring(queue.Accepted, "ann")
	bring(queue.Accepted, "ann")
	bring(queue.LimitReached, "ann")
	a = v.append(job("mail.otp", 1000))[0]
	var field *invalid.Error
	if a.Outcome != queue.Invalid || !errors.As(a.Err, &field) || field.Field != "headers.to" {
		t.Errorf("without the header: %+v", a)
	}
	if i := v.info("mail.otp"); i.Refused != 3 {
		t.Errorf("%d refused, want 3", i.Refused)
	}
}

// All or nothing among several rules and the queue, in one call of many jobs.
func TestAppendChargesAllOrNothing(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	at := leaky.Instant(1_700_000_000_000_000)
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1, Now: func() leaky.Instant { return at }})
	v.rule(windowRule("q.a", 5, ""))
	log := rules.Rule{
		Name: "q.b", Algorithm: leaky.AlgorithmSlidingLog,
		Bound: rules.Bound{Limit: 3, Period: unit.Duration(time.Minute)},
	}
	v.rule(log)
	v.put("q", leaky.PerSecond(1), func(s *queue.Spec) { s.Rules = []string{"q.a", "q.b"}; s.Capacity = 5 })
	left := func(a, b int64) {
		t.Helper()
		for rule, want := range map[string]int64{"q.a": a, "q.b": b} {
			key := "ann"
			if rule == "q.b" {
				key = ""
			}
			got, err := v.e.Take(v.ctx, rule, []rules.Take{{Op: rules.TakePeek, Key: key}})
			if err != nil || got[0].Err != nil {
				t.Fatal(err, got)
			}
			if has := got[0].Remaining + map[bool]int64{true: 1}[got[0].Allowed]; has != want {
				t.Errorf("%s has %d left, want %d", rule, has, want)
			}
		}
	}
	var jobs []queue.Job
	for i := range 10 {
		jobs = append(jobs, jobTo("q", i, "ann"))
	}
	count := func(a []queue.Appended) map[queue.AppendOutcome]int {
		m := map[queue.AppendOutcome]int{}
		for _, x := range a {
			m[x.Outcome]++
		}
		return m
	}
	if m := count(v.append(jobs...)); m[queue.Accepted] != 3 || m[queue.LimitReached] != 7 {
		t.Errorf("%v", m)
	}
	left(2, 0)
	if m := count(v.append(jobs...)); m[queue.Duplicate] != 3 || m[queue.LimitReached] != 7 {
		t.Errorf("again %v", m)
	}
	left(2, 0)
	log.Limit = 100
	v.rule(log)
	left(2, 97)
	v.put("q", leaky.PerSecond(1), func(s *queue.Spec) { s.Rules = []string{"q.a", "q.b"}; s.Capacity = 4 })
	a := v.append(jobs[3:]...)
	if m := count(a); m[queue.Accepted] != 1 || m[queue.Full] != 6 {
		t.Errorf("nearly full %v", m)
	}
	if len(a[6].Rules) != 2 || !a[6].Rules[0].Allowed {
		t.Errorf("full, said %+v", a[6].Rules)
	}
	left(1, 96)
}

// Of rules that say defer a job is put aside, and charged nothing.
func TestOfferPutsAsideWhatRulesDefer(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
	v.rule(windowRule("q.a", 1, rules.Defer))
	v.put("q", leaky.PerSecond(1), func(s *queue.Spec) { s.Rules = []string{"q.a"}; s.Deferred.MaxJobs = 2 })
	var jobs []queue.Job
	for i := range 5 {
		jobs = append(jobs, jobTo("q", i, "ann"))
	}
	jobs[1].Overflow = queue.Reject
	a, err := v.e.Offer(v.ctx, jobs)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []queue.AppendOutcome{
		queue.Accepted, queue.LimitReached, queue.SetAside, queue.SetAside,
		queue.OverflowFull,
	} {
		if a[i].Outcome != want || len(a[i].Rules) != 1 {
			t.Errorf("job %d: %+v, want %v", i, a[i], want)
		}
	}
	if a := v.append(jobTo("q", 10, "ann")); a[0].Outcome != queue.LimitReached {
		t.Errorf("appended: %+v", a[0])
	}
}

// A batch of many callers who know the rules of different revisions.
func TestManyAppendUnderRules(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v := open(t, s.Client(), redisq.Options{Init: true})
	log := rules.Rule{
		Name: "q.a", Algorithm: leaky.AlgorithmSlidingLog,
		Bound: rules.Bound{Limit: 100, Period: unit.Duration(time.Hour)},
	}
	v.rule(log)
	v.put("q", leaky.PerSecond(1), func(s *queue.Spec) { s.Rules = []string{"q.a"} })
	accepted := make(chan int, 64)
	for c := range 64 {
		go func() {
			n := 0
			for i := range 10 {
				j := jobTo("q", 1000*c+i, "ann")
				a, err := v.e.Append(v.ctx, []queue.Job{j})
				if err != nil {
					t.Error(err)
				}
				if a[0].Outcome == queue.Accepted {
					n++
				} else if a[0].Outcome != queue.LimitReached {
					t.Errorf("%+v", a[0])
				}
				if c == 0 {
					r := log
					r.Away = []string{rules.AwayOpen, rules.AwayClosed}[i%2]
					v.rule(r)
				}
			}
			accepted <- n
		}()
	}
	all := 0
	for range 64 {
		all += <-accepted
	}
	if all != 100 {
		t.Errorf("%d accepted, want 100", all)
	}
}

// A server that loses its last writes gives the same numbers again. Who knows the rule that was lost must not take the
// next one for it.
func TestARuleThatWasLostIsNotTheNextOne(t *testing.T) {
	c := redistest.New(t, redistest.Options{}).Client()
	v := open(t, c, redisq.Options{Init: true, Partitions: 1})
	v.rule(windowRule("mail.user", 100, ""))
	v.put("mail", leaky.PerSecond(100), func(s *queue.Spec) { s.Rules = []string{"mail.user"} })
	kept := map[string]string{}
	for _, key := range c.Keys(v.ctx, "*").Val() {
		kept[key] = c.Dump(v.ctx, key).Val()
	}
	limits := func(i int) [2]int64 {
		t.Helper()
		a, err := v.e.Take(v.ctx, "mail.user", []rules.Take{{Op: rules.TakePeek, Key: "ann"}})
		b := v.append(jobTo("mail", i, "ann"))[0]
		if err != nil || len(b.Rules) != 1 {
			t.Fatal(a, err, b)
		}
		return [2]int64{a[0].Limit, b.Rules[0].Limit}
	}
	v.rule(windowRule("mail.user", 10, ""))
	if got := limits(1); got != [2]int64{10, 10} {
		t.Fatal(got)
	}
	c.FlushAll(v.ctx)
	for key, dump := range kept {
		if err := c.RestoreReplace(v.ctx, key, 0, dump).Err(); err != nil {
			t.Fatal(err)
		}
	}
	v.rule(windowRule("mail.user", 2, ""))
	if got := limits(2); got != [2]int64{2, 2} {
		t.Errorf("limits of a take and an append are %d, the rule's is 2", got)
	}
}

// An append whose answer was lost is the same append when the rules are others by the time it is repeated: accepted,
// and told so.
func TestAppendLosesItsAnswerWhileRulesChange(t *testing.T) {
	v, proxy := proxied(t, false)
	v.rule(windowRule("mail.user", 5, ""))
	v.put("mail", leaky.PerSecond(100), func(s *queue.Spec) { s.Rules = []string{"mail.user"} })
	v.append(jobTo("mail", 1, "ann"))
	swallowed := proxy.Inject(faultproxy.Fault{On: faultproxy.Script("job-0002"), Do: faultproxy.SwallowReply})
	done := make(chan queue.Appended, 1)
	go func() { done <- v.append(jobTo("mail", 2, "ann"))[0] }()
	for swallowed.Hits() == 0 {
		runtime.Gosched()
	}
	v.rule(windowRule("mail.user", 4, ""))
	swallowed.Remove()
	if a := <-done; a.Outcome != queue.Accepted || a.Position != 2 {
		t.Errorf("%+v", a)
	}
	if a, err := v.e.Take(v.ctx, "mail.user", []rules.Take{{Op: rules.TakePeek, Key: "ann"}}); err != nil ||
		a[0].Remaining != 1 {
		t.Errorf("%+v, %v: want 2 of 4 taken, and 1 left behind a third", a, err)
	}
}

// However many rules jobs ask, no call holds up the server for long: what asks much goes in more of them.
func TestAFlightAsksSoMuch(t *testing.T) {
	c := redistest.New(t, redistest.Options{}).Client()
	v := open(t, c, redisq.Options{Init: true, Partitions: 1})
	var asked []string
	for i := range 2 * queue.MaxSpecRules {
		v.rule(windowRule(fmt.Sprint("mail.r", i), 1000, ""))
		asked = append(asked, fmt.Sprint("mail.r", i))
	}
	v.put("mail", leaky.Unlimited, func(s *queue.Spec) { s.Rules = asked[:queue.MaxSpecRules] })
	v.put("mail.otp", leaky.Unlimited, func(s *queue.Spec) { s.Rules, s.Capacity = asked[queue.MaxSpecRules:], 10_000 })
	n := 0
	bring := func(count int) {
		t.Helper()
		jobs := make([]queue.Job, count)
		for i := range jobs {
			n++
			jobs[i] = jobTo("mail.otp", n, fmt.Sprint(n))
		}
		for _, a := range v.append(jobs...) {
			if a.Outcome != queue.Accepted || len(a.Rules) != len(asked) {
				t.Fatalf("%+v", a)
			}
		}
	}
	bring(1) // now the rules are known
	if err := c.ConfigResetStat(v.ctx).Err(); err != nil {
		t.Fatal(err)
	}
	bring(coalesce.MaxItems)
	if calls := scriptCalls(t, c); calls < 4 {
		t.Errorf("%d jobs that ask %d rules each went in %d calls, want 2,000 asks in each at most", coalesce.MaxItems,
			len(asked), calls)
	}
}
