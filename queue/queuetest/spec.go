package queuetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

// refuses checks that err is the wanted error.
func (r *rig) refuses(err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("got %v, want: %v", err, want)
	}
}

// refusesField checks that err is about a field.
func (r *rig) refusesField(want string, err error) {
	r.Helper()
	var fe *invalid.Error
	if !errors.As(err, &fe) || fe.Field != want {
		r.Errorf("got %v, want an *invalid.Error of %s", err, want)
	}
}

var specRules = []rule{
	{"a new queue has the given values and the defaults", func(r *rig) {
		given := queue.Spec{
			Name: "email", Rate: spec("x", "14/s").Rate, Capacity: 77,
			Deliver: json.RawMessage(` { "http" : {"n": 12345678901234567890} }`),
		}
		want := given
		want.Normalize()
		res, err := r.e.Put(r.ctx, given, 0)
		if err != nil || !res.Created || !res.Changed || res.Revision <= 0 {
			r.Fatalf("put: %+v, %v", res, err)
		}
		if i := r.info("email"); !i.Spec.Equal(want) || i.Revision != res.Revision || i.Pause.On() ||
			i.Pause.Reason != "" {
			r.Errorf("got %+v\nwant %+v", i, want)
		}
	}},
	{"an equal spec changes nothing, however it is written", func(r *rig) {
		s := spec("q", "14/s", func(s *queue.Spec) { s.Deliver = json.RawMessage(`{"a":1,"b":[2]}`) })
		first := r.put(s)
		s.Deliver = json.RawMessage("{\n\"b\": [2], \"a\": 1}")
		for _, expect := range []int64{queue.AnyRevision, first.Revision} {
			if res, err := r.e.Put(r.ctx, s, expect); err != nil || res != (queue.PutResult{Revision: first.Revision}) {
				r.Errorf("put again: %+v, %v", res, err)
			}
		}
		s.Slack++ // not whole microseconds
		if _, err := r.e.Put(r.ctx, s, queue.AnyRevision); err == nil {
			r.Error("a slack of half a microsecond was accepted")
		}
	}},
	{"every change has a new revision", func(r *rig) {
		s := spec("q", "14/s")
		last := r.put(s).Revision
		for i := range 5 {
			s.Capacity = int64(100 + i)
			res := r.put(s)
			if res.Revision <= last || res.Created || !res.Changed {
				r.Errorf("change %d: %+v after revision %d", i, res, last)
			}
			last = res.Revision
			if got := r.info("q"); got.Revision != last || got.Spec.Capacity != s.Capacity {
				r.Errorf("got %+v", got)
			}
		}
	}},
	{"a change needs the expected revision", func(r *rig) {
		s := spec("q", "14/s")
		res, err := r.e.Put(r.ctx, s, 5)
		r.refuses(err, queue.ErrRevision)
		if res.Revision != 0 {
			r.Errorf("no such queue, at revision %d", res.Revision)
		}
		if _, err := r.e.Get(r.ctx, "q"); !errors.Is(err, queue.ErrUnknownQueue) {
			r.Errorf("a refused put made the queue: %v", err)
		}
		res, err = r.e.Put(r.ctx, s, 0)
		r.check(err)
		rev := res.Revision
		s.Capacity = 5
		for _, expect := range []int64{0, rev + 1, rev + 1000} {
			res, err = r.e.Put(r.ctx, s, expect)
			r.refuses(err, queue.ErrRevision)
			if res.Revision != rev || res.Changed || res.Created {
				r.Errorf("refused: %+v, the queue is at %d", res, rev)
			}
		}
		if i := r.info("q"); i.Spec.Capacity == 5 || i.Revision != rev {
			r.Errorf("a refused put changed the queue: %+v", i)
		}
		res, err = r.e.Put(r.ctx, s, rev)
		if err != nil || !res.Changed || res.Revision <= rev {
			r.Errorf("got %+v, %v", res, err)
		}
	}},
	{"an invalid spec is refused with its field and changes nothing", func(r *rig) {
		good := spec("q", "14/s")
		r.put(good)
		for field, change := range map[string]func(*queue.Spec){
			"name":               func(s *queue.Spec) { s.Name = "a..b" },
			"burst":              func(s *queue.Spec) { s.Burst = -1 },
			"capacity":           func(s *queue.Spec) { s.Capacity = -1 },
			"lease":              func(s *queue.Spec) { s.Lease = 1 },
			"slack":              func(s *queue.Spec) { s.Slack = unit.Duration(-time.Second) },
			"retry.max_attempts": func(s *queue.Spec) { s.Retry.MaxAttempts = -1 },
			"retry.min_backoff":  func(s *queue.Spec) { s.Retry.MinBackoff = 1 },
			"retry.max_backoff":  func(s *queue.Spec) { s.Retry.MaxBackoff = unit.Duration(time.Millisecond) },
			"retry.jitter":       func(s *queue.Spec) { s.Retry.Jitter = "some" },
			"retention.for":      func(s *queue.Spec) { s.Retention.For = 1 },
			"retention.max":      func(s *queue.Spec) { s.Retention.Max = -1 },
			"deliver":            func(s *queue.Spec) { s.Deliver = json.RawMessage(`{`) },
		} {
			s := good
			s.Capacity = 123
			change(&s)
			_, err := r.e.Put(r.ctx, s, queue.AnyRevision)
			var fe *invalid.Error
			if !errors.As(err, &fe) || fe.Field != field {
				r.Errorf("%s: got %v", field, err)
			}
		}
		if got := r.all(); len(got) != 1 || !got[0].Spec.Equal(good) {
			r.Errorf("there is %+v", got)
		}
	}},
	{"names of every allowed shape are kept apart", func(r *rig) {
		names := []string{
			"a", "a-b", "a.a", "a.b", "a0", "a_b", "b", "b.a", "0", "0.0",
			strings.Repeat("n", 64) + "." + strings.Repeat("m", 64),
		}
		for i, name := range names {
			r.queue(name, "unlimited", withCapacity(int64(i+1)))
			r.accept(name, "x")
		}
		for i, name := range names {
			if got := r.info(name); got.Spec.Name != name || got.Spec.Capacity != int64(i+1) || got.Waiting != 1 {
				r.Errorf("%s: got %+v", name, got)
			}
		}
	}},
	{"queues are listed by name, in pages", func(r *rig) {
		var names []string
		for i := range 53 {
			names = append(names, fmt.Sprintf("q%02d", i*37%53))
		}
		names = append(names, "q1.x", "q1-x", "q1_x", "q1")
		for _, n := range names {
			r.queue(n, "1/s")
		}
		slices.Sort(names)
		for _, limit := range []int{1, 7, 56, 57, 58, 1000} {
			var got []string
			for after := ""; ; {
				page, err := r.e.List(r.ctx, after, limit)
				if err != nil || len(page) > limit {
					r.Fatalf("list: %d of at most %d, %v", len(page), limit, err)
				}
				for _, i := range page {
					got = append(got, i.Spec.Name)
				}
				if len(page) == 0 {
					break
				}
				after = got[len(got)-1]
			}
			if !slices.Equal(got, names) {
				r.Errorf("pages of %d: %v", limit, got)
			}
		}
		page, err := r.e.List(r.ctx, "q1-", 2) // the name of no queue
		if err != nil || len(page) != 2 || page[0].Spec.Name != "q1-x" || page[1].Spec.Name != "q1.x" {
			r.Errorf("behind q1-: %v, %v", page, err)
		}
		if page, err := r.e.List(r.ctx, "zzz", 9); err != nil || len(page) != 0 {
			r.Errorf("after all: %v, %v", page, err)
		}
	}},
	{"a pause is separate from the spec", func(r *rig) {
		q := r.queue("q", "10/s")
		rev := r.info(q).Revision
		r.check(r.e.Pause(r.ctx, q, queue.Pause{Reason: "the provider is down"}))
		r.check(r.e.Pause(r.ctx, q, queue.Pause{Reason: "the provider is down"}))
		if i := r.info(q); !i.Pause.On() || i.Pause.Reason != "the provider is down" || i.Revision != rev {
			r.Errorf("got %+v", i)
		}
		r.queue(q, "20/s")
		if i := r.info(q); !i.Pause.On() || i.Revision == rev {
			r.Errorf("a change of the spec resumed it: %+v", i)
		}
		r.accept(q, "a")
		r.grant(q, 9)
		r.check(r.e.Resume(r.ctx, q))
		r.check(r.e.Resume(r.ctx, q))
		if i := r.info(q); i.Pause.On() || i.Pause.Reason != "" {
			r.Errorf("got %+v", i)
		}
		r.grant(q, 9, "a")
	}},
	{"granted jobs leave a paused queue", func(r *rig) {
		q := r.queue("q", "10/s")
		r.accept(q, "a", "b")
		v := r.grant(q, 9, "a")
		r.check(r.e.Pause(r.ctx, q, queue.Pause{}))
		r.deliver(v...)
		r.clock.Advance(time.Minute)
		r.grant(q, 9)
		r.fail(0, r.resumed(q, 1)...)
	}},
	{"a child is a queue of its own", func(r *rig) {
		p, c := r.queue("g", "unlimited"), r.queue("g.c", "10/s")
		r.accept(p, "a")
		r.accept(c, "a", "b")
		got := r.reserve(p, 9)
		if len(got) != 2 || got[0].Queue != p || got[1].Queue != c {
			r.Errorf("granted %+v", got)
		}
	}},
	{"an unknown queue is not found", func(r *rig) {
		for _, name := range []string{"nobody", "not a name", "", "a{b}", strings.Repeat("n", 1<<20)} {
			_, err := r.e.Get(r.ctx, name)
			r.refuses(err, queue.ErrUnknownQueue)
			_, err = r.e.Job(r.ctx, name, "a")
			r.refuses(err, queue.ErrUnknownQueue)
			r.refuses(r.e.Delete(r.ctx, name, queue.AnyRevision, true), queue.ErrUnknownQueue)
			r.refuses(r.e.Pause(r.ctx, name, queue.Pause{}), queue.ErrUnknownQueue)
			r.refuses(r.e.Resume(r.ctx, name), queue.ErrUnknownQueue)
		}
		if got, err := r.e.List(r.ctx, "", 10); err != nil || len(got) != 0 {
			r.Errorf("list: %v, %v", got, err)
		}
		if got, err := r.e.Totals(r.ctx); err != nil || got != (queue.Totals{}) {
			r.Errorf("totals: %+v, %v", got, err)
		}
	}},
}

// resumed resumes a queue and reserves from it.
func (r *rig) resumed(queueName string, most int) []queue.Reservation {
	r.Helper()
	r.check(r.e.Resume(r.ctx, queueName))
	return r.reserve(queueName, most)
}
