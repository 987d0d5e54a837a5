package api_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

// engine is the least that answers like one: a map of queues that only fill up.
// What engines really do is queue/queuetest's business; here it is what HTTP
// makes of their answers that counts, the rare ones too.
type engine struct {
	queue.Engine // what is not here is not used by the API

	mu       sync.Mutex
	queues   map[string]*fifo
	revision int64
	err      error // answered by everything, when not nil
	readErr  error // answered by Get, when not nil
	appends  []int // the sizes of the calls to Append
	rules    map[string]*ruled
	takes    []int           // the sizes of the calls to Take
	away     string          // what decides in place of the store
	limited  *queue.Appended // answered by Append, when not nil
	// undrained is for how long no drainer was seen, when not 0.
	undrained time.Duration
	// jumped is how long ago the clock of the host jumped; 0 if it never did.
	jumped time.Duration
	before func(jobs []queue.Job)
	space  queue.Space
}

type fifo struct {
	info queue.Info
	jobs map[string]queue.Job
	ids  []string
}

var epoch = time.Date(2026, 5, 4, 3, 2, 1, 123456000, time.UTC)

func newEngine() *engine { return &engine{queues: map[string]*fifo{}} }

func (e *engine) Space(context.Context) (queue.Space, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.space, e.err
}

func (e *engine) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

func (e *engine) Append(_ context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	if e.before != nil {
		e.before(jobs)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.appends = append(e.appends, len(jobs))
	answers := make([]queue.Appended, len(jobs))
	for i := range jobs {
		answers[i] = e.append(jobs[i])
		answers[i].ID = jobs[i].ID
	}
	return answers, e.err
}

func (e *engine) append(j queue.Job) queue.Appended {
	if e.err != nil {
		return queue.Appended{Err: e.err}
	}
	if e.limited != nil {
		return *e.limited
	}
	j.Normalize()
	if err := j.Validate(); err != nil {
		return queue.Appended{Outcome: queue.Invalid, Err: err}
	}
	q := e.queues[j.Queue]
	if q == nil {
		return queue.Appended{Outcome: queue.UnknownQueue}
	}
	if old, ok := q.jobs[j.ID]; ok {
		if old.Fingerprint() != j.Fingerprint() {
			return queue.Appended{Outcome: queue.Conflict}
		}
		return queue.Appended{Outcome: queue.Duplicate, State: queue.Waiting, Position: int64(slices.Index(q.ids, j.ID) + 1)}
	}
	if int64(len(q.ids)) >= q.info.Spec.Capacity {
		return queue.Appended{Outcome: queue.Full, RetryAfter: 1234567 * time.Microsecond}
	}
	j.Payload = bytes.Clone(j.Payload)
	q.jobs[j.ID] = j
	q.ids = append(q.ids, j.ID)
	return queue.Appended{
		Outcome: queue.Accepted, State: queue.Waiting, Position: int64(len(q.ids)), ETA: queue.ETA{At: epoch, Exact: true},
	}
}

func (e *engine) find(name string) (*fifo, error) {
	if e.err != nil {
		return nil, e.err
	}
	q := e.queues[name]
	if q == nil {
		return nil, queue.ErrUnknownQueue
	}
	return q, nil
}

func (e *engine) Put(_ context.Context, s queue.Spec, expect int64) (queue.PutResult, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return queue.PutResult{}, e.err
	}
	q, present := e.queues[s.Name], int64(0)
	if q != nil {
		present = q.info.Revision
	}
	if expect != queue.AnyRevision && expect != present {
		return queue.PutResult{Revision: present}, queue.ErrRevision
	}
	if q == nil {
		q = &fifo{jobs: map[string]queue.Job{}}
		e.queues[s.Name] = q
	}
	e.revision++
	q.info.Spec, q.info.Revision = s, e.revision
	return queue.PutResult{Revision: e.revision, Created: present == 0, Changed: true}, nil
}

