package queuetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// neighbor makes a queue on the partition of another one, in a different group.
func (r *rig) neighbor(other, rate string) string {
	r.Helper()
	for i := range 1000 {
		if name := fmt.Sprint("neighbor", i); r.partition(name) == r.partition(other) {
			return r.queue(name, rate)
		}
	}
	r.Fatal("no name is on the partition of " + other)
	return ""
}

// shared reserves jobs, of some queues at most their shares.
func (r *rig) shared(client, queueName string, most int, shares map[string]int) queue.Reserved {
	r.Helper()
	req := r.request(client, queueName, most)
	req.Shares = shares
	return r.do(req)
}

// short checks which queues an answer calls short, and when to ask again.
func (r *rig) short(res queue.Reserved, next time.Duration, want ...string) {
	r.Helper()
	if !slices.Equal(res.Short, want) || res.Next != next {
		r.Errorf("short %v, next in %v; want %v, %v", res.Short, res.Next, want, next)
	}
}

var shareRules = []rule{
	{"a queue is granted at most its share", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 50)...)
		res := r.shared("client", q, 40, map[string]int{q: 35})
		if len(res.Jobs) != 35 {
			r.Errorf("granted %d, want 35", len(res.Jobs))
		}
		r.short(res, 2*time.Second, q)
		r.short(r.shared("client", q, 40, map[string]int{q: 0}), 2*time.Second, q)
		if res := r.shared("client", q, 40, map[string]int{q: 15}); len(res.Jobs) != 15 || len(res.Short) != 0 {
			r.Errorf("granted the last %d, short %v", len(res.Jobs), res.Short)
		}
	}},
	{"a queue with lanes has one share", func(r *rig) {
		q := r.queue("q", "unlimited")
		for lane := range 3 {
			r.appendToLane(q, fmt.Sprint("lane", lane), fmt.Sprint(lane), 5, 1)
		}
		res := r.shared("client", q, 40, map[string]int{q: 7})
		if len(res.Jobs) != 7 {
			r.Errorf("granted %d, want 7", len(res.Jobs))
		}
		r.short(res, 2*time.Second, q)
	}},
	{"passing a queue over costs the others nothing, and its slots are not saved up", func(r *rig) {
		q := r.queue("q", "10/s")
		other := r.neighbor(q, "4/s")
		r.accept(q, numbered("j", 50)...)
		r.accept(other, numbered("k", 50)...)
		none := map[string]int{q: 0}
		for range 8 {
			res := r.shared("client", q, 9, none)
			if len(res.Jobs) != 1 || res.Jobs[0].Queue != other || len(res.Lost) != 0 {
				r.Fatalf("granted %v, lost %v; want one of %s and nothing lost", ids(res.Jobs), res.Lost, other)
			}
			r.deliver(res.Jobs...)
			r.short(res, 225*time.Millisecond, q)
			r.clock.Advance(250 * time.Millisecond)
		}
		if res := r.reserveAs("client", q, 9); res.Lost[q] != 20 || len(res.Jobs) != 2 {
			r.Errorf("granted %v, lost %v; want one of each queue and 20 slots lost", ids(res.Jobs), res.Lost)
		}
	}},
	{"a queue that is not due is not short", func(r *rig) {
		q := r.queue("q", "1/s")
		r.accept(q, "a", "b")
		res := r.shared("client", q, 9, map[string]int{q: 1, "nobody": 0})
		r.sameIDs(res.Jobs, "a")
		r.short(res, 975*time.Millisecond)
		r.clock.Advance(975 * time.Millisecond)
		r.short(r.shared("client", q, 9, map[string]int{q: 0}), 2*time.Second, q)
	}},
	{"members of a group are passed over and keep their turn", func(r *rig) {
		r.group("p unlimited", "a unlimited", "b unlimited")
		r.appendMember("p", 4, 1)
		r.appendMember("a", 9, 1)
		r.appendMember("b", 4, 1)
		res := r.shared("client", "ses", 40, map[string]int{"ses": 1, "ses.a": 2})
		if len(res.Jobs) != 7 {
			r.Errorf("granted %v, want 1, 2 and all 4", ids(res.Jobs))
		}
		r.short(res, 2*time.Second, "ses", "ses.a")
		r.sameDepartures(r.order("ses", 4), "ppap") // p has had one turn fewer
	}},
	{"a resting member determines when to ask", func(r *rig) {
		r.group("p unlimited", "a unlimited", "b 2/s")
		r.appendMember("a", 9, 1)
		r.appendMember("b", 4, 1)
		res := r.shared("client", "ses", 40, map[string]int{"ses.a": 0})
		if len(res.Jobs) != 1 {
			r.Errorf("granted %v, want one of b", ids(res.Jobs))
		}
		r.short(res, 475*time.Millisecond, "ses.a")
	}},
	{"a repeated request grants nothing more, whatever its shares", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a", "b", "c")
		req := r.request("client", q, 9)
		req.Shares = map[string]int{q: 1}
		r.sameIDs(r.do(req).Jobs, "a")
		req.Shares = nil
		r.sameIDs(r.do(req).Jobs, "a")
	}},
	{"a client that starts to leave a queue behind wakes the others, once", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 50)...)
		full := map[string]int{q: 0}
		r.reserveAs("two", q, 1)
		r.watching("one", q)
		r.accept(q, numbered("k", 50)...)
		ear := r.listen(q)
		defer ear.cancel()
		for i := 0; ; i++ { // a subscription takes a moment to become active
			if r.reserveAs("two", q, 1); i == 100 {
				r.Fatalf("nobody was woken; heard %v", ear.heard)
			}
			r.shared("one", q, 9, map[string]int{}) // nothing is left behind, so the next time is the first
			r.accept(q, numbered(fmt.Sprint("l", i, "-"), 40)...)
			r.clock.Advance(300 * time.Millisecond)
			if r.shared("one", q, 9, full); ear.hears("") {
				break
			}
		}
		if res := r.reserveAs("two", q, 9); len(res.Jobs) != 9 {
			r.Errorf("the woken client is granted %d, want 9", len(res.Jobs))
		}
		r.shared("two", q, 9, full)
		for ear.hears("") { // it leaves the queue behind in turn
		}
		for range 3 {
			r.clock.Advance(300 * time.Millisecond)
			r.shared("one", q, 9, full)
			r.shared("two", q, 9, full)
			if ear.hears("") {
				r.Error("woken although no client has a free handler for it")
			}
		}
	}},
	{"a request without a free handler does not wake others again for the same queue", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, numbered("j", 50)...)
		full := map[string]int{q: 0}
		r.reserveAs("two", q, 1)
		r.watching("one", q)
		ear := r.listen(q)
		defer ear.cancel()
		for i := 0; ; i++ { // a subscription takes a moment to become active
			if r.reserveAs("two", q, 1); i == 100 {
				r.Fatalf("nobody was woken; heard %v", ear.heard)
			}
			r.shared("one", q, 9, map[string]int{})
			r.accept(q, numbered(fmt.Sprint("l", i, "-"), 40)...)
			r.clock.Advance(300 * time.Millisecond)
			if r.shared("one", q, 9, full); ear.hears("") {
				break
			}
		}
		r.shared("two", q, 9, full)
		for ear.hears("") {
		}
		for range 3 {
			r.clock.Advance(300 * time.Millisecond)
			for _, client := range []string{"one", "two"} {
				r.shared(client, q, 0, full) // it leaves the watch to others
				for ear.hears("") {
				}
				if r.shared(client, q, 9, full); ear.hears("") {
					r.Error("woken without news")
				}
			}
		}
	}},
	{"invalid shares are refused", func(r *rig) {
		q := r.queue("q", "unlimited")
		r.accept(q, "a")
		many := map[string]int{}
		for i := range queue.MaxShares + 1 {
			many[fmt.Sprint("q", i)] = 1
		}
		for _, shares := range []map[string]int{{q: -1}, many} {
			req := r.request("client", q, 9)
			req.Shares = shares
			var fe *invalid.Error
			if _, err := r.e.Reserve(r.ctx, req); !errors.As(err, &fe) || fe.Field != "shares" {
				r.Errorf("%d shares: %v, want an *invalid.Error of shares", len(shares), err)
			}
		}
		r.sameIDs(r.reserve(q, 9), "a")
	}},
}
