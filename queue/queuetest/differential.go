package queuetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue"
)

// Differential does the same random operations at the same instants on two
// engines and compares every answer. All queues are of one group, and so on one
// partition. Fences and revisions are the engines' own: they must only
// correspond. A difference is shrunk by rapid to the fewest operations that
// show it.
func Differential(t *testing.T, openA, openB Open) {
	var clean scope
	rapid.Check(t, func(rt *rapid.T) {
		// Stores are closed as soon as their run is over, not with the test.
		clean = scope{TB: t}
		defer clean.end()
		clock := NewClock()
		p := &pair{
			T: rt, ctx: t.Context(), clock: clock, numbers: map[string]uint64{}, grants: map[string]*request{},
			engines: [2]queue.Engine{openA(&clean, clock.Now), openB(&clean, clock.Now)},
		}
		p.clients = pairClients[:rapid.SampledFrom([]int{1, 3}).Draw(rt, "clients")]
		p.put(p.spec("g.keep")) // read around a clock set back, so that both engines notice alike
		p.put(p.spec("g"))
		p.put(p.spec("g.a"))
		for range rapid.IntRange(1, 60).Draw(rt, "operations") {
			p.step()
		}
		p.compareAll()
		p.drainAll()
	})
}

// scope is a testing.TB whose cleanups run at the end of one run of rapid.
type scope struct {
	testing.TB
	cleanups []func()
}

func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) end() {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
}

// twin is a lease as both engines granted it.
type twin struct{ a, b queue.Reservation }

// request is one that may be repeated.
type request struct {
	req   queue.ReserveRequest
	twins []twin
}

// pair is two engines under the same hands.
type pair struct {
	*rapid.T
	ctx     context.Context
	clock   *Clock
	engines [2]queue.Engine
	clients []string
	numbers map[string]uint64
	twins   []twin              // every lease ever granted, the latest last
	grants  map[string]*request // each client's last request, if it was granted something
	revs    [2][]int64          // the revisions that were given out
	deleted bool                // a queue was
}

var (
	pairQueues  = []string{"g", "g.a", "g.b", "g.c"}
	pairClients = []string{"one", "two", "three"}
)

// both calls f on both engines and compares what it returns, as text.
func (p *pair) both(what string, f func(side int, e queue.Engine) string) {
	p.Helper()
	a := f(0, p.engines[0])
	b := f(1, p.engines[1])
	p.Logf("%v %s: %s", p.clock.Now(), what, a)
	if a != b {
		p.Fatalf("%s differs:\n%s\n%s", what, a, b)
	}
}

// kind reduces an error to what callers tell apart.
func kind(err error) string {
	if err == nil {
		return "ok"
	}
	var fe *queue.FieldError
	if errors.As(err, &fe) {
		return "field " + fe.Field
	}
	for _, e := range []error{queue.ErrUnknownQueue, queue.ErrUnknownJob, queue.ErrRevision, queue.ErrNotEmpty} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return "another error: " + err.Error()
}

func micro(t time.Time) string { return fmt.Sprint(int64(instant(t))) }

func (p *pair) queueName() string { return rapid.SampledFrom(pairQueues).Draw(p.T, "queue") }

func (p *pair) spec(name string) queue.Spec {
	draw := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(p.T, label) }
	number := func(label string, low, high int64) int64 { return rapid.Int64Range(low, high).Draw(p.T, label) }
	return spec(name, draw("rate", "10/s", "unlimited", "3/s", "14/s", "1000/s", "7/m", "1/h"), func(s *queue.Spec) {
		s.Burst = number("burst", 1, 4)
		s.Capacity = number("capacity", 1, 12)
		s.Lease = queue.Duration(time.Duration(number("lease", 1, 4)) * time.Second)
		s.Retry.MaxAttempts = int(number("attempts", 1, 4))
		s.Retention.For = queue.Duration(time.Duration(number("retention", 60, 70)) * time.Second)
		s.Retention.Max = 1000 // never reached: which of those that ended in one instant goes first is left open
	})
}

// step draws one operation and does it.
func (p *pair) step() {
	weighted := []func(){
		p.append, p.append, p.append, p.append, p.reserve, p.reserve, p.reserve, p.reserve, p.reserve,
		p.settle, p.settle, p.settle, p.settle, p.advance, p.advance, p.advance, p.advance,
		func() { p.put(p.spec(p.queueName())) }, func() { p.put(p.spec(p.queueName())) },
		p.replay, p.extend, p.pause, p.resume, p.delete, p.look, p.look, p.sweep, p.backwards,
	}
	weighted[rapid.IntRange(0, len(weighted)-1).Draw(p.T, "operation")]()
}

