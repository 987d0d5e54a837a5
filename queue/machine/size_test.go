package machine_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/machine"
	"github.com/penstock/penstock/queue/unit"
)

var (
	sizeQueues  = flag.Int("queues", 10_000, "how many queues there are at most")
	sizeLanes   = flag.Int("lanes", 50_000, "how many lanes come and go, a tenth of them at a time at most")
	sizePicture = flag.String("picture", "", "draw the times in this file, as an SVG")
)

// TestSize measures the memory and time that queues and lanes cost, by their number. `make simulate-size` does so with
// 10,000,000 queues and 100,000,000 lanes, prints tables and draws the times.
func TestSize(t *testing.T) {
	defer boundMemory()()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	queues, lanes := sizeTable{of: "queues"}, sizeTable{of: "lanes at a time"}
	for alive := 1000; alive <= *sizeQueues; alive *= 10 {
		queues.add(measureQueues(alive))
	}
	levels := 0
	for alive := 1000; alive <= *sizeLanes/10; alive *= 10 {
		levels++
	}
	for alive := 1000; alive <= *sizeLanes/10; alive *= 10 {
		lanes.add(measureLanes(alive, *sizeLanes/levels))
	}
	t.Log("\n" + queues.markdown() + "\n" + lanes.markdown())
	queues.check(t)
	lanes.check(t)
	if *sizePicture != "" {
		if err := os.WriteFile(*sizePicture, drawSizes(queues, lanes), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// sizeWorld is a machine in virtual time whose commits are durable at once and stored nowhere: only the machine is
// measured.
type sizeWorld struct {
	*rand.Rand
	*machine.Machine
	now     leaky.Instant
	request uint64
	tookBy  [operations]tookTimes
}

func newSizeWorld() *sizeWorld {
	return &sizeWorld{
		Rand: rand.New(rand.NewPCG(1, 1)), Machine: machine.New(1), now: 1_700_000_000_000_000,
	}
}

// do measures the processor time of a call and its commit, for each of n queues or jobs.
func (w *sizeWorld) do(op operation, n int, call func()) {
	began := processorTime()
	call()
	if c := w.Collect(w.now); c != nil {
		w.Durable(c.Number, w.now)
	}
	w.tookBy[op].add((processorTime() - began) / time.Duration(max(1, n)))
	w.Signals()
}

func specText(spec queue.Spec) machine.SpecText {
	s, err := machine.NewSpecText(spec)
	if err != nil {
		panic(err)
	}
	return s
}

func (w *sizeWorld) put(s machine.SpecText) {
	w.do(opPut, 1, func() {
		if _, _, err := w.Put(w.now, audit.Actor{}, s, queue.AnyRevision); err != nil {
			panic(err)
		}
	})
}

func (w *sizeWorld) delete(name string) {
	w.do(opDelete, 1, func() {
		if _, err := w.Delete(w.now, audit.Actor{}, name, queue.AnyRevision, true); err != nil {
			panic(err)
		}
	})
}

func (w *sizeWorld) append(jobs ...queue.Job) {
	a := machine.NewAppending(jobs, false)
	w.do(opAppend, len(jobs), func() {
		if _, done := w.Append(w.now, a); !done {
			panic("a commit was ripe")
		}
	})
	for _, a := range a.Answers {
		if a.Outcome != queue.Accepted {
			panic(fmt.Sprintf("a job is %v: %v", a.Outcome, a.Err))
		}
	}
}

// drain takes up to most jobs, delivers them, and returns how many there were.
func (w *sizeWorld) drain(most int) int {
	w.request++
	r := queue.ReserveRequest{Client: queue.Client{ID: "drainer"}, Number: w.request, Max: most}
	var g *machine.Granting
	began := processorTime()
	g, err := w.Reserve(w.now, r)
	if c := w.Collect(w.now); c != nil {
		w.Durable(c.Number, w.now)
	}
	took := processorTime() - began
	if err != nil {
		panic(err)
	}
	leases := g.Leases()
	n := len(leases)
	if n == 0 {
		return 0
	}
	w.tookBy[opReserve].add(took / time.Duration(n))
	ends := make([]queue.Settlement, n)
	for i, d := range leases {
		ends[i] = queue.Settlement{Lease: d.Lease, Verdict: queue.Deliver}
	}
	w.do(opSettle, n, func() { w.Settle(w.now, ends) })
	return n
}

// forget lets an idle minute pass, and lets all queues forget what ended before.
func (w *sizeWorld) forget(queues int) {
	w.pass(time.Minute)
	for range queues + 1 { // each forgets in one of them
		w.drain(1)
	}
	for w.NeedsSweep(w.now) {
		w.do(opSweep, 1, func() { w.Sweep(w.now) })
	}
}

// drainAll drains until nothing is left.
func (w *sizeWorld) drainAll() {
	for idle := 0; idle < 100; idle++ {
		if w.drain(100) > 0 {
			idle = 0
		}
		w.pass(20 * time.Millisecond)
	}
}

func (w *sizeWorld) pass(d time.Duration) { w.now = w.now.Add(d) }

// heapBytes returns the memory in use after garbage collection.
func heapBytes() float64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools kept
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc)
}

// boundMemory collects garbage when memory grows to five times what lives, or to 15 GB: ten million queues must not
// need the memory of twenty.
func boundMemory() (restore func()) {
	percent, limit := debug.SetGCPercent(400), debug.SetMemoryLimit(15<<30)
	return func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) }
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// tenantQueue returns a typical queue. Each has a name and a target of its own.
func tenantQueue() machine.SpecText {
	return specText(queue.Spec{
		Name: "tenant", Rate: leaky.PerSecond(100),
		Retention: queue.Retention{For: unit.Duration(time.Second)},
		Deferred:  queue.Deferral{MaxAge: unit.Duration(time.Second)},
	})
}

