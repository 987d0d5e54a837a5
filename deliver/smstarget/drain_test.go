package smstarget_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/cli/sink/smssim"
	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// deliverAll puts texts into a queue by way of an Intake, and has them sent until the queue holds none but those that
// are held.
func (r *rig) deliverAll(e queue.Engine, spec queue.Spec, more string, bodies []string) queue.Info {
	t := r.t
	t.Helper()
	spec.Name, spec.Deliver = "sms", json.RawMessage(target(r.url, more))
	if _, err := e.Put(t.Context(), spec, 0); err != nil {
		t.Fatal(err)
	}
	jobs := make([]queue.Job, len(bodies))
	for i, body := range bodies {
		payload, err := json.Marshal(map[string]string{"to": fmt.Sprintf("+49151%08d", i), "text": body})
		if err != nil {
			t.Fatal(err)
		}
		jobs[i] = queue.Job{Queue: "sms", ID: fmt.Sprintf("%04d", i), Payload: payload}
	}
	bad := queue.Job{Queue: "sms", ID: "bad", Payload: []byte(`{"to": "0151", "text": "hello"}`)}
	jobs = append(jobs, bad)
	intake := deliver.NewIntake(e, e)
	// While the store is slow, an intake accepts what it cannot check.
	await.Until(t, "the intake knows the queue", func() bool {
		bad.ID = queue.NewID()
		a, err := intake.Append(t.Context(), []queue.Job{bad})
		if err == nil && a[0].Outcome == queue.Accepted {
			_, err = e.Cancel(t.Context(), "sms", bad.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		return a[0].Outcome == queue.Invalid
	})
	answers, err := intake.Append(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if want := map[bool]queue.AppendOutcome{
			true: queue.Accepted, false: queue.Invalid,
		}[i < len(bodies)]; a.Outcome != want {
			t.Fatalf("job %d: %+v", i, a)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- drain.Run(ctx, e, r.router, drain.Options{}) }()
	var info queue.Info
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if info, err = e.Get(t.Context(), "sms"); err != nil || info.Size() == info.Held {
			break
		}
		if time.Now().After(deadline) {
			err = fmt.Errorf("not done within a minute: %+v", info)
			break
		}
	}
	stop()
	if ended := <-end; err != nil || ended != nil {
		t.Fatal(err, ended)
	}
	return info
}

// once checks that each text was taken once, whole.
func (r *rig) once(bodies []string) {
	r.t.Helper()
	want := map[string]int{}
	for _, b := range bodies {
		want[b]++
	}
	for _, b := range r.texts() {
		want[b]--
	}
	for b, n := range want {
		if n != 0 {
			r.t.Errorf("%.40q: %d of it were not taken", b, n)
		}
	}
}

// texted returns n texts, no two alike, of as many parts as sizes say in turn.
func texted(n int, sizes ...int) []string {
	bodies := make([]string, n)
	for i := range bodies {
		bodies[i] = fmt.Sprintf("%04d ", i)
		if size := sizes[i%len(sizes)]; size > 1 {
			bodies[i] += strings.Repeat("x", size*153-5)
		}
	}
	return bodies
}

// The rate is kept in segments, as the provider sees them.
func TestPaceCountsSegments(t *testing.T) { engines.Each(t, paceCountsSegments) }

func paceCountsSegments(t *testing.T, e queue.Engine) {
	const delta = 100 * time.Millisecond // wide: the machine may be busy
	r, rate := newRig(t, smssim.Options{}), leaky.PerSecond(100)
	bodies := texted(60, 1, 3, 2)
	info := r.deliverAll(e, queue.Spec{Rate: rate}, "", bodies)
	if info.Delivered != 60 || info.Retried+info.Died != 0 {
		t.Errorf("%+v", info)
	}
	r.once(bodies)
	var starts []law.Start
	segments := 0
	for _, text := range r.sim.Texts() {
		starts = append(starts, law.Start{At: text.At.Sub(r.sim.Texts()[0].At), Cost: int64(text.Segments)})
		segments += text.Segments
	}
	if segments != 120 {
		t.Errorf("%d segments", segments)
	}
	if v := (law.Law{Rate: rate, MaxCost: 3, Slack: queue.LeastSlack, Delta: delta}).Judge(starts); !v.Held {
		t.Errorf("the window law was broken: %+v", v)
	}
	if took := starts[len(starts)-1].At; took < 118*10*time.Millisecond-queue.LeastSlack-delta {
		t.Errorf("120 segments in %v", took)
	}
}

// A provider that throttles costs no job its only attempt.
func TestThrottledQueue(t *testing.T) { engines.Each(t, throttledQueue) }

func throttledQueue(t *testing.T, e queue.Engine) {
	r := newRig(t, smssim.Options{Interval: 50 * time.Millisecond, Burst: 20})
	bodies := texted(60, 1)
	// on a busy machine texts that are late come at once, and not too seldom to be throttled
	slack := unit.Duration(10 * time.Second)
	info := r.deliverAll(
		e, queue.Spec{Rate: leaky.PerSecond(200), Slack: slack, Retry: queue.Retry{MaxAttempts: 1}}, "", bodies,
	)
	_, throttled, _ := r.sim.Counts()
	if info.Delivered != 60 || throttled == 0 || info.Throttled != int64(throttled) {
		t.Errorf("%d throttled, %+v", throttled, info)
	}
	r.once(bodies)
}

// A provider that takes texts and loses answers gets no text twice.
func TestLostAnswersAreNotSentTwice(t *testing.T) { engines.Each(t, lostAnswersAreNotSentTwice) }

func lostAnswersAreNotSentTwice(t *testing.T, e queue.Engine) {
	r := newRig(t, smssim.Options{Listed: 100 * time.Millisecond, Fault: func(n int) smssim.Fault {
		if n%3 == 0 {
			return smssim.LoseAnswer
		}
		return smssim.None
	}})
	bodies := texted(30, 1)
	info := r.deliverAll(e, queue.Spec{Rate: leaky.PerSecond(100)}, `, "grace": "1m"`, bodies)
	if requests, _, asked := r.sim.Counts(); info.Delivered != 30 || requests != 30 || asked < 10 {
		t.Errorf("%d requests, asked %d times, %+v", requests, asked, info)
	}
	r.once(bodies)
}

// One that loses requests, and says so in its list, gets each again if the setting trusts the list.
func TestLostRequestsAreSentAgain(t *testing.T) { engines.Each(t, lostRequestsAreSentAgain) }

func lostRequestsAreSentAgain(t *testing.T, e queue.Engine) {
	r := newRig(t, smssim.Options{Fault: func(n int) smssim.Fault {
		if n%3 == 1 {
			return smssim.LoseRequest
		}
		return smssim.None
	}})
	bodies := texted(12, 1)
	retry := queue.Retry{
		MaxAttempts: 20, MinBackoff: unit.Duration(time.Millisecond), MaxBackoff: unit.Duration(10 * time.Millisecond),
	}
	info := r.deliverAll(e, queue.Spec{Rate: leaky.PerSecond(100), Retry: retry}, quick+`, "not_listed": "retry"`, bodies)
	if info.Delivered != 12 || info.Retried == 0 {
		t.Errorf("%+v", info)
	}
	r.once(bodies)
}

// What may have been sent is not sent again by itself, unless the queue says so.
func TestUnknownIsHeld(t *testing.T) {
	for onUnknown, want := range map[string]queue.Info{
		"": {Held: 1, Counters: queue.Counters{Delivered: 2}}, queue.UnknownDead: {
			Counters: queue.Counters{Died: 1, Delivered: 2},
		},
		queue.UnknownRetry: {Counters: queue.Counters{Delivered: 3}},
	} {
		engines.Each(t, func(t *testing.T, e queue.Engine) {
			r := newRig(t, smssim.Options{Fault: func(n int) smssim.Fault {
				if n == 1 {
					return smssim.LoseRequest
				}
				return smssim.None
			}})
			retry := queue.Retry{MinBackoff: unit.Duration(time.Millisecond), MaxBackoff: unit.Duration(10 * time.Millisecond)}
			info := r.deliverAll(
				e, queue.Spec{Rate: leaky.PerSecond(100), Retry: retry, OnUnknown: onUnknown}, quick, texted(3, 1),
			)
			requests, _, asked := r.sim.Counts()
			if info.Held != want.Held || info.Died != want.Died || info.Delivered != want.Delivered ||
				len(r.sim.Texts()) != int(want.Delivered) || asked == 0 || requests > 4 {
				t.Errorf(
					"on_unknown %q: %d requests, asked %d times, %d texts, %+v", onUnknown, requests, asked, len(r.sim.Texts()), info,
				)
			}
		})
	}
}