func (p *pair) put(s queue.Spec) {
	which := rapid.IntRange(-1, len(p.revs[0])).Draw(p.T, "expect") // any, none, or one given out
	var got [2]int64
	p.both(fmt.Sprintf("put %s %s burst %d capacity %d lease %v attempts %d retention %+v expecting %d", s.Name, s.Rate, s.Burst, s.Capacity, s.Lease,
		s.Retry.MaxAttempts, s.Retention, which), func(side int, e queue.Engine) string {
		expect := int64(which)
		if which > 0 {
			expect = p.revs[side][which-1]
		}
		res, err := e.Put(p.ctx, s, expect)
		got[side] = res.Revision
		return fmt.Sprintf("%v created %v changed %v", kind(err), res.Created, res.Changed)
	})
	p.revision(got)
}

// revision checks that two revisions correspond.
func (p *pair) revision(got [2]int64) {
	p.Helper()
	i, j := slices.Index(p.revs[0], got[0]), slices.Index(p.revs[1], got[1])
	if i != j || (got[0] == 0) != (got[1] == 0) {
		p.Fatalf("revisions %d and %d do not correspond", got[0], got[1])
	}
	if i < 0 && got[0] != 0 {
		p.revs[0], p.revs[1] = append(p.revs[0], got[0]), append(p.revs[1], got[1])
	}
}

func (p *pair) append() {
	var list []queue.Job
	var text []string
	for range rapid.IntRange(1, 6).Draw(p.T, "jobs") {
		j := job(p.queueName(), fmt.Sprint("j", rapid.IntRange(0, 30).Draw(p.T, "id")))
		j.Cost = rapid.Int64Range(0, 3).Draw(p.T, "cost")
		switch rapid.IntRange(0, 30).Draw(p.T, "oddity") {
		case 30:
			j.Payload = []byte("another")
		case 29:
			j.ContentType = "text/plain"
		case 28:
			j.ID = "not valid"
		case 27:
			j.Queue = "g.nobody"
		case 26:
			j.Cost = -1
		}
		list = append(list, j)
		text = append(text, fmt.Sprintf("%s/%s cost %d", j.Queue, j.ID, j.Cost))
	}
	p.both("append "+strings.Join(text, ", "), func(_ int, e queue.Engine) string {
		out, err := e.Append(p.ctx, list)
		if err != nil && kind(err)[0] != 'f' { // an engine may return the only job's error
			return kind(err)
		}
		var b strings.Builder
		for _, a := range out {
			fmt.Fprintf(&b, "\n  %s %v %v at %d eta %s %v retry %v", a.ID, a.Outcome, a.State, a.Position, micro(a.ETA.At), a.ETA.Exact, a.RetryAfter)
			if a.Outcome == queue.Invalid {
				b.WriteString(" " + kind(a.Err))
			}
		}
		return b.String()
	})
}

func (p *pair) reserve() {
	p.reserveAs(rapid.SampledFrom(p.clients).Draw(p.T, "client"), rapid.IntRange(1, 8).Draw(p.T, "max"))
}

func (p *pair) reserveAs(client string, most int) int {
	p.numbers[client]++
	req := queue.ReserveRequest{Client: queue.Client{ID: client, Name: client, Version: "1"}, Number: p.numbers[client], Max: most}
	twins := p.request("reserve", req, true)
	delete(p.grants, client)
	if len(twins) > 0 {
		p.grants[client] = &request{req, twins}
	}
	p.twins = append(p.twins, twins...)
	return len(twins)
}

// request sends one to both. sleep says whether the advice is compared too.
func (p *pair) request(what string, req queue.ReserveRequest, sleep bool) []twin {
	var got [2]queue.Reserved
	p.both(fmt.Sprintf("%s %s #%d up to %d", what, req.Client.ID, req.Number, req.Max), func(side int, e queue.Engine) string {
		q := req
		q.Partition = partition(nil, e, "g")
		res, err := e.Reserve(p.ctx, q)
		got[side] = res
		var b strings.Builder
		b.WriteString(kind(err))
		for _, v := range res.Jobs {
			fmt.Fprintf(&b, "\n  %s/%s in %v lease %v attempt %d appended %s %s %s cost %d", v.Queue, v.ID, v.In, v.Lease, v.Attempt, micro(v.AppendedAt),
				v.Payload, v.ContentType, v.Cost)
		}
		slices.Sort(res.Expired) // those of one instant have no order
		fmt.Fprintf(&b, "\n  expired %v lost %v", res.Expired, res.Lost)
		if sleep {
			fmt.Fprintf(&b, " backup %v more %v", res.Backup, res.Next == 0)
		}
		// The only client watches, and is told the exact time; others a rough one. Whether
		// it looks when the lease of a deleted queue runs out, is left open.
		if sleep && len(p.clients) == 1 && !p.deleted {
			fmt.Fprintf(&b, " next %v", res.Next)
		}
		return strings.ReplaceAll(b.String(), "map[]", "none")
	})
	var twins []twin
	for i := range got[0].Jobs {
		t := twin{got[0].Jobs[i], got[1].Jobs[i]}
		p.revision([2]int64{t.a.Revision, t.b.Revision})
		twins = append(twins, t)
	}
	return twins
}

