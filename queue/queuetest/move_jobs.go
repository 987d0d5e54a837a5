package queuetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

var moveJobRules = []rule{
	{"the head of an ordered queue still blocks it", func(r *rig) {
		q := r.queue("q", "unlimited", ordered)
		r.acceptJobs(jobsOfLane("a", q, "a1", "a2")...)
		r.acceptJobs(jobsOfLane("b", q, "b1")...)
		v := r.reserve(q, 2)
		for _, j := range v {
			if j.ID == "a1" {
				r.fail(time.Minute, j)
			} else {
				r.release(j)
			}
		}
		m := r.export(q)
		r.move(m)
		r.deliver(r.grant(q, 9, "b1")...)
		r.clock.Advance(time.Minute)
		r.deliver(r.grant(q, 9, "a1")...)
		r.deliver(r.grant(q, 9, "a2")...)
	}},
	{"payloads of every size and byte are moved, in pages of bounded size", func(r *rig) {
		q := r.queue("q", "unlimited")
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		var list []queue.Job
		for i := range 30 {
			j := job(q, fmt.Sprintf("j%02d", i))
			j.Payload = slices.Repeat(every, 1+i*50)
			list = append(list, j)
		}
		list = append(list, queue.Job{Queue: q, ID: "none"}, queue.Job{
			Queue: q, ID: "number", Payload: []byte("[12345678901234567890, 1.0, {}]"),
		})
		r.acceptJobs(list...)
		m := r.export(q)
		first, err := r.mover().ExportJobs(r.ctx, move.ExportRequest{Queue: q, State: queue.Waiting})
		r.check(err)
		if first.Next == "" || len(first.Jobs) == 0 {
			r.Errorf("a page of %d jobs of 5 MB, next %q", len(first.Jobs), first.Next)
		}
		r.move(m)
		for i, v := range r.drain(q) {
			if string(v.Payload) != string(list[i].Payload) || v.ID != list[i].ID {
				r.Errorf("%s differs", v.ID)
			}
		}
	}},
	{"ended jobs are remembered until their original time", func(r *rig) {
		q := r.queue("q", "unlimited", remember(time.Minute))
		r.accept(q, "a")
		r.deliver(r.grant(q, 9, "a")...)
		m := r.export(q)
		r.clock.Advance(50 * time.Second)
		r.move(m)
		r.outcome(queue.Duplicate, job(q, "a"))
		r.clock.Advance(11 * time.Second)
		r.erase(q)
		r.open(m)
		r.fill(m, move.Forgotten)
		r.close(m)
		r.outcome(queue.Accepted, job(q, "a"))
	}},
	{"a dead job that was moved can be replayed and forgotten", func(r *rig) {
		q := r.queue("q", "unlimited", remember(time.Minute))
		r.accept(q, "a", "b")
		r.bury(q)
		r.bury(q)
		r.move(r.export(q))
		out, err := r.e.Replay(r.ctx, q, []string{"a"})
		r.check(err)
		if out[0] != queue.Replayed {
			r.Errorf("replay: %v", out[0])
		}
		r.deliver(r.grant(q, 9, "a")...)
		gone, err := r.e.Forget(r.ctx, q, []string{"b"})
		r.check(err)
		if !gone[0] {
			r.Error("it was not forgotten")
		}
	}},
	{"jobs that cannot be imported are refused", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		m := r.export(q)
		r.erase(q)
		_, err := r.mover().ImportJobs(r.ctx, q, mark, m.jobs)
		r.refuses(err, queue.ErrUnknownQueue)
		r.open(m)
		good := m.jobs[0]
		for name, change := range map[string]func(*move.Job){
			"id":       func(j *move.Job) { j.ID = "a b" },
			"state":    func(j *move.Job) { j.State = queue.Leased },
			"turn":     func(j *move.Job) { j.Turn = 1 << 60 },
			"record":   func(j *move.Job) { j.Record = []byte("x") },
			"attempts": func(j *move.Job) { j.Attempts = -1 },
			"at":       func(j *move.Job) { j.AppendedAt = time.Unix(-1, 0) },
			"reason":   func(j *move.Job) { j.Reason = strings.Repeat("x", queue.MaxReasonBytes+1) },
		} {
			bad := good
			change(&bad)
			_, err := r.mover().ImportJobs(r.ctx, q, mark, []move.Job{bad})
			var field *invalid.Error
			if !errors.As(err, &field) || !strings.HasSuffix(field.Field, "."+name) {
				r.Errorf("%s: %v", name, err)
			}
		}
		_, err = r.mover().ExportJobs(r.ctx, move.ExportRequest{Queue: q, State: queue.Deferred})
		var field *invalid.Error
		if !errors.As(err, &field) {
			r.Errorf("export of deferred jobs: %v", err)
		}
		_, err = r.mover().ExportJobs(r.ctx, move.ExportRequest{Queue: q, State: queue.Dead, After: "x"})
		if !errors.As(err, &field) {
			r.Errorf("a foreign cursor: %v", err)
		}
		_, err = r.mover().ExportQueue(r.ctx, "nobody")
		r.refuses(err, queue.ErrUnknownQueue)
		r.fill(m, move.Placed)
		r.close(m)
	}},
}

