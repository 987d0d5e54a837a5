package app

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
)

// Of each key the rule of the queue's group lets fewJobs in, and that of another group mostTaken through. So it is the
// former that refuses first, and what the latter let through is given back; but under roomy keys the latter does.
const (
	fewJobs, mostTaken = 60, 120
	lanes, together    = 180, 3 // how many keys there are, and how many of them are asked at a time
	turn               = 700    // decided questions after which it is the next ones
)

func roomy(n int64) bool { return n%2 == 1 }

func lane(n int64) string {
	return fmt.Sprintf("%s-%d", map[bool]string{false: "tight", true: "roomy"}[roomy(n)], n%lanes)
}

// The rules that let so much through in a span that some of it comes back while they are asked.
var pulses = map[string]leaky.Limiter{
	"pulse.log":   leaky.SlidingLog{Max: 20, Period: 200 * time.Millisecond},
	"pulse.meter": leaky.Meter{Rate: leaky.PerSecond(50), Burst: 5},
}

// Three ingresses on one Redis are stopped, killed and started again, and replies of Redis are lost or late, while many
// ask rules and append jobs, some of whom do not wait for long. No rule lets more through than it may, and what is
// charged is what was let through, and at most as much more as nobody was told of.
func TestRulesUnderFaults(t *testing.T) {
	t.Parallel()
	s := redistest.New(t, redistest.Options{})
	proxy := faultproxy.New(t, s.Addr())
	behind := []string{"--redis", strings.Replace(s.URL(), s.Addr(), proxy.Addr(), 1), "--init"}
	c := &askers{t: t, known: map[account]*ledger{}, passed: map[string][]law.Passed{}, begun: time.Now()}
	for range 3 {
		c.fronts = append(c.fronts, startFront(t, behind...))
	}
	c.prepare()

	every := func(nth int) faultproxy.Match {
		n := 0
		return faultproxy.All(faultproxy.Script(), func(faultproxy.Command) bool { n++; return n%nth == 0 })
	}
	lost := proxy.Inject(faultproxy.Fault{On: every(60), Do: faultproxy.SwallowReply})
	// who has less time is gone by then
	late := proxy.Inject(faultproxy.Fault{On: every(40), Do: faultproxy.DelayReply, By: 100 * time.Millisecond})
	over := make(chan struct{})
	var all sync.WaitGroup
	for me := range 12 {
		patience := []time.Duration{time.Minute, 50 * time.Millisecond}[me/6]
		all.Go(func() { c.newAsker(me, patience).work(over) })
	}
	met := func() bool { return c.busy() && lost.Hits() > 0 && late.Hits() > 0 }
	// When all keys have had their turn all was taken: nothing is given back any more.
	for round := 0; round < 3 || !met() && c.decided.Load() < lanes/together*turn; round++ {
		stopped, killed := c.front(round), (round+1)%3
		if err := stopped.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // longer than it waits for Redis: what it asked was answered, and it takes Redis to be away
		c.front(killed).kill()
		if err := stopped.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) // while the others are asked
		c.restart(killed, startFront(t, behind...))
		time.Sleep(500 * time.Millisecond)
	}
	close(over)
	all.Wait()
	if !met() {
		t.Errorf("faults met too few of %d questions; answers: %v", c.asked.Load(), c.answers)
	}
	for i := range c.fronts {
		c.front(i).kill()
	}
	c.judge(startFront(t, "--redis", s.URL()).url)
	t.Logf(
		"%d questions; %d replies of Redis were lost and %d late; answers: %v", c.asked.Load(), lost.Hits(), late.Hits(),
		c.answers,
	)
}

func (c *askers) prepare() {
	a := c.newAsker(0, time.Minute)
	var overrides []string
	for n := range int64(lanes) {
		if roomy(n) {
			overrides = append(overrides, fmt.Sprintf(`%q:{"limit":%d,"period":"1h"}`, lane(n), 2*mostTaken))
		}
	}
	for path, body := range map[string]string{
		"rules/mail.otp": fmt.Sprintf(
			`{"algorithm":"sliding_log","limit":%d,"period":"1h","key":"{lane}","overrides":{%s}}`, fewJobs,
			strings.Join(overrides, ","),
		),
		"rules/tenants":     fmt.Sprintf(`{"algorithm":"sliding_log","limit":%d,"period":"1h","key":"{lane}"}`, mostTaken),
		"rules/pulse.log":   `{"algorithm":"sliding_log","limit":20,"period":"200ms"}`,
		"rules/pulse.meter": `{"algorithm":"meter","rate":"50/s","burst":5}`,
	} {
		if status, _, err := a.send(http.MethodPut, path, body); status != http.StatusCreated {
			c.t.Fatal(path, status, err)
		}
	}
	if status, _, err := a.send(
		http.MethodPut, "queues/mail", `{"rate":"1/h","capacity":1000000,"rules":["mail.otp","tenants"]}`,
	); status != http.StatusCreated {
		c.t.Fatal("the queue: ", status, err)
	}
}

// judge compares what is known of the answers with what Redis says at the end.
func (c *askers) judge(base string) {
	api, err := client.New(base, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	var total, exhausted int64
	for _, rule := range []string{"mail.otp", "tenants"} {
		for n := range int64(lanes) {
			limit := int64(mostTaken)
			switch {
			case rule == "mail.otp" && roomy(n):
				limit = 2 * mostTaken
			case rule == "mail.otp":
				limit = fewJobs
			}
			said, err := api.Take(c.t.Context(), rule, rules.TakePeek, wire.Take{Key: lane(n)})
			if err != nil {
				c.t.Fatal(err)
			}
			charged := limit - said.Remaining
			if said.Allowed { // it would leave so much
				charged--
			}
			l := c.ledger(rule, lane(n))
			if charged < l.passed || charged > l.passed+l.perhaps {
				c.t.Errorf(
					"%s is charged %d under %s; it let %d through, and %d more perhaps", rule, charged, lane(n), l.passed, l.perhaps,
				)
			}
			hour := law.Admission{By: leaky.SlidingLog{Max: limit, Period: time.Hour}}
			if v := hour.Judge(c.passed[rule+" "+lane(n)]); !v.Held {
				c.t.Errorf("%s under %s: %+v", rule, lane(n), v)
			}
			if charged == limit {
				exhausted++
			}
			if rule == "mail.otp" {
				total += charged
			}
		}
	}
	q, err := api.Queue(c.t.Context(), "mail")
	if err != nil {
		c.t.Fatal(err)
	}
	if total != q.Stats.Appended {
		c.t.Errorf("%d jobs are in, and mail.otp is charged %d", q.Stats.Appended, total)
	}
	for rule, by := range pulses {
		// Redis' clock is the machine's, which may be set; the one here is not.
		v := law.Admission{By: by, Delta: 20 * time.Millisecond}.Judge(c.passed[rule+" "])
		if !v.Held {
			c.t.Errorf("%s: %+v", rule, v)
		}
		c.t.Logf(
			"%s let %d through, at most %d of %d in a span", rule, len(c.passed[rule+" "]), v.Worst.Starts, v.Worst.Allowed,
		)
	}
	c.t.Logf("under %d keys of %d all was taken; %d jobs are in", exhausted, 2*lanes, total)
}
