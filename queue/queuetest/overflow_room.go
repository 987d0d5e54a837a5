package queuetest

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

// roomListener counts the announcements of queues that have room again.
type roomListener struct {
	*rig
	names  <-chan string
	cancel context.CancelFunc
}

func (r *rig) listenRoom() *roomListener {
	ctx, cancel := context.WithCancel(r.ctx)
	return &roomListener{rig: r, names: r.e.Room(ctx), cancel: cancel}
}

// until waits a moment for an announcement of the named queue and returns the number of announcements of each queue
// until then. It returns nil if none comes.
func (e *roomListener) until(name string) map[string]int {
	e.Helper()
	heard := map[string]int{}
	patience := time.After(100 * time.Millisecond)
	for {
		select {
		case got, ok := <-e.names:
			if !ok {
				e.Fatal("the channel was closed")
			}
			heard[got]++
			if got == name {
				return heard
			}
		case <-patience:
			return nil
		}
	}
}

// onePlaceQueue is a queue of one place with a backlog, whose place can be freed repeatedly.
type onePlaceQueue struct {
	*fakeOverflow
	n int
}

func (r *rig) onePlaceQueue(queueName string) *onePlaceQueue {
	r.Helper()
	s := &onePlaceQueue{fakeOverflow: r.overflowOf(queueName, "unlimited", withCapacity(1), leased(time.Second, 2))}
	s.looks()
	return s
}

// looks sends a Readmit that finds one job behind.
func (s *onePlaceQueue) looks() {
	s.Helper()
	s.readmit(queue.ReadmitRequest{Queue: s.q, Holder: s.holder, Behind: 1})
}

// fill puts a job into the only place.
func (s *onePlaceQueue) fill() string {
	s.Helper()
	s.n++
	j := job(s.q, fmt.Sprint("x", s.n))
	j.ExpiresAt = s.clock.Now().Add(time.Minute).Time()
	s.acceptJobs(j)
	return j.ID
}

// frees frees the only place.
func (s *onePlaceQueue) frees() {
	s.Helper()
	s.cancels(queue.Cancelled, s.q, s.fill())
}

// heard returns the number of announcements of each queue until one of last, which must come.
func (e *roomListener) heard(last *onePlaceQueue) map[string]int {
	e.Helper()
	for range 100 {
		last.looks()
		last.frees()
		if heard := e.until(last.q); heard != nil {
			delete(heard, last.q)
			return heard
		}
	}
	e.Fatalf("the room of %s was never announced", last.q)
	return nil
}

