package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue"
)

// timelineText formats a timeline, one attempt a line.
func timelineText(list []queue.Attempt) string {
	var b strings.Builder
	for _, a := range list {
		fmt.Fprintf(&b, "\n    %s to %s by %q %v %q", micro(a.At), micro(a.EndedAt), a.Drainer, a.Outcome, a.Answer)
	}
	return b.String()
}

// wantAttempt is an expected attempt; its departure and end are seconds from the start of the test.
type wantAttempt struct {
	at, ended float64
	drainer   string
	outcome   queue.AttemptOutcome
	answer    string
}

// timeline compares the timeline of a job, with times as seconds after t0.
func (r *rig) timeline(t0 time.Time, queueName, id string, want ...wantAttempt) {
	r.Helper()
	sameTimeline(r, t0, r.job(queueName, id), want)
}

func sameTimeline(r *rig, t0 time.Time, j queue.JobInfo, want []wantAttempt) {
	r.Helper()
	after := func(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }
	var list []queue.Attempt
	for _, w := range want {
		a := queue.Attempt{At: after(w.at), Drainer: w.drainer, Outcome: w.outcome, Answer: w.answer}
		if w.outcome != queue.UnderWay {
			a.EndedAt = after(w.ended)
		}
		list = append(list, a)
	}
	if got, want := timelineText(j.Timeline), timelineText(list); got != want {
		r.Errorf("timeline of %s, which is %v:%s\nwant%s", j.ID, j.State, got, want)
	}
}

// failAs lets a client try the only job, which fails.
func (r *rig) failAs(client, queueName, answer string, verdict queue.Verdict, after time.Duration) queue.Settled {
	r.Helper()
	got := r.reserveAs(client, queueName, 1).Jobs
	if len(got) != 1 {
		r.Fatalf("%d jobs were granted to %s", len(got), client)
	}
	r.clock.Advance(time.Second)
	s := settlement(verdict, got[0])
	s.Reason, s.After = answer, after
	return r.settle(s)[0]
}

