package queuetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
