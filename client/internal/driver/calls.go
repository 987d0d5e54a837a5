package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/client"
)

// call executes a request.
type call func(ctx context.Context, d *driver, r *request) (any, error)

var calls map[string]call

func init() {
	calls = map[string]call{
		"append": appendOne, "append_many": appendMany, "append_stream": appendStream,
		"get": getJob, "list": listJobs, "cancel_job": cancelJob, "wait": waitJob,
		"turn": turn, "time_turns": timeTurns, "paced_get": pacedGet, "throttle": throttle, "proxy": throughProxy,
		"worker": startWorker, "worker_stop": stopWorker,
		"take": takeRule, "peek": takeRule, "refund": takeRule, "correct": takeRule,
		"put_queue": putQueue, "get_queue": getQueue, "delete_queue": deleteQueue, "pause": pause, "resume": resume,
		"forecast": forecast, "events": events,
		"hooks": func(_ context.Context, d *driver, _ *request) (any, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			return map[string]any{"events": append([]string{}, d.kinds...)}, nil
		},
		"cancel": func(_ context.Context, d *driver, r *request) (any, error) {
			of, err := args[struct{ Of int }](r)
			d.cancelCall(of.Of)
			return nil, err
		},
	}
}

func args[T any](r *request) (v T, err error) {
	if len(r.Args) == 0 {
		return v, nil
	}
	if err = json.Unmarshal(r.Args, &v); err != nil {
		err = fmt.Errorf("%w: %w", client.ErrInvalid, err)
	}
	return v, err
}

// job is a job as it is given to the driver: its payload is passed on as text.
type job struct {
	client.Job
	Payload json.RawMessage `json:"payload"`
}

func (j *job) job() client.Job {
	if j.Payload != nil {
		j.Job.Payload = j.Payload
	}
	return j.Job
}

type result struct {
	ID        string       `json:"id"`
	State     client.State `json:"state,omitempty"`
	Position  int64        `json:"position,omitempty"`
	ETA       *client.ETA  `json:"eta,omitempty"`
	Duplicate bool         `json:"duplicate"`
	Error     *failure     `json:"error,omitempty"`
}

func resultOf(a client.Appended) result {
	r := result{ID: a.ID, State: a.State, Position: a.Position, ETA: a.ETA, Duplicate: a.Duplicate}
	if a.Err != nil {
		r.Error = failureOf(a.Err)
	}
	return r
}

func appendOne(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[struct {
		Queue string
		Job   job
	}](r)
	if err != nil {
		return nil, err
	}
	done, err := d.c.Append(ctx, a.Queue, a.Job.job())
	return resultOf(done), err
}