var roomRules = []rule{
	{"a queue announces a place that becomes free", func(r *rig) {
		one := func(s *onePlaceQueue) queue.Reservation { s.Helper(); return s.grant(s.q, 1, s.fill())[0] }
		for i, tt := range []struct {
			what string
			free func(s *onePlaceQueue)
		}{
			{"delivered", func(s *onePlaceQueue) { s.deliver(one(s)) }},
			{"buried", func(s *onePlaceQueue) { s.settled(queue.Dead, settlement(queue.Bury, one(s))) }},
			{"failed for the last time", func(s *onePlaceQueue) {
				v := one(s)
				s.fail(0, v)
				s.settled(queue.Dead, settlement(queue.Fail, s.grant(s.q, 1, v.ID)[0]))
			}},
			{"its lease ran out for the last time", func(s *onePlaceQueue) {
				v := one(s)
				s.clock.Advance(time.Second)
				s.grant(s.q, 1, v.ID)
				s.clock.Advance(time.Second)
				s.grant(s.q, 1)
			}},
			{"cancelled while it waited", func(s *onePlaceQueue) { s.frees() }},
			{"cancelled while it was scheduled", func(s *onePlaceQueue) {
				v := one(s)
				s.fail(time.Hour, v)
				s.cancels(queue.Cancelled, s.q, v.ID)
			}},
			{"expired", func(s *onePlaceQueue) {
				s.fill()
				s.clock.Advance(2 * time.Minute)
				s.grant(s.q, 1)
			}},
			{"a larger capacity", func(s *onePlaceQueue) {
				// Without a backlog, what the last try left goes away silently.
				s.readmit(queue.ReadmitRequest{Queue: s.q, Holder: s.holder})
				s.queue(s.q, "unlimited", defers, withCapacity(1), leased(time.Second, 2))
				s.drain(s.q)
				s.looks()
				s.fill()
				s.queue(s.q, "unlimited", defers, withCapacity(2), leased(time.Second, 2))
			}},
		} {
			s := r.onePlaceQueue(fmt.Sprint("q", i))
			ear := r.listenRoom()
			spoke := false
			for try := 0; try < 100 && !spoke; try++ {
				r.clock.Advance(2 * time.Second) // or the queue would be silent after its last announcement
				tt.free(s)
				spoke = ear.until(s.q) != nil
			}
			if !spoke {
				r.Fatalf("%s: the room was never announced", tt.what)
			}
			ear.cancel()
			r.delete(s.q)
		}
	}},
	{"without a backlog, or for less than a batch, nothing is announced", func(r *rig) {
		last := r.onePlaceQueue("g.last")
		ear := r.listenRoom()
		defer ear.cancel()
		ear.heard(last)
		plain := r.overflowOf("g.plain", "unlimited", withCapacity(1))
		s := r.overflowOf("g.q", "unlimited", withCapacity(10)) // five may come back, two are a batch
		r.readmit(queue.ReadmitRequest{Queue: s.q, Holder: s.holder, Behind: 10})
		r.readmit(plain.request(0))
		spoke := false
		for try := 0; try < 100 && !spoke; try++ {
			r.clock.Advance(2 * time.Second)
			plain.accept(plain.q, fmt.Sprint("p", try))
			r.readmit(queue.ReadmitRequest{Queue: s.q, Holder: s.holder})
			full := numbered(fmt.Sprint("f", try, "-"), 10)
			r.accept(s.q, full...)
			r.readmit(queue.ReadmitRequest{Queue: s.q, Holder: s.holder, Behind: 10})
			v := r.reserve(s.q, 11)
			r.deliver(v[0]) // plain's, or the first of ten
			r.deliver(v[1])
			if v[0].Queue == v[1].Queue {
				r.Fatalf("granted %+v", v[:2])
			}
			if heard := ear.heard(last); len(heard) != 0 {
				r.Fatalf("announced: %v", heard)
			}
			r.deliver(v[2])
			spoke = ear.until(s.q) != nil
			r.deliver(v[3:]...)
			ear.heard(last)
		}
		if !spoke {
			r.Error("the room for a batch was never announced")
		}
		r.drain(s.q)
	}},
	{"for the last jobs, less than a batch is enough", func(r *rig) {
		s := r.overflowOf("q", "unlimited", withCapacity(10))
		ear := r.listenRoom()
		defer ear.cancel()
		for try := range 100 {
			r.clock.Advance(2 * time.Second)
			r.readmit(queue.ReadmitRequest{Queue: s.q, Holder: s.holder})
			r.accept(s.q, numbered(fmt.Sprint("f", try, "-"), 10)...)
			s.setAside(fmt.Sprint("j", try))
			r.deliver(r.reserve(s.q, 1)...)
			if ear.until(s.q) != nil {
				return
			}
			s.takes(readmit.Returned) // or it would announce more room, and late
			r.drain(s.q)
		}
		r.Error("the room for the last job was never announced")
	}},
	{"a queue announces once a second, whatever happens, and anew after a look", func(r *rig) {
		last, s := r.onePlaceQueue("g.last"), r.onePlaceQueue("g.q")
		ear := r.listenRoom()
		defer ear.cancel()
		ear.heard(last)
		for _, tt := range []struct {
			what  string
			do    func()
			spoke int
		}{
			{"again and again", func() {
				for range 20 {
					s.frees()
				}
			}, 1},
			{"up to a second later", func() {
				s.frees()
				for range 9 {
					r.clock.Advance(111 * time.Millisecond)
					s.frees()
				}
			}, 1},
			{"a second later", func() {
				s.frees()
				r.clock.Advance(time.Second)
				s.frees()
			}, 2},
			{"after a look", func() {
				s.frees()
				s.looks()
				s.frees()
				s.frees()
			}, 2},
			{"after a client that was kept from it", func() {
				s.looks()
				s.frees()
				req := fromHolder("another", s.request(0))
				r.busy(req, queue.ReadmitFor)
				s.frees()
			}, 1},
		} {
			most := 0
			for try := 0; try < 100 && most < tt.spoke; try++ {
				r.clock.Advance(10 * time.Second)
				tt.do()
				n := ear.heard(last)[s.q]
				if most = max(most, n); n > tt.spoke {
					r.Errorf("%s: announced %d times, want %d", tt.what, n, tt.spoke)
				}
			}
			if most < tt.spoke {
				r.Errorf("%s: announced %d times, want at most %d", tt.what, most, tt.spoke)
			}
		}
	}},
	{"the channel is closed with its context", func(r *rig) {
		ear := r.listenRoom()
		ear.cancel()
		ear.ends()
	}},
	{"the channel is closed with the engine", func(r *rig) {
		ear := r.listenRoom()
		defer ear.cancel()
		r.check(r.e.Close())
		r.closed = true
		ear.ends()
	}},
}

// ends waits for the channel to be closed.
func (e *roomListener) ends() {
	e.Helper()
	late := time.After(10 * time.Second)
	for {
		select {
		case _, ok := <-e.names:
			if !ok {
				return
			}
		case <-late:
			e.Fatal("still open after 10 s")
		}
	}
}