// measureQueues creates queues, appends and drains jobs, lets the queues idle and deletes them.
func measureQueues(alive int) sizeRow {
	w, began := newSizeWorld(), time.Now()
	row := sizeRow{alive: alive}
	empty := heapBytes()
	per := func() float64 { return (heapBytes() - empty) / float64(alive) }
	tenant := tenantQueue()
	for i := range alive {
		w.put(tenant.Of(
			fmt.Sprintf("tenant-%d", i), fmt.Sprintf(`{"target":"http","url":"https://tenant-%d.example.com/hooks"}`, i),
		))
		w.pass(time.Microsecond)
	}
	row.memory = per()
	progress("%d queues made: %.0f B each, %v", alive, row.memory, time.Since(began).Round(time.Second))
	some := min(alive, mostWaiting)
	for i := range some {
		w.append(sizeJob(w, i))
	}
	row.withJob = row.memory + (per()-row.memory)*float64(alive)/float64(some)
	progress("%d of them have a job: %.0f B each, %v", some, row.withJob, time.Since(began).Round(time.Second))
	w.drainAll()
	w.forget(alive)
	row.idleAgain = per()
	progress("%d queues are idle again: %.0f B each, %v", alive, row.idleAgain, time.Since(began).Round(time.Second))
	made := w.tookBy[opPut]
	w.tookBy = [operations]tookTimes{opPut: made} // from here on, in random order
	for range min(mostSteps, 2*alive) {
		w.append(sizeJob(w, w.IntN(alive)))
		w.pass(time.Millisecond)
		w.drain(1)
	}
	w.drainAll()
	for i := range alive {
		w.delete(fmt.Sprintf("tenant-%d", i))
	}
	w.forget(0)
	row.took = w.tookBy
	row.left = per()
	progress("%d queues are gone: %.1f B of each are left, %v", alive, row.left, time.Since(began).Round(time.Second))
	return row
}

const (
	mostWaiting = 1_000_000 // jobs
	mostSteps   = 200_000   // an append, a reserve and a settlement each
)

func sizeJob(w *sizeWorld, i int) queue.Job {
	return queue.Job{Queue: fmt.Sprintf("tenant-%d", i), ID: fmt.Sprintf("%x", w.Uint64()), Payload: []byte("{}")}
}

// measureLanes lets lanes come and go in one queue, each with one job, that many at a time.
func measureLanes(alive, total int) sizeRow {
	w, began := newSizeWorld(), time.Now()
	row := sizeRow{alive: alive}
	w.put(specText(queue.Spec{
		Name: "q", Rate: leaky.PerSecond(100_000), Capacity: queue.MaxCapacity,
		Retention: queue.Retention{For: unit.Duration(time.Second), Max: 1000},
		Deferred:  queue.Deferral{MaxAge: unit.Duration(time.Second)},
		Lanes:     queue.Lanes{LaneRule: queue.LaneRule{Rate: leaky.PerSecond(10)}},
	}))
	empty := heapBytes()
	made := 0
	add := func(n int) {
		jobs := make([]queue.Job, n)
		for i := range jobs {
			made++
			lane := fmt.Sprintf("recipient-%d.example.com", made)
			jobs[i] = queue.Job{Queue: "q", ID: lane, Lane: lane, Payload: []byte("{}")}
		}
		w.append(jobs...)
	}
	for made < alive {
		add(min(100, alive-made))
	}
	row.withJob = (heapBytes() - empty) / float64(alive)
	w.tookBy = [operations]tookTimes{}
	for told := time.Now(); made < total; {
		w.pass(time.Millisecond)
		add(min(w.drain(100), total-made))
		if time.Since(told) > 10*time.Second {
			progress("%d of %d lanes came and went, %d at a time, %v", made, total, alive, time.Since(began).Round(time.Second))
			told = time.Now()
		}
	}
	row.took = w.tookBy
	w.drainAll()
	row.left = (heapBytes() - empty) / float64(alive)
	progress("%d lanes came and went, %d at a time: %.0f B each, %v", total, alive, row.withJob,
		time.Since(began).Round(time.Second))
	return row
}