func appendMany(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[struct {
		Queue string
		Jobs  []job
	}](r)
	if err != nil {
		return nil, err
	}
	jobs := make([]client.Job, len(a.Jobs))
	for i := range a.Jobs {
		jobs[i] = a.Jobs[i].job()
	}
	done, err := d.c.AppendMany(ctx, a.Queue, jobs) // the results have their errors
	if err != nil && failureOf(err).Reason == client.ReasonUnknownQueue {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	results := make([]result, len(done))
	for i := range done {
		results[i] = resultOf(done[i])
	}
	return map[string]any{"results": results}, nil
}

func appendStream(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[struct {
		Queue       string
		Jobs        []job
		Count       int
		Prefix      string
		PayloadSize int      `json:"payload_size"`
		RetryFor    *float64 `json:"retry_for"`
		InFlight    int      `json:"in_flight"`
	}](r)
	if err != nil {
		return nil, err
	}
	o := client.StreamOptions{InFlight: a.InFlight}
	if a.RetryFor != nil {
		if o.RetryFor = seconds(*a.RetryFor); o.RetryFor == 0 {
			o.RetryFor = -1
		}
	}
	results := []result{}
	var accepted, duplicates, failed int
	for done, err := range d.c.AppendStream(ctx, a.Queue, source(a.Jobs, a.Count, a.Prefix, a.PayloadSize), o) {
		switch {
		case a.Count == 0:
			results = append(results, resultOf(done))
		case err != nil:
			failed++
		case done.Duplicate:
			duplicates++
		default:
			accepted++
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if a.Count == 0 {
		return map[string]any{"results": results}, nil
	}
	return map[string]any{"accepted": accepted, "duplicates": duplicates, "failed": failed}, nil
}

// source yields the jobs given, or count of them.
func source(jobs []job, count int, prefix string, size int) iter.Seq[client.Job] {
	return func(yield func(client.Job) bool) {
		for i := range jobs {
			if !yield(jobs[i].job()) {
				return
			}
		}
		payload := strings.Repeat("x", size)
		for i := range count {
			if !yield(client.Job{ID: fmt.Sprint(prefix, i), Payload: payload}) {
				return
			}
		}
	}
}

// named are the arguments of calls about a queue and a job.
type named struct {
	Queue   string
	ID      string
	State   client.State
	Timeout float64
	Wait    float64
	After   float64
	URL     string
	Reason  string
	Until   time.Time
	Rate    string
	Set     []string
	Count   int
	Costs   map[string]int64
	Actual  map[string]int64
	Within  float64 `json:"report_within"`
}

func getJob(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[named](r)
	if err != nil {
		return nil, err
	}
	j, err := d.c.Job(ctx, a.Queue, a.ID)
	return j.Raw, err
}

func listJobs(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[named](r)
	ids := []string{}
	for j, fault := range d.c.Jobs(ctx, a.Queue, client.List{State: a.State}) {
		if fault != nil {
			return nil, fault
		}
		ids = append(ids, j.ID)
	}
	return map[string]any{"ids": ids}, err
}

func cancelJob(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[named](r)
	if err != nil {
		return nil, err
	}
	err = d.c.Cancel(ctx, a.Queue, a.ID)
	return map[string]any{"queue": a.Queue, "id": a.ID, "state": client.StateCancelled}, err
}

func waitJob(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[named](r)
	if err != nil {
		return nil, err
	}
	if a.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, seconds(a.Timeout))
		defer cancel()
	}
	j, err := d.c.Wait(ctx, a.Queue, a.ID)
	if err != nil {
		return nil, err
	}
	return j.Raw, nil
}

func throttle(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[named](r)
	if err != nil {
		return nil, err
	}
	until, err := d.c.Throttle(ctx, a.Queue, seconds(a.After), a.Reason)
	return map[string]any{"until": until}, err
}

func takeRule(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[struct {
		Rule, Key, Take, Receipt, Lease string
		Cost                            int64
		Costs, Actual                   map[string]int64
		Wait                            float64
	}](r)
	if err != nil {
		return nil, err
	}
	t := &client.Taken{Take: a.Take}
	if r.Call != "correct" {
		ask := map[string]func(context.Context, string, client.Take) (*client.Taken, error){
			"take": d.c.Take, "peek": d.c.Peek, "refund": d.c.Refund,
		}[r.Call]
		t, err = ask(ctx, a.Rule, client.Take{
			Key: a.Key, Cost: a.Cost, Costs: a.Costs, Wait: seconds(a.Wait), Receipt: a.Receipt, Lease: a.Lease,
		})
	}
	if err == nil && a.Actual != nil {
		t, err = d.c.Correct(ctx, a.Rule, a.Key, t.Take, a.Actual)
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"allowed": t.Allowed, "limit": t.Limit, "remaining": t.Remaining, "retry_after": t.RetryAfter().Seconds(),
		"reset_after": t.ResetAfter().Seconds(), "receipt": t.Receipt, "lease": t.Lease,
	}, nil
}

func putQueue(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[struct {
		Queue       string
		Spec        json.RawMessage
		IfMatch     any `json:"if_match"`
		IfNoneMatch any `json:"if_none_match"`
	}](r)
	if err != nil {
		return nil, err
	}
	var conditions []client.Condition
	if a.IfMatch != nil {
		var revision int64
		if _, err := fmt.Sscan(strings.Trim(fmt.Sprint(a.IfMatch), `"`), &revision); err != nil {
			return nil, err
		}
		conditions = append(conditions, client.IfRevision(revision))
	}
	if a.IfNoneMatch != nil && a.IfNoneMatch != false {
		conditions = append(conditions, client.IfAbsent())
	}
	return rawQueue(d.c.PutQueue(ctx, a.Queue, a.Spec, conditions...))
}

func rawQueue(q *client.Queue, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return q.Raw, nil
}

func getQueue(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[named](r)
	if err != nil {
		return nil, err
	}
	return rawQueue(d.c.Queue(ctx, a.Queue))
}

func deleteQueue(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[struct {
		Queue string
		Force bool
	}](r)
	if err != nil {
		return nil, err
	}
	return nil, d.c.DeleteQueue(ctx, a.Queue, a.Force)
}

func pause(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[named](r)
	if err != nil {
		return nil, err
	}
	return rawQueue(d.c.Pause(ctx, a.Queue, a.Reason, a.Until))
}

func resume(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[named](r)
	if err != nil {
		return nil, err
	}
	return rawQueue(d.c.Resume(ctx, a.Queue))
}

func forecast(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[named](r)
	if err != nil {
		return nil, err
	}
	settings := slices.Clone(a.Set)
	if a.Rate != "" {
		settings = append(settings, "rate="+a.Rate)
	}
	f, err := d.c.Forecast(ctx, a.Queue, settings...)
	return f.Raw, err
}

func events(ctx context.Context, d *driver, r *request) (any, error) {
	a, err := args[named](r)
	if err != nil {
		return nil, err
	}
	kinds := []string{}
	for e, err := range d.c.Events(ctx, a.Queue) {
		if err != nil {
			return nil, err
		}
		if kinds = append(kinds, e.Kind); len(kinds) >= a.Count {
			break
		}
	}
	return map[string]any{"kinds": kinds}, nil
}