var timelineRules = []rule{
	{"a timeline has each ended attempt and the current one", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 9))
		r.accept(q, "a")
		t0 := r.clock.Now().Time()
		r.timeline(t0, q, "a")
		v := r.reserveAs("one", q, 1).Jobs
		r.timeline(t0, q, "a", wantAttempt{0, 0, "one@bench", queue.UnderWay, ""})
		r.release(v...) // which is no attempt
		r.timeline(t0, q, "a")
		r.failAs("two", q, "421 later", queue.Fail, time.Minute)
		first := wantAttempt{0, 1, "two@bench", queue.AttemptFailed, "421 later"}
		r.timeline(t0, q, "a", first)
		r.clock.Advance(time.Minute)
		r.timeline(t0, q, "a", first)
		r.release(r.reserveAs("one", q, 1).Jobs...)
		r.reserveAs("three", q, 1)
		r.timeline(t0, q, "a", first, wantAttempt{61, 0, "three@bench", queue.UnderWay, ""})
		r.clock.Advance(time.Minute)
		r.reserveAs("one", q, 1) // takes the lease back, and gets the job
		lost := wantAttempt{61, 121, "three@bench", queue.AttemptLost, ""}
		r.timeline(t0, q, "a", first, lost, wantAttempt{121, 0, "one@bench", queue.UnderWay, ""})
		if j := r.job(q, "a"); j.Attempts != 2 || j.Reason != "the lease ran out" {
			r.Errorf("got %+v", j)
		}
	}},
	{"a dead job keeps its timeline", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 3))
		r.accept(q, "a")
		t0 := r.clock.Now().Time()
		r.failAs("one", q, "421", queue.Fail, 0)
		r.failAs("two", q, "422", queue.Fail, 0)
		r.failAs("three", q, "423", queue.Fail, 0)
		want := []wantAttempt{
			{0, 1, "one@bench", queue.AttemptFailed, "421"},
			{1, 2, "two@bench", queue.AttemptFailed, "422"},
			{2, 3, "three@bench", queue.AttemptDied, "423"},
		}
		r.timeline(t0, q, "a", want...)
		r.accept(q, "b")
		r.failAs("one", q, "no such address", queue.Bury, 0)
		bury := []wantAttempt{{3, 4, "one@bench", queue.AttemptDied, "no such address"}}
		r.accept(q, "c")
		for range 3 {
			r.reserveAs("two", q, 1)
			r.clock.Advance(time.Minute)
		}
		r.reserveAs("one", q, 1)
		ran := []wantAttempt{
			{4, 64, "two@bench", queue.AttemptLost, ""},
			{64, 124, "two@bench", queue.AttemptLost, ""},
			{124, 184, "two@bench", queue.AttemptLost, ""},
		}
		r.clock.Advance(time.Hour)
		for i, j := range r.pages(queue.ListRequest{Queue: q, State: queue.Dead}, 2, nil) {
			sameTimeline(r, t0, j, [][]wantAttempt{want, bury, ran}[i])
			r.timeline(t0, q, j.ID, [][]wantAttempt{want, bury, ran}[i]...)
		}
	}},
	{"a replayed job starts a new timeline", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 3))
		r.accept(q, "a")
		r.failAs("one", q, "421", queue.Fail, 0)
		r.failAs("one", q, "no", queue.Bury, 0)
		t0 := r.clock.Now().Time()
		r.replays(q, []string{"a"}, queue.Replayed)
		r.timeline(t0, q, "a")
		r.failAs("two", q, "422", queue.Fail, 0)
		r.timeline(t0, q, "a", wantAttempt{0, 1, "two@bench", queue.AttemptFailed, "422"})
	}},
	{"a delivered job shows its last attempt, a cancelled or expired job none", func(r *rig) {
		q := r.queue("q", "1/s", leased(time.Minute, 3))
		t0 := r.clock.Now().Time()
		r.accept(q, "a", "b")
		v := r.reserveAs("one", q, 2).Jobs
		r.clock.Advance(time.Second / 2)
		r.deliver(v...)
		r.timeline(t0, q, "a", wantAttempt{0, 0.5, "one@bench", queue.AttemptDelivered, ""})
		r.clock.Advance(time.Second/2 - 10*time.Millisecond)
		v = r.reserveAs("two", q, 1).Jobs
		r.timeline(t0, q, "b", wantAttempt{1, 0, "two@bench", queue.UnderWay, ""})
		r.deliver(v...) // before it departed
		r.timeline(t0, q, "b", wantAttempt{0.99, 0.99, "two@bench", queue.AttemptDelivered, ""})
		r.clock.Advance(time.Minute)
		r.accept(q, "c")
		r.failAs("one", q, "421", queue.Fail, time.Minute)
		r.cancels(queue.Cancelled, q, "c")
		r.timeline(t0, q, "c")
		d := job(q, "d")
		d.ExpiresAt = r.clock.Now().Time().Add(time.Minute)
		r.acceptJobs(d)
		r.clock.Advance(time.Second)
		r.failAs("one", q, "421", queue.Fail, 0)
		r.clock.Advance(time.Hour)
		r.grant(q, 9)
		r.state(queue.Expired, q, "d")
		r.timeline(t0, q, "d")
	}},
	{"the first attempt and the latest are kept", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 100))
		r.accept(q, "a")
		t0 := r.clock.Now().Time()
		var all []wantAttempt
		for n := range 30 {
			answer := fmt.Sprint("answer ", n)
			r.failAs("one", q, answer, queue.Fail, 0)
			all = append(all, wantAttempt{float64(n), float64(n + 1), "one@bench", queue.AttemptFailed, answer})
			kept := all
			if len(all) > queue.MaxTimeline {
				kept = append([]wantAttempt{all[0]}, all[len(all)-queue.MaxTimeline+1:]...)
			}
			r.timeline(t0, q, "a", kept...)
		}
		if j := r.job(q, "a"); j.Attempts != 30 {
			r.Errorf("%d attempts", j.Attempts)
		}
	}},
	{"answers are cut between characters", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 100))
		for n, answer := range []string{
			"", strings.Repeat("x", 200), strings.Repeat("x", 201), strings.Repeat("x", 199) + "é",
			strings.Repeat("x", 198) + "日本", strings.Repeat("日本", 300),
			"a\x00b\nc", "\xff\xfe", strings.Repeat("\x80", 300),
			strings.Repeat("x", 150) + strings.Repeat("\x80", 100),
		} {
			id := fmt.Sprint("j", n)
			r.accept(q, id)
			t0 := r.clock.Now().Time()
			r.failAs("one", q, answer, queue.Bury, 0)
			r.timeline(t0, q, id, wantAttempt{
				0, 1, "one@bench", queue.AttemptDied, clip.Text(answer, queue.MaxAnswerBytes),
			})
		}
	}},
	{"a client without a name is called by its id, and a long name is cut", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 100))
		for n, c := range []queue.Client{{ID: "nameless"}, {ID: "long", Name: strings.Repeat("é", 100)}} {
			id := fmt.Sprint("j", n)
			r.accept(q, id)
			v := r.do(queue.ReserveRequest{Partition: r.partition(q), Number: 1, Max: 1, Client: c}).Jobs
			t0 := r.clock.Now().Time()
			r.timeline(t0, q, id, wantAttempt{0, 0, c.Shown(), queue.UnderWay, ""})
			r.fail(0, v...)
			r.timeline(t0, q, id, wantAttempt{0, 0, c.Shown(), queue.AttemptFailed, "it failed"})
			r.cancels(queue.Cancelled, q, id)
		}
	}},
	{"a drainer is named however many came after it", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 100))
		r.accept(q, "a", "b")
		t0 := r.clock.Now().Time()
		r.fail(0, r.reserveAs("first", q, 1).Jobs...)
		r.clock.Advance(time.Second)
		for n := range 300 {
			r.release(r.reserveAs(fmt.Sprint("c", n), q, 1).Jobs...)
		}
		r.reserveAs("last", q, 1)
		r.clock.Advance(20 * time.Second) // longer than a client stays known
		r.reserveAs("other", q, 1)
		r.timeline(t0, q, "a", wantAttempt{0, 0, "first@bench", queue.AttemptFailed, "it failed"}, wantAttempt{
			1, 0, "last@bench", queue.UnderWay, "",
		})
		r.clock.Advance(41 * time.Second)
		r.reserveAs("other", q, 9)
		if got := r.job(q, "a").Timeline; len(got) < 2 || got[1].Drainer != "last@bench" ||
			got[1].Outcome != queue.AttemptLost {
			r.Errorf("got%s", timelineText(got))
		}
	}},
	{"a repeated settlement appears once", func(r *rig) {
		q := r.queue("q", "unlimited", leased(time.Minute, 100))
		r.accept(q, "a")
		t0 := r.clock.Now().Time()
		req := r.request("one", q, 1)
		v := r.do(req).Jobs
		r.do(req)
		r.fail(time.Hour, v...)
		r.fail(time.Hour, v...)
		r.timeline(t0, q, "a", wantAttempt{0, 0, "one@bench", queue.AttemptFailed, "it failed"})
	}},
}
