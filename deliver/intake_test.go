package deliver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// picky is a target that refuses empty payloads, and costs a job what its setting says.
type picky struct{ cost int64 }

func (*picky) Check(string) error { return nil }
func (*picky) OnUnknown() string  { return queue.UnknownRetry }
func (p *picky) Accept(job *queue.Job) error {
	if len(job.Payload) == 0 {
		return setting.Error("payload.to", "", "is missing")
	}
	if job.Cost == 0 {
		job.Cost = p.cost
	}
	job.Lane = "changed" // which is not its business
	return nil
}

// office is a queue.Appender and the Specs of its queues.
type office struct {
	mu    sync.Mutex
	specs map[string]string // deliver settings
	away  error             // what Get answers
	slow  time.Duration
	reads int
	jobs  []queue.Job
	err   error // what Append answers

	counts string // unit that limits count; the parent's estimate of tokens is at /n
	drops  string // unit that they no longer count
}

func (o *office) set(name, deliver string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.specs[name] = deliver
}

func (o *office) Get(ctx context.Context, name string) (queue.Info, error) {
	o.mu.Lock()
	o.reads++
	slow, away := o.slow, o.away
	deliver, ok := o.specs[name]
	o.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return queue.Info{}, ctx.Err()
		}
	}
	switch {
	case away != nil:
		return queue.Info{}, away
	case !ok:
		return queue.Info{}, queue.ErrUnknownQueue
	}
	i := queue.Info{Spec: queue.Spec{Name: name, Deliver: json.RawMessage(deliver)}}
	if o.counts != "" {
		i.Spec.Limits = []queue.Limit{{Unit: o.counts}}
		i.Parent = &queue.Info{Spec: queue.Spec{Estimate: map[string]queue.Estimate{"tokens": {Default: 100, From: "/n"}}}}
	}
	return i, nil
}

func (o *office) Append(_ context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return nil, o.err
	}
	answers := make([]queue.Appended, len(jobs))
	for i, j := range jobs {
		answers[i] = queue.Appended{Outcome: queue.Accepted, ID: j.ID, ETA: queue.ETA{Exact: true}}
		if _, stated := j.Costs[o.drops]; stated {
			answers[i] = queue.Appended{Outcome: queue.Invalid, ID: j.ID, Err: queue.UncountedUnit("costs", o.drops, j.Queue)}
			continue
		}
		o.jobs = append(o.jobs, j)
	}
	return answers, nil
}

func (o *office) takeReads() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.reads
	o.reads = 0
	return n
}

// intakeOf parses settings such as {"picky": 3}.
func intakeOf(o *office) *Intake {
	return &Intake{next: o, targets: newTargets(o, func(raw json.RawMessage) (Target, error) {
		var p struct{ Picky int64 }
		if !bytes.Contains(raw, []byte("picky")) {
			return Parse(raw)
		}
		err := json.Unmarshal(raw, &p)
		return Target{Kind: "picky", Setting: &picky{p.Picky}}, err
	})}
}

// cost appends a job to a queue and returns what it cost.
func cost(t *testing.T, i *Intake, o *office, name string) int64 {
	t.Helper()
	answers, err := i.Append(t.Context(), []queue.Job{{Queue: name, ID: "a", Payload: []byte("{}")}})
	if err != nil || answers[0].Outcome != queue.Accepted {
		t.Fatal(answers, err)
	}
	return o.jobs[len(o.jobs)-1].Cost
}

func TestIntakeJudgesEachJob(t *testing.T) {
	o := &office{specs: map[string]string{
		"sms": `{"picky": 3}`, "web": `{"http": {"url": "http://example.com"}}`, "none": "",
	}}
	i := intakeOf(o)
	jobs := []queue.Job{
		{Queue: "sms", ID: "a", Payload: []byte("x")},
		{Queue: "sms", ID: "bad"},
		{Queue: "sms", ID: "b", Payload: []byte("x"), Cost: 7},
		{Queue: "web", ID: "c"},
		{Queue: "none", ID: "d"},
		{Queue: "gone", ID: "e"},
		{Queue: "not a name", ID: "f"},
		{Queue: "sms", ID: "g", Payload: []byte("x")},
	}
	before := fmt.Sprint(jobs)
	answers, err := i.Append(t.Context(), jobs)
	if err != nil || len(answers) != len(jobs) {
		t.Fatal(answers, err)
	}
	for k, a := range answers {
		want := queue.Accepted
		if k == 1 {
			want = queue.Invalid
		}
		if a.Outcome != want || a.ID != jobs[k].ID {
			t.Errorf("job %d: %+v", k, a)
		}
	}
	var field *invalid.Error
	if !errors.As(answers[1].Err, &field) || field.Field != "payload.to" {
		t.Error(answers[1].Err)
	}
	var got string
	for _, j := range o.jobs {
		got += fmt.Sprintf("%s%d%s ", j.ID, j.Cost, j.Lane)
	}
	if want := "a3 b7 c0 d0 e0 f0 g3 "; got != want {
		t.Errorf("appended %q, want %q", got, want)
	}
	if fmt.Sprint(jobs) != before {
		t.Error("the caller's jobs were changed")
	}
}

