package queuetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

var appendRules = []rule{
	{"a job gets the next position and the instant of its departure", func(r *rig) {
		q := r.queue("q", "10/s")
		t0 := r.clock.Now()
		for i, a := range append(r.accept(q, "a", "b"), r.accept(q, "c")...) {
			want := t0.Add(time.Duration(i) * 100 * time.Millisecond)
			if a.Position != int64(i+1) || !a.ETA.At.Equal(want.Time()) || !a.ETA.Exact {
				r.Errorf("%s: position %d, eta %+v, want %d, exactly %v", a.ID, a.Position, a.ETA, i+1, want.Time())
			}
		}
	}},
	{"the eta counts the cost ahead, and fractions of a microsecond", func(r *rig) {
		q := r.queue("q", "14/s")
		first, second, third := job(q, "a"), job(q, "b"), job(q, "c")
		first.Cost, second.Cost = 3, 4
		a := r.acceptJobs(first, second, third)
		for i, ahead := range []int64{0, 3, 7} {
			want := r.clock.Now() + leaky.Instant((ahead*500_000+6)/7)
			if !a[i].ETA.At.Equal(want.Time()) {
				r.Errorf("%d ahead: eta %v, want %v", ahead, a[i].ETA.At, want.Time())
			}
		}
	}},
	{"the eta counts from the last departure", func(r *rig) {
		q := r.queue("q", "10/s", func(s *queue.Spec) { s.Burst = 2 })
		r.accept(q, "a", "b", "c")
		r.deliver(r.grant(q, 9, "a", "b")...)
		t0 := r.clock.Now()
		r.clock.Advance(30 * time.Millisecond)
		a := r.accept(q, "d")[0]
		if want := t0.Add(200 * time.Millisecond); a.Position != 2 || !a.ETA.At.Equal(want.Time()) || !a.ETA.Exact {
			r.Errorf("position %d, eta %+v, want 2, %v", a.Position, a.ETA, want.Time())
		}
	}},
	{"an eta is exact only while no job can come back and nothing is paused", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b")
		v := r.grant(q, 1, "a")
		exact := func(id string, want bool) {
			r.Helper()
			if a := r.accept(q, id)[0]; a.ETA.Exact != want {
				r.Errorf("%s: exact is %v, want %v", id, a.ETA.Exact, want)
			}
		}
		exact("x1", false)
		r.fail(time.Hour, v...)
		exact("x2", false)
		r.clock.Advance(time.Hour)
		r.deliver(r.grant(q, 1, "a")...)
		exact("x3", true)
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		exact("x4", false)
		r.check(r.e.Resume(r.ctx, q))
		exact("x5", true)
	}},
	{"an invalid job is refused alone, and its field is named", func(r *rig) {
		q := r.queue("q", "10/s")
		bad := []struct {
			field  string
			change func(*queue.Job)
		}{
			{"queue", func(j *queue.Job) { j.Queue = "a{b}" }},
			{"queue", func(j *queue.Job) { j.Queue = "a:b" }},
			{"queue", func(j *queue.Job) { j.Queue = "a/b" }},
			{"queue", func(j *queue.Job) { j.Queue = "a.b.c" }},
			{"queue", func(j *queue.Job) { j.Queue = "a b" }},
			{"queue", func(j *queue.Job) { j.Queue = "a\x00b" }},
			{"queue", func(j *queue.Job) { j.Queue = "" }},
			{"queue", func(j *queue.Job) { j.Queue = strings.Repeat("a", 10_000_000) }},
			{"id", func(j *queue.Job) { j.ID = "" }},
			{"id", func(j *queue.Job) { j.ID = "a b" }},
			{"id", func(j *queue.Job) { j.ID = "a\nb" }},
			{"id", func(j *queue.Job) { j.ID = "ä" }},
			{"id", func(j *queue.Job) { j.ID = strings.Repeat("a", 1<<20) }},
			{"payload", func(j *queue.Job) { j.Payload = make([]byte, queue.MaxPayloadBytes+1) }},
			{"content_type", func(j *queue.Job) { j.ContentType = "text/\x00plain" }},
			{"content_type", func(j *queue.Job) { j.ContentType = strings.Repeat("a", queue.MaxContentTypeBytes+1) }},
			{"cost", func(j *queue.Job) { j.Cost = -1 }},
			{"cost", func(j *queue.Job) { j.Cost = leaky.MaxCost + 1 }},
			{"headers.host", func(j *queue.Job) { j.Headers = map[string]string{"host": "x"} }},
			{"headers.X", func(j *queue.Job) { j.Headers = map[string]string{"X": "a\r\nb"} }},
			{"headers", func(j *queue.Job) { j.Headers = map[string]string{"a b": "x"} }},
			{
				"headers",
				func(j *queue.Job) { j.Headers = map[string]string{"X": strings.Repeat("a", queue.MaxHeaderBytes)} },
			},
		}
		var list []queue.Job
		for i, b := range bad {
			good := job(q, fmt.Sprint("good", i))
			j := job(q, fmt.Sprint("bad", i))
			b.change(&j)
			list = append(list, good, j)
		}
		for i, a := range r.append(list...) {
			if i%2 == 0 {
				if a.Outcome != queue.Accepted || a.Position != int64(i/2+1) {
					r.Errorf("%s beside bad jobs: %+v", a.ID, a)
				}
				continue
			}
			var fe *invalid.Error
			if a.Outcome != queue.Invalid || !errors.As(a.Err, &fe) || fe.Field != bad[i/2].field ||
				len(fe.Error()) > 500 {
				r.Errorf("bad job %d: %v, %.300v; want an *invalid.Error of %s", i/2, a.Outcome, a.Err, bad[i/2].field)
			}
		}
		if i := r.info(q); i.Appended != int64(len(bad)) || i.Refused != 0 {
			r.Errorf("counted %d appended, %d refused", i.Appended, i.Refused)
		}
	}},
	{"jobs of an unknown queue are refused alone", func(r *rig) {
		q := r.queue("q", "10/s")
		a := r.append(job(q, "a"), job("nobody", "a"), job("q.child", "a"), job(q, "b"))
		want := []queue.AppendOutcome{queue.Accepted, queue.UnknownQueue, queue.UnknownQueue, queue.Accepted}
		for i := range a {
			if a[i].Outcome != want[i] || a[i].Err != nil { // a refusal is no error
				r.Errorf("job %d: %v, %v, want %v", i, a[i].Outcome, a[i].Err, want[i])
			}
		}
	}},
	{"appending nothing does nothing", func(r *rig) {
		if a, err := r.e.Append(r.ctx, nil); err != nil || len(a) != 0 {
			r.Errorf("got %v, %v", a, err)
		}
	}},
	{"a very long call keeps its order", func(r *rig) {
		q := r.queue("q", "unlimited")
		want := numbered("j", 2*coalesce.MaxItems+17)
		a := r.accept(q, want...)
		for i := range a {
			if a[i].Position != int64(i+1) {
				r.Fatalf("%s has position %d", a[i].ID, a[i].Position)
			}
		}
		r.sameIDs(r.drain(q), want...)
	}},
	{"jobs of many queues in one call each enter their own queue", func(r *rig) {
		queues := []string{"a", "b", "c.x", "c.y", "d"}
		var list []queue.Job
		for _, q := range queues {
			r.queue(q, "unlimited")
		}
		for i := range 100 {
			list = append(list, job(queues[i*7%len(queues)], fmt.Sprintf("j%03d", i)))
		}
		r.acceptJobs(list...)
		for _, q := range queues {
			var want, got []string
			for _, j := range list {
				if j.Queue == q {
					want = append(want, j.ID)
				}
			}
			for _, v := range r.drain(q) {
				if v.Queue == q {
					got = append(got, v.ID)
				}
			}
			if len(got) > 0 && !slices.Equal(got, want) { // drained with a neighbor on the same partition
				r.Errorf("%s: %v, want %v", q, got, want)
			}
			if i := r.info(q); i.Delivered != int64(len(want)) {
				r.Errorf("%s: %d of %d delivered", q, i.Delivered, len(want))
			}
		}
	}},
	{"payload, content type, headers and cost come out as they went in", func(r *rig) {
		q := r.queue("q", "unlimited")
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		deep := bytes.Repeat([]byte("["), 100_000)
		many := map[string]string{}
		for i := range queue.MaxHeaders {
			many[fmt.Sprint("X-Header-", i)] = strings.Repeat("v", i)
		}
		list := []queue.Job{
			{ID: "nil"},
			{ID: "empty", Payload: []byte{}},
			{ID: "all bytes", Payload: every, ContentType: "application/octet-stream"},
			{
				ID:      "numbers",
				Payload: []byte(`{"big":12345678901234567890123,"small":1e-400,"zero":-0,"empty":[],"none":{}}`),
			},
			{ID: "spaces", Payload: []byte(" { \"a\" :\t1 }\r\n")},
			{ID: "deep", Payload: deep},
			{ID: "zeros", Payload: make([]byte, 1000), ContentType: "x/y; charset=\"z\""},
			{ID: "large", Payload: bytes.Repeat(every, queue.MaxPayloadBytes/256)},
			{
				ID: "headers", Payload: []byte("x"), Headers: many,
				ContentType: strings.Repeat("c", queue.MaxContentTypeBytes),
			},
			{ID: "one header", Headers: map[string]string{"X-Trace": ""}, Cost: leaky.MaxCost},
			{ID: strings.Repeat("i", names.MaxIDBytes)},
			{ID: "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"},
		}
		for i := range list {
			list[i].Queue = q
			list[i].ID = strings.ReplaceAll(list[i].ID, " ", "-")
		}
		r.acceptJobs(list...)
		for i, v := range r.drain(q) {
			want := list[i]
			want.Normalize()
			if v.ID != want.ID || v.Queue != q || !bytes.Equal(v.Payload, want.Payload) ||
				v.ContentType != want.ContentType ||
				!maps.Equal(v.Headers, want.Headers) || v.Cost != want.Cost {
				r.Errorf(
					"%s came out changed: %d bytes, %.80q, %v, cost %d", want.ID, len(v.Payload), v.ContentType,
					v.Headers, v.Cost,
				)
			}
		}
	}},
	{"concurrent callers never fill a queue beyond its capacity", func(r *rig) {
		const capacity = 100
		q := r.queue("q", "10/s", func(s *queue.Spec) { s.Capacity = capacity })
		accepted, _ := r.crowd(16, func(worker int) (n int) {
			for i := range 20 {
				list := jobs(q, numbered(fmt.Sprintf("w%d-%d-", worker, i), 3)...)
				a, err := r.e.Append(r.ctx, list)
				if err != nil {
					r.Errorf("append: %v", err)
				}
				for _, a := range a {
					if a.Outcome == queue.Accepted {
						n++
					} else if a.Outcome != queue.Full {
						r.Errorf("%s: %v, %v", a.ID, a.Outcome, a.Err)
					}
				}
			}
			return n
		})
		if i := r.info(q); accepted != capacity || i.Size() != capacity || i.Appended != capacity ||
			i.Refused != 16*20*3-capacity {
			r.Errorf(
				"%d accepted, %d held, %d counted, %d refused, at a capacity of %d", accepted, i.Size(), i.Appended,
				i.Refused, capacity,
			)
		}
	}},
}