// replay repeats a client's last request.
func (p *pair) replay() {
	client := rapid.SampledFrom(p.clients).Draw(p.T, "client")
	last := p.grants[client]
	if last == nil {
		return
	}
	for _, t := range p.request("again", last.req, false) {
		same := func(o twin) bool { return o.a.Fence == t.a.Fence && o.b.Fence == t.b.Fence }
		if !slices.ContainsFunc(last.twins, same) {
			p.Fatalf("granted %s/%s under new fences", t.a.Queue, t.a.ID)
		}
	}
}

// pick draws leases, the latest ones rather than old ones.
func (p *pair) pick(label string) []twin {
	var list []twin
	if len(p.twins) == 0 {
		return nil
	}
	for range rapid.IntRange(1, 4).Draw(p.T, label) {
		back := rapid.IntRange(0, min(len(p.twins)-1, 9)).Draw(p.T, "back")
		list = append(list, p.twins[len(p.twins)-1-back])
	}
	return list
}

func (p *pair) settle() {
	list := p.pick("settlements")
	if list == nil {
		return
	}
	var sides [2][]queue.Settlement
	var text []string
	for _, t := range list {
		verdict := queue.Verdict(rapid.IntRange(1, 4).Draw(p.T, "verdict"))
		after := time.Duration(rapid.SampledFrom([]int{0, 1, 100, 1000, 90_000}).Draw(p.T, "after")) * time.Millisecond
		for side, v := range []queue.Reservation{t.a, t.b} {
			s := settlement(verdict, v)
			s.After, s.Reason = after, "it failed"
			sides[side] = append(sides[side], s)
		}
		text = append(text, fmt.Sprintf("%v %s/%s (attempt %d) after %v", verdict, t.a.Queue, t.a.ID, t.a.Attempt, after))
	}
	p.settleBoth(strings.Join(text, ", "), sides)
}

func (p *pair) settleBoth(what string, sides [2][]queue.Settlement) {
	p.both("settle "+what, func(side int, e queue.Engine) string {
		out, err := e.Settle(p.ctx, sides[side])
		text := kind(err)
		for _, s := range out {
			text += fmt.Sprintf(" %v stale %v %v,", s.State, s.Stale, kind(s.Err))
		}
		return text
	})
}

func (p *pair) extend() {
	list := p.pick("leases")
	if list == nil {
		return
	}
	var text []string
	for _, t := range list {
		text = append(text, t.a.Queue+"/"+t.a.ID)
	}
	p.both("extend "+strings.Join(text, ", "), func(side int, e queue.Engine) string {
		var leases []queue.Lease
		for _, t := range list {
			leases = append(leases, lease([]queue.Reservation{t.a, t.b}[side]))
		}
		out, err := e.Extend(p.ctx, leases)
		return fmt.Sprint(out, kind(err))
	})
}

func (p *pair) pause() {
	q := p.queueName()
	p.both("pause "+q, func(_ int, e queue.Engine) string { return kind(e.Pause(p.ctx, q, "because")) })
}

func (p *pair) resume() {
	q := p.queueName()
	p.both("resume "+q, func(_ int, e queue.Engine) string { return kind(e.Resume(p.ctx, q)) })
}

func (p *pair) delete() {
	p.deleted = true
	q, force := p.queueName(), rapid.Bool().Draw(p.T, "force")
	p.both(fmt.Sprintf("delete %s, force %v", q, force), func(_ int, e queue.Engine) string {
		return kind(e.Delete(p.ctx, q, queue.AnyRevision, force))
	})
}

// sweep lets both sweep; how much there is to sweep is their own affair.
func (p *pair) sweep() {
	p.both("sweep", func(_ int, e queue.Engine) string {
		for range 1000 {
			if more, err := e.Sweep(p.ctx, partition(nil, e, "g")); !more || err != nil {
				return kind(err)
			}
		}
		return "it never ends"
	})
}