// Jobs get the costs that their payloads state, in queues with and without a target. A limit that no longer counts the
// unit loses no job.
func TestIntakeReadsCosts(t *testing.T) {
	for drops, want := range map[string]string{
		"":       "a map[tokens:5], b map[], d map[tokens:3], e map[tokens:5], f map[tokens:6], ",
		"tokens": "b map[], a map[], e map[], f map[], ",
	} {
		o := &office{specs: map[string]string{"sms": `{"picky": 3}`, "none": ""}, counts: "tokens", drops: drops}
		jobs := []queue.Job{
			{Queue: "sms", ID: "a", Payload: []byte(`{"n": 5}`)},
			{Queue: "sms", ID: "b", Payload: []byte(`{"n": "5"}`)},
			{Queue: "sms", ID: "c", Payload: []byte(`{"n": 1e99}`)},
			{Queue: "sms", ID: "d", Payload: []byte(`{"n": 1e99}`), Costs: map[string]int64{"tokens": 3}},
			{Queue: "none", ID: "e", Payload: []byte(`{"n": 5}`)},
			{Queue: "sms", ID: "f", Payload: []byte(`{"n": 6}`)},
		}
		before := fmt.Sprint(jobs)
		answers, err := intakeOf(o).Append(t.Context(), jobs)
		if err != nil || len(answers) != len(jobs) {
			t.Fatal(answers, err)
		}
		for k, a := range answers {
			refused := k == 2 || k == 3 && drops != "" // the latter's own cost
			if (a.Outcome == queue.Invalid) != refused || a.ID != jobs[k].ID {
				t.Errorf("job %d: %+v", k, a)
			}
		}
		got := ""
		for _, j := range o.jobs {
			got += fmt.Sprintf("%s %v, ", j.ID, j.Costs)
		}
		if got != want || fmt.Sprint(jobs) != before {
			t.Errorf("appended %s\nwant     %s", got, want)
		}
	}
}

// Refused jobs stay refused when the rest cannot be decided.
func TestIntakeOverFailure(t *testing.T) {
	o := &office{specs: map[string]string{"sms": `{"picky": 3}`}, err: queue.ErrUnavailable}
	i := intakeOf(o)
	good, bad := queue.Job{Queue: "sms", ID: "a", Payload: []byte("x")}, queue.Job{Queue: "sms", ID: "b"}
	answers, err := i.Append(t.Context(), []queue.Job{good, bad})
	if err != nil || answers[0].Outcome != queue.Failed || !errors.Is(answers[0].Err, queue.ErrUnavailable) ||
		answers[1].Outcome != queue.Invalid {
		t.Errorf("%+v, %v", answers, err)
	}
	if _, err := i.Append(t.Context(), []queue.Job{good}); !errors.Is(err, queue.ErrUnavailable) {
		t.Error(err)
	}
	if answers, err := i.Append(t.Context(), []queue.Job{bad}); err != nil || answers[0].Outcome != queue.Invalid {
		t.Errorf("%+v, %v", answers, err)
	}
}

func TestIntakeFollowsTheSpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &office{specs: map[string]string{"sms": `{"picky": 3}`}}
		i := intakeOf(o)
		for range 100 {
			if got := cost(t, i, o, "sms"); got != 3 {
				t.Fatal(got)
			}
		}
		if n := o.takeReads(); n != 1 {
			t.Errorf("read %d times in an instant", n)
		}
		o.set("sms", `{"picky": 5}`)
		time.Sleep(time.Hour) // however long it was not used
		if got := cost(t, i, o, "sms"); got != 5 {
			t.Errorf("cost %d after the change", got)
		}
		o.set("sms", `{"http": {"url": "http://example.com"}}`)
		time.Sleep(specAge)
		if got := cost(t, i, o, "sms"); got != 0 {
			t.Errorf("cost %d after the change", got)
		}
	})
}

// While the engine is away it uses what it knew, and no caller waits long.
func TestIntakeWithoutTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &office{specs: map[string]string{"sms": `{"picky": 3}`, "other": `{"picky": 3}`}}
		i := intakeOf(o)
		_ = cost(t, i, o, "sms")
		o.away, o.slow = queue.ErrUnavailable, time.Hour
		time.Sleep(time.Minute)
		o.takeReads()
		began := time.Now()
		for range 10 {
			start := time.Now()
			if got := cost(t, i, o, "sms"); got != 3 {
				t.Errorf("cost %d of a queue that was known", got)
			}
			if got := cost(t, i, o, "other"); got != 0 {
				t.Errorf("cost %d of an unknown queue", got)
			}
			if waited := time.Since(start); waited > 2*specPatience {
				t.Errorf("waited %v", waited)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n, most := o.takeReads(), 2*(1+int(time.Since(began)/specAge)); n > most {
			t.Errorf("asked %d times of two queues in %v", n, time.Since(began))
		}
		o.away, o.slow = nil, 0
		time.Sleep(specAge)
		if got := cost(t, i, o, "other"); got != 3 {
			t.Errorf("cost %d after the engine came back", got)
		}
	})
}

// The departure of a job with nowhere to go is unknown.
func TestNoETAIsExactInAQueueWithoutATarget(t *testing.T) {
	o := &office{specs: map[string]string{"none": "", "empty": "{}", "sms": `{"picky": 3}`}}
	var jobs []queue.Job
	for _, name := range []string{"sms", "none", "empty", "sms"} {
		jobs = append(jobs, queue.Job{Queue: name, ID: "a", Payload: []byte("{}")})
	}
	jobs = append(jobs, queue.Job{Queue: "sms"}) // refused
	answers, err := intakeOf(o).Append(t.Context(), jobs)
	if err != nil || !answers[0].ETA.Exact || answers[1].ETA.Exact || answers[2].ETA.Exact || !answers[3].ETA.Exact {
		t.Errorf("%+v, %v", answers, err)
	}
}