// exportedQueue is a queue as exported.
type exportedQueue struct {
	queue move.Queue
	jobs  []move.Job
}

func (r *rig) mover() move.Mover {
	r.Helper()
	m, ok := r.e.(move.Mover)
	if !ok {
		r.Fatalf("%T is no move.Mover", r.e)
	}
	return m
}

func (r *rig) export(name string) (m exportedQueue) {
	r.Helper()
	var err error
	if m.queue, err = r.mover().ExportQueue(r.ctx, name); err != nil {
		r.Fatalf("export %s: %v", name, err)
	}
	for _, s := range []queue.State{
		queue.Dead, queue.Scheduled, queue.Waiting, queue.Leased, queue.Held, queue.Delivered,
	} {
		m.jobs = append(m.jobs, r.exportState(name, s)...)
	}
	return m
}

func (r *rig) exportState(name string, s queue.State) (jobs []move.Job) {
	r.Helper()
	for q := (move.ExportRequest{Queue: name, State: s}); ; {
		page, err := r.mover().ExportJobs(r.ctx, q)
		if err != nil {
			r.Fatalf("export %s, %v: %v", name, s, err)
		}
		if len(page.Jobs) > queue.MaxPage {
			r.Fatalf("a page of %d jobs", len(page.Jobs))
		}
		jobs = append(jobs, page.Jobs...)
		if q.After = page.Next; q.After == "" {
			return jobs
		}
	}
}

const mark = "the-import"

func (r *rig) open(m exportedQueue) {
	r.Helper()
	if closed, err := r.mover().OpenImport(r.ctx, m.queue, mark); err != nil || closed {
		r.Fatalf("open the import of %s: %v, closed %v", m.queue.Spec.Name, err, closed)
	}
}

func (r *rig) fill(m exportedQueue, want move.Outcome) {
	r.Helper()
	for jobs := range slices.Chunk(m.jobs, 70) {
		out, err := r.mover().ImportJobs(r.ctx, m.queue.Spec.Name, mark, jobs)
		if err != nil || len(out) != len(jobs) {
			r.Fatalf("import: %d answers to %d jobs, %v", len(out), len(jobs), err)
		}
		for i, o := range out {
			if o != want {
				r.Fatalf("import %s, %v: %v, want %v", jobs[i].ID, jobs[i].State, o, want)
			}
		}
	}
}

// erase deletes a queue and its dead jobs, as if it had been in another store.
func (r *rig) erase(name string) {
	r.Helper()
	r.delete(name)
	l, err := r.e.ListJobs(r.ctx, queue.ListRequest{Queue: name, State: queue.Dead, Limit: queue.MaxPage})
	if err == nil {
		_, err = r.e.Forget(r.ctx, name, strings.Fields(namesOf(l.Jobs)))
		r.check(err)
	}
}

func (r *rig) close(m exportedQueue) {
	r.Helper()
	if err := r.mover().CloseImport(r.ctx, m.queue, mark); err != nil {
		r.Fatalf("close the import: %v", err)
	}
}