func (p *pair) advance() {
	us := rapid.OneOf(
		rapid.Int64Range(0, 1000),
		rapid.Int64Range(0, 150_000),
		rapid.SampledFrom([]int64{25_000, 50_000, 100_000, 1_000_000, 10_000_000, 60_000_000}),
		rapid.Int64Range(0, 5_000_000),
	).Draw(p.T, "microseconds")
	p.clock.Advance(time.Duration(us) * time.Microsecond)
}

func (p *pair) backwards() {
	p.info("g.keep")
	p.clock.Advance(-time.Duration(rapid.Int64Range(0, 3600_000_000).Draw(p.T, "microseconds back")) * time.Microsecond)
	p.info("g.keep")
}

// look asks about one thing or another.
func (p *pair) look() {
	if rapid.Bool().Draw(p.T, "one queue") {
		p.info(p.queueName())
		return
	}
	p.jobInfo(p.queueName(), fmt.Sprint("j", rapid.IntRange(0, 30).Draw(p.T, "id")))
}

func (p *pair) jobInfo(q, id string) {
	p.both("job "+q+"/"+id, func(_ int, e queue.Engine) string {
		i, err := e.Job(p.ctx, q, id)
		if err != nil {
			return kind(err)
		}
		return fmt.Sprintf("%v at %d eta %s %v cost %d attempts %d appended %s due %s ended %s %q", i.State, i.Position, micro(i.ETA.At), i.ETA.Exact, i.Cost,
			i.Attempts, micro(i.AppendedAt), micro(i.DueAt), micro(i.EndedAt), i.Reason)
	})
}

func (p *pair) info(q string) {
	var got [2]queue.Info
	p.both("get "+q, func(side int, e queue.Engine) string {
		i, err := e.Get(p.ctx, q)
		got[side] = i
		if err != nil {
			return kind(err)
		}
		return describe(i)
	})
	p.revision([2]int64{got[0].Revision, got[1].Revision})
}

// describe is all of an Info but its revision and its outflow, which is measured.
func describe(i queue.Info) string {
	text, err := queue.EncodeSpec(i.Spec)
	slices.SortFunc(i.Errors, func(a, b queue.LastError) int { // those of one instant have no order, and so no tenth
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID))
	})
	if n := len(i.Errors); n == 10 {
		oldest := i.Errors[n-1].At
		i.Errors = slices.DeleteFunc(i.Errors, func(e queue.LastError) bool { return e.At.Equal(oldest) })
	}
	errs := ""
	for _, e := range i.Errors {
		errs += fmt.Sprintf(" %s %s %q", micro(e.At), e.ID, e.Reason)
	}
	return fmt.Sprintf("%s %v paused %v %q; waiting %d scheduled %d leased %d dead %d; appended %d delivered %d retried %d died %d released %d expired %d "+
		"refused %d lost %d; oldest %s next %s; errors%s", text, err, i.Paused, i.PauseReason, i.Waiting, i.Scheduled, i.Leased, i.Dead, i.Appended, i.Delivered,
		i.Retried, i.Died, i.Released, i.Expired, i.Refused, i.Lost, micro(i.OldestWaiting), micro(i.Next), errs)
}

// compareAll looks at everything there is.
func (p *pair) compareAll() {
	p.both("list", func(_ int, e queue.Engine) string {
		list, err := e.List(p.ctx, "", 100)
		text := kind(err)
		for _, i := range list {
			text += "\n  " + describe(i)
		}
		return text
	})
	p.both("totals", func(_ int, e queue.Engine) string {
		t, err := e.Totals(p.ctx)
		return fmt.Sprintf("%+v %s", t, kind(err))
	})
	for _, q := range pairQueues {
		for id := range 31 {
			p.jobInfo(q, fmt.Sprint("j", id))
		}
	}
}

// drainAll delivers what is left, as both engines see it.
func (p *pair) drainAll() {
	for _, q := range pairQueues {
		p.both("resume "+q, func(_ int, e queue.Engine) string { return kind(e.Resume(p.ctx, q)) })
	}
	for range 500 {
		if t, err := p.engines[0].Totals(p.ctx); err == nil && t.Waiting+t.Scheduled+t.Leased == 0 {
			break
		}
		n := p.reserveAs(p.clients[0], 100)
		var sides [2][]queue.Settlement
		for _, t := range p.twins[len(p.twins)-n:] {
			sides[0] = append(sides[0], settlement(queue.Deliver, t.a))
			sides[1] = append(sides[1], settlement(queue.Deliver, t.b))
		}
		if n > 0 {
			p.settleBoth("all", sides)
		}
		p.clock.Advance(time.Minute)
	}
	p.compareAll()
}