func (e *engine) Get(_ context.Context, name string) (queue.Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q, err := e.find(name)
	if err == nil {
		err = e.readErr
	}
	if err != nil {
		return queue.Info{}, err
	}
	info := q.info
	info.Waiting = int64(len(q.ids))
	if info.Waiting > 0 {
		info.OldestWaiting, info.Next = epoch, epoch
		info.Errors = []queue.LastError{{At: epoch, ID: q.ids[0], Reason: "the receiver said 500"}}
	}
	return info, nil
}

func (e *engine) List(_ context.Context, after string, limit int) ([]queue.Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []queue.Info
	for name, q := range e.queues {
		if name > after {
			list = append(list, q.info)
		}
	}
	slices.SortFunc(list, func(a, b queue.Info) int { return strings.Compare(a.Spec.Name, b.Spec.Name) })
	return list[:min(limit, len(list))], e.err
}

func (e *engine) Readings(context.Context) ([]queue.Reading, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []queue.Reading
	for name, q := range e.queues {
		all = append(all, queue.Reading{Name: name, Revision: q.info.Revision, Size: int64(len(q.ids)), Now: epoch})
	}
	return all, e.err
}

func (e *engine) GetMany(ctx context.Context, names []string) (some []queue.Info, err error) {
	for _, name := range names {
		if i, err := e.Get(ctx, name); err == nil {
			some = append(some, i)
		}
	}
	return some, e.err
}

func (e *engine) Delete(_ context.Context, name string, expect int64, force bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	q, err := e.find(name)
	switch {
	case err != nil:
		return err
	case expect != queue.AnyRevision && expect != q.info.Revision:
		return queue.ErrRevision
	case len(q.ids) > 0 && !force:
		return queue.ErrNotEmpty
	}
	delete(e.queues, name)
	return nil
}

func (e *engine) Pause(ctx context.Context, name string, p queue.Pause) error {
	if err := p.ValidateAhead(epoch); err != nil {
		return err
	}
	p.Since = epoch
	actor, _ := audit.ActorOf(ctx)
	p.By, p.Note = actor.Name, actor.Note
	return e.setPaused(name, p)
}

func (e *engine) Resume(_ context.Context, name string) error {
	return e.setPaused(name, queue.Pause{})
}

func (e *engine) setPaused(name string, p queue.Pause) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	q, err := e.find(name)
	if err == nil {
		q.info.Pause = p
	}
	return err
}

func (e *engine) Drainers(context.Context) (queue.Drainers, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.undrained != 0 {
		return queue.Drainers{Last: epoch, Now: epoch.Add(e.undrained)}, e.err
	}
	d := queue.Drainer{Client: queue.Client{ID: "c1", Name: "host:1", Version: "v1"}, LastSeen: epoch}
	seen := queue.Drainers{Seen: []queue.Drainer{d}, Last: epoch, Now: epoch}
	if e.jumped != 0 {
		seen.Clock = queue.ClockState{Ahead: -time.Hour, Jumps: 1, Jumped: epoch.Add(-e.jumped)}
	}
	return seen, e.err
}

func (e *engine) Job(_ context.Context, name, id string) (queue.JobInfo, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q, err := e.find(name)
	if err != nil {
		return queue.JobInfo{}, err
	}
	j, ok := q.jobs[id]
	if !ok {
		return queue.JobInfo{}, queue.ErrUnknownJob
	}
	return queue.JobInfo{
		Queue: name, ID: id, State: queue.Waiting, Position: int64(slices.Index(q.ids, id) + 1),
		ETA: queue.ETA{At: epoch, Exact: true}, Cost: j.Cost, Lane: j.Lane, Priority: j.Priority, AppendedAt: epoch,
	}, nil
}

func (e *engine) Cancel(_ context.Context, name, id string) (queue.State, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q, err := e.find(name)
	if err != nil {
		return queue.StateNone, err
	}
	if _, ok := q.jobs[id]; !ok {
		return queue.StateNone, queue.ErrUnknownJob
	}
	if at := slices.Index(q.ids, id); at >= 0 {
		q.ids = slices.Delete(q.ids, at, at+1)
	}
	return queue.Cancelled, nil
}

func (e *engine) Record(context.Context, audit.Entry) error { return nil }

func (e *engine) Check(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}
