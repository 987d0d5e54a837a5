package machine_test

import (
	"container/heap"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/machine"
)

// overload models, in virtual time, one server that serves the calls of all partitions in turn, and drainers with more
// due jobs than it can serve. Calls cost what they do on Redis, and released jobs have to be settled by the same
// server: that is what fed the collapse.
type overload struct {
	parts    []*machine.Machine
	now      time.Duration
	free     time.Duration // when the server has finished all calls so far
	events   overloadEvents
	away     bool // the drainers are away
	started  int
	released int
	calls    int
}

const (
	overloadCall     = 60 * time.Microsecond // of a call, and of each queue in it
	overloadQueue    = 50 * time.Microsecond
	overloadWay      = 100 * time.Microsecond
	overloadHandlers = 64 // jobs of a partition's drainer that wait to start
	overloadParts    = 8
)

type overloadEvent struct {
	at    time.Duration
	order int
	do    func()
}

type overloadEvents struct {
	list  []overloadEvent
	count int
}

func (e *overloadEvents) Len() int { return len(e.list) }
func (e *overloadEvents) Less(i, j int) bool {
	a, b := &e.list[i], &e.list[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}
func (e *overloadEvents) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }
func (e *overloadEvents) Push(v any)    { e.list = append(e.list, v.(overloadEvent)) }
func (e *overloadEvents) Pop() any {
	last := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return last
}

func (o *overload) at(at time.Duration, do func()) {
	o.events.count++
	heap.Push(&o.events, overloadEvent{max(at, o.now), o.events.count, do})
}

func (o *overload) run(until time.Duration) {
	for o.events.Len() > 0 && o.events.list[0].at <= until {
		e := heap.Pop(&o.events).(overloadEvent)
		o.now = e.at
		e.do()
	}
	o.now = until
}

func (o *overload) instant() leaky.Instant {
	return 1_700_000_000_000_000 + leaky.Instant(o.now.Microseconds())
}

func (o *overload) local() time.Time { return time.Unix(0, 0).Add(o.now) }

// serve makes a call when it is its turn, and answers after its cost has passed: do decides, and returns how many
// queues it concerned.
func (o *overload) serve(do func() (queues int), answered func()) {
	o.calls++
	begin := max(o.now+overloadWay, o.free)
	o.free = begin // others queue behind it until the decision
	o.at(begin, func() {
		took := overloadCall + time.Duration(do())*overloadQueue
		o.free = max(o.free, o.now) + took
		o.at(o.free+overloadWay, answered)
	})
}

// fill appends so many jobs to each of so many queues.
func (o *overload) fill(t *testing.T, queues, jobs int, rate leaky.Rate) {
	t.Helper()
	for i := range queues {
		m := o.parts[i%len(o.parts)]
		name := fmt.Sprint("q", i)
		if _, _, err := m.Put(o.instant(), audit.Actor{}, specText(queue.Spec{Name: name, Rate: rate}),
			queue.AnyRevision); err != nil {
			t.Fatal(err)
		}
		var list []queue.Job
		for k := range jobs {
			list = append(list, queue.Job{Queue: name, ID: fmt.Sprint(k), Payload: []byte("1")})
		}
		for a := machine.NewAppending(list, false); ; {
			_, done := m.Append(o.instant(), a)
			if o.commit(m); done {
				break
			}
		}
	}
}

func (o *overload) commit(m *machine.Machine) {
	if c := m.Collect(o.instant()); c != nil {
		m.Durable(c.Number, o.instant())
	}
	m.Signals()
}

// overloadDrainer drains one partition.
type overloadDrainer struct {
	*overload
	m       *machine.Machine
	clock   departure.Clock
	number  uint64
	waiting int
	settle  []queue.Settlement
	busy    bool // a call of settlements is in progress
}

func (d *overloadDrainer) ask() {
	if d.away || d.waiting >= overloadHandlers {
		d.at(d.now+5*time.Millisecond, d.ask)
		return
	}
	d.number++
	r := queue.ReserveRequest{
		Client: queue.Client{ID: "d"}, Number: d.number, Max: overloadHandlers - d.waiting,
	}
	if d.clock.Resync(d.local()) {
		r.Max = 0
	}
	r = d.clock.Request(r, d.local())
	asked := d.local()
	var g *machine.Granting
	d.serve(func() int {
		var err error
		if g, err = d.m.Reserve(d.instant(), r); err != nil {
			panic(err)
		}
		d.commit(d.m)
		return max(len(g.Leases()), g.Visits())
	}, func() {
		d.clock.Observe(g.Now, asked, d.local())
		for _, l := range g.Leases() {
			d.take(l)
		}
		next := g.Next
		if len(g.Leases()) == 0 {
			next = max(next, time.Millisecond)
		}
		d.at(d.now+next, d.ask)
	})
}

// take starts a job in its window, or releases it.
func (d *overloadDrainer) take(l machine.Departure) {
	w := d.clock.Window(l.At.Time(), time.Minute)
	latest := w.Latest(queue.LeastSlack).Sub(time.Unix(0, 0))
	d.waiting++
	d.at(w.DepartsBy.Sub(time.Unix(0, 0)), func() {
		d.waiting--
		s := queue.Settlement{Lease: l.Lease, Verdict: queue.Deliver}
		if d.now > latest {
			s.Verdict = queue.Release
			d.released++
		} else {
			d.started++
		}
		d.settle = append(d.settle, s)
		d.send()
	})
}

func (d *overloadDrainer) send() {
	if d.busy || len(d.settle) == 0 {
		return
	}
	some := d.settle[:min(len(d.settle), 2*queue.MaxVisits)]
	d.settle, d.busy = d.settle[len(some):], true
	d.serve(func() int {
		d.m.Settle(d.instant(), some)
		d.commit(d.m)
		return len(some)
	}, func() {
		d.busy = false
		d.send()
	})
}

func newOverload() *overload {
	o := &overload{}
	for range overloadParts {
		m := machine.New(1)
		o.parts = append(o.parts, m)
		d := &overloadDrainer{overload: o, m: m}
		o.at(0, d.ask)
	}
	return o
}

// Throughput does not drop when more is due than the server can serve, and hardly any grant is wasted.
func TestOverload(t *testing.T) {
	best := 0
	for _, queues := range []int{100, 400, 800, 2000, 10_000} {
		o := newOverload()
		o.away = true
		o.fill(t, queues, max(2, 60_000/queues), leaky.PerSecond(10))
		o.away = false
		o.run(5 * time.Second)
		t.Logf("%d queues at 10/s: %d starts, %d released, %d calls in 5 s", queues, o.started, o.released, o.calls)
		if best = max(best, o.started); o.started < best*8/10 {
			t.Errorf("%d queues: %d starts, and %d with fewer", queues, o.started, best)
		}
		if o.released > o.started/50 {
			t.Errorf("%d queues: %d released for %d that started", queues, o.released, o.started)
		}
	}
}

// After all drainers were away, due jobs leave as fast as the server allows.
func TestOverloadAfterAnOutage(t *testing.T) {
	const queues = 10_000
	rate, err := leaky.ParseRate("1/m")
	if err != nil {
		t.Fatal(err)
	}
	o := newOverload()
	o.away = true
	o.fill(t, queues, 1, rate)
	o.run(60 * time.Second)
	o.away = false
	o.run(65 * time.Second)
	t.Logf("%d starts, %d released, %d calls in 5 s", o.started, o.released, o.calls)
	if o.started != queues {
		t.Errorf("%d of %d jobs started within 5 s of the outage's end", o.started, queues)
	}
	if o.released > queues/100 {
		t.Errorf("%d were released", o.released)
	}
}