// move imports a queue in its own place.
func (r *rig) move(m exportedQueue) {
	r.Helper()
	r.erase(m.queue.Spec.Name)
	r.open(m)
	r.fill(m, move.Placed)
	r.close(m)
}

// text formats the parts of an export that must stay the same.
func (m exportedQueue) text() string {
	var b strings.Builder
	q := m.queue
	fmt.Fprintf(
		&b, "%s paused %+v turn %d max cost %d held %d dead %d %+v %d errors learned %q\n", q.Spec.Name, q.Pause, q.Turn,
		q.MaxCost, q.Held, q.Dead, q.Counts, len(q.Errors), q.Learned,
	)
	for _, j := range m.jobs {
		fmt.Fprintf(&b, "%s %v turn %d appended %d at %d attempts %d %q %x back %v holds %v %x %d %x\n", j.ID, j.State,
			j.Turn, instantOf(j.AppendedAt), instantOf(j.At),
			j.Attempts, j.Reason, j.Timeline, j.Back, j.HoldsLane, j.Fingerprint, j.Cost, j.Record)
	}
	return b.String()
}

func (r *rig) sameExport(got, want exportedQueue) {
	r.Helper()
	a, b := strings.Split(got.text(), "\n"), strings.Split(want.text(), "\n")
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			r.Fatalf("line %d of the export differs:\n got %s\nwant %s", i, x, y)
		}
	}
}

// lively makes a queue with jobs in all states, several lanes and priorities.
func (r *rig) lively(rate string, change ...func(*queue.Spec)) string {
	r.Helper()
	q := r.queue("q", rate, append(change, remember(time.Hour), func(s *queue.Spec) { s.Retry.MaxAttempts = 3 })...)
	r.accept(q, "d1", "d2", "f1", "f2", "f3", "x1")
	for range 40 {
		if i := r.info(q); i.Waiting == 0 {
			break
		}
		for _, v := range r.reserve(q, 1) {
			switch v.ID[0] {
			case 'd':
				r.deliver(v)
			case 'f':
				r.fail(time.Duration(10+v.ID[1])*time.Second, v)
			case 'x':
				s := settlement(queue.Bury, v)
				s.Reason = "no such \"user\" \u00e9\n"
				r.settled(queue.Dead, s)
			}
		}
		r.clock.Advance(time.Second)
	}
	for i := range 120 {
		j := job(q, fmt.Sprintf("w%03d", i))
		j.Lane = []string{"", "a", "b", "tenant c"}[i%4]
		j.Priority = i % 3
		j.Cost = int64(1 + i%2)
		if i%7 == 0 {
			j.NotBefore = r.clock.Now().Time().Add(time.Duration(i+1) * time.Second)
		}
		if i%5 == 0 {
			j.ExpiresAt = r.clock.Now().Time().Add(24 * time.Hour)
		}
		if i%11 == 0 {
			j.ContentType, j.Headers = "text/plain", map[string]string{"X-Trace": "1"}
		}
		if a := r.append(j)[0]; a.Outcome != queue.Accepted {
			r.Fatalf("append %s: %v, %v", j.ID, a.Outcome, a.Err)
		}
	}
	if s, err := r.e.Cancel(r.ctx, q, "w001"); err != nil || s != queue.Cancelled {
		r.Fatalf("cancel: %v, %v", s, err)
	}
	r.release(r.reserve(q, 1)...)
	return q
}

func err0[T any](_ T, err error) error { return err }

// bury buries the first job of a queue.
func (r *rig) bury(q string) {
	r.Helper()
	s := settlement(queue.Bury, r.reserve(q, 1)[0])
	s.Reason = "no"
	r.settled(queue.Dead, s)
}

// sortedByLane returns the departures lane by lane, since the turns of lanes are not moved.
func sortedByLane(m exportedQueue, departed []string) []string {
	lane := map[string]string{}
	for _, j := range m.jobs {
		if j.Record != nil {
			lane[j.ID], _, _ = jobrecord.UnpackLane(j.Record)
		}
	}
	out := slices.Clone(departed)
	slices.SortStableFunc(out, func(a, b string) int { return strings.Compare(lane[a], lane[b]) })
	return out
}
