package machine

import (
	"slices"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Limits of one commit.
const (
	commitBytes   = 16 << 20 // of job records
	commitJobs    = 4096     // appended jobs: all enter their lanes while nothing else can be decided
	commitForgets = 4096     // records of each kind that memory has forgotten
	// spareEffectsMax is the largest capacity of a list of effects that is kept for reuse.
	spareEffectsMax = 2048
)

// commits numbers what is decided. Commands add to the current commit; its owner collects it, writes it, and reports
// when it is durable. An answer that must not be given earlier names the commit to wait for.
type commits struct {
	current *Commit
	durable uint64    // all commits up to this one are durable
	taken   []*Commit // collected and not durable yet, in order
	spare   []effect  // an empty list with capacity, for the next commit
	// documentsDurable is the last durable commit that has a document.
	documentsDurable uint64
}

// Commit is what one transaction writes: the effects of commands, in order, and the summary records of queues and
// tallies as of when it is collected. Invariant 10: all of it is kept, or nothing.
type Commit struct {
	Number uint64
	effects
	wanted bool // an answer waits for it
	// HadRoom is set if part of it was decided while the store had room: without room, less would be in it.
	HadRoom bool
	now     leaky.Instant // by the wall clock
	arrived []arrival     // jobs that enter their lanes once it is durable, in order of decision
	bytes   int           // of their records
	// The last keys of jobs, ended jobs and deferrals in it.
	seq, ended, deferred uint64

	holds          []heldGrants              // grants that wait for it
	queues         []*queueState             // queues whose records it writes
	ceilings       []ofQueue[ceilings]       // that it raises
	unsaved        []ofQueue[queue.Counters] // counts without a commit of their own that it writes
	formerPaces    []ofQueue[paces]          // of queues whose spec it changes
	deleted        []*queueState
	givenBack      []givenBack // departures that it gives back
	endedLeases    []*lease    // leases that it ends, as they were
	tallies        []*tally
	droppedTallies []uint64
	charged        []tallyKey // tallies from which its jobs take
	owed           []owedTakes
	documents      map[string]document.Document
	logUpdates     []logUpdate     // for the log of changes
	audited        []audited       // for the audit log
	auditedActs    map[*jobAct]int // index in audited of each act on jobs
}

type keys struct{ seq, ended, deferred uint64 }

// ofQueue is what a commit has of a queue.
type ofQueue[T any] struct {
	queue *queueState
	value T
}

func newCommit(number uint64) *Commit {
	return &Commit{Number: number, auditedActs: map[*jobAct]int{}, documents: map[string]document.Document{}}
}

// wait requests the current commit and returns its number, for an answer to wait for.
func (m *Machine) wait() uint64 {
	m.want()
	return m.current.Number
}

// want requests the current commit.
func (m *Machine) want() {
	m.current.wanted = true
	m.current.HadRoom = m.current.HadRoom || m.Full == nil
}

// unlessDurable returns 0 if a commit is durable, else its number.
func (m *Machine) unlessDurable(commit uint64) uint64 {
	if commit <= m.durable {
		return 0
	}
	return commit
}

// commitOf returns the commit that contains a key, or 0 if it is durable; of returns a commit's last key. Keys only
// grow, so a job need not remember its commit.
func (m *Machine) commitOf(key uint64, durable uint64, of func(*Commit) uint64) uint64 {
	if key <= durable {
		return 0
	}
	for _, c := range m.taken {
		if key <= of(c) {
			return c.Number
		}
	}
	return m.current.Number
}

// lastWait returns the latest commit that is not durable, for answers that may depend on any of them.
func (m *Machine) lastWait() uint64 {
	if m.current.wanted {
		return m.current.Number
	}
	return m.unlessDurable(m.current.Number - 1)
}

// waitsForJob returns the commit that an answer about a job waits for: what the answer says must not vanish.
func (m *Machine) waitsForJob(j *job) uint64 {
	at := m.commitOf(j.seq, m.durableKeys.seq, func(c *Commit) uint64 { return c.seq })
	if j.lease != nil {
		at = max(at, m.unlessDurable(j.lease.commit))
	}
	return at
}

// waitsForEnded is waitsForJob for a job that has ended.
func (m *Machine) waitsForEnded(d *endedJob) uint64 {
	return m.commitOf(d.key, m.durableKeys.ended, func(c *Commit) uint64 { return c.ended })
}

// waitsForDeferral is waitsForJob for a deferred job.
func (m *Machine) waitsForDeferral(d *deferral) uint64 {
	return m.commitOf(d.seq, m.durableKeys.deferred, func(c *Commit) uint64 { return c.deferred })
}

// heldGrants names the grants of a lane or, without one, of a queue and its children.
type heldGrants struct {
	queue *queueState
	lane  *lane
}

// holdGrants makes grants wait for the current commit, which has what they depend on: the spec, pause or rate of the
// queue; in an ordered queue, the end of the lane's previous job.
func (m *Machine) holdGrants(h heldGrants) {
	if m.grantsHeld[h] != m.current.Number {
		m.grantsHeld[h] = m.current.Number
		m.current.holds = append(m.current.holds, h)
	}
}

// waitsForGrants returns the commit that grants of a lane wait for.
func (m *Machine) waitsForGrants(ln *lane) uint64 {
	if len(m.grantsHeld) == 0 {
		return 0
	}
	q := ln.queue
	return max(
		m.grantsHeld[heldGrants{queue: q}], m.grantsHeld[heldGrants{queue: q.parent()}], m.grantsHeld[heldGrants{q, ln}],
	)
}

// touch adds the record of a queue to the current commit, and returns the commit.
func (m *Machine) touch(q *queueState) *Commit {
	m.want()
	c := m.current
	if !q.touched {
		q.touched = true
		c.queues = append(c.queues, q)
	}
	return c
}

// noteFailure notes why a job failed, in memory and in the current commit.
func (m *Machine) noteFailure(q *queueState, at leaky.Instant, id, reason string) {
	q.failures = append([]queue.LastError{{At: at.Time(), ID: id, Reason: reason}}, q.failures...)
	q.failures = q.failures[:min(len(q.failures), maxFailures)]
	q.failed = true
	m.touch(q)
}

// Pending reports whether there is a commit to collect.
func (m *Machine) Pending() bool { return m.current.wanted }

// PendingBytes returns about how many bytes the commits that are not durable will write.
func (m *Machine) PendingBytes() int {
	n := m.current.bytes + m.current.effects.bytes
	for _, c := range m.taken {
		n += c.bytes + c.effects.bytes
	}
	return n
}

// Ripe reports whether the current commit is large enough: it should be collected before more jobs are let in.
func (m *Machine) Ripe() bool {
	return m.current.bytes >= commitBytes || len(m.current.arrived) >= commitJobs
}

// Collect ends the current commit and returns it to be written, or nil if it was not requested. Later decisions go into
// the next commit.
func (m *Machine) Collect(now leaky.Instant) *Commit {
	c := m.current
	if !c.wanted {
		return nil
	}
	m.complete(c, now)
	m.taken, m.current = append(m.taken, c), newCommit(c.Number+1)
	m.current.list, m.spare = m.spare, nil
	return c
}

// CollectLast is Collect before the store is closed. The commit has the exact paces, all counters and all tallies, so
// that an orderly restart loses nothing.
func (m *Machine) CollectLast(now leaky.Instant) *Commit {
	for _, chunk := range m.dirtyTallies.chunks {
		each(chunk, m.addTally)
	}
	for name := range m.namesBehind("") {
		q := m.queues[name]
		q.ceiling.next = q.ceilings()
		m.touch(q)
	}
	m.wait()
	return m.Collect(now)
}

// complete adds the records that belong to no command.
func (m *Machine) complete(c *Commit, now leaky.Instant) {
	c.now = m.wall(now)
	for _, q := range c.queues {
		if q.touched = false; !q.live {
			continue
		}
		if q.unsaved != nil {
			c.unsaved = append(c.unsaved, ofQueue[queue.Counters]{q, *q.unsaved})
		}
		q.counters, q.unsaved = q.allCounters(), nil
		c.putQueue(q.number, q.record())
		c.ceilings = append(c.ceilings, ofQueue[ceilings]{q, q.ceiling.next})
		if q.failed {
			q.failed = false
			c.putFailures(q)
		}
	}
	forgotten := m.forgotten[:min(len(m.forgotten), commitForgets)]
	m.forgotten = m.forgotten[len(forgotten):]
	each(forgotten, c.dropEnded)
	clear(forgotten)
	lapsed := m.lapsedDeferrals[:min(len(m.lapsedDeferrals), commitForgets)]
	m.lapsedDeferrals = m.lapsedDeferrals[len(lapsed):]
	each(lapsed, c.dropDeferral)
	m.writeOwed(c)
	for _, t := range c.tallies {
		t.inCommit = false
		if t.gone {
			continue
		}
		c.putTally(t.number, t.record())
		t.dirty, t.onFile = false, true
		t.repack()
	}
	c.droppedTallies = m.droppedTallies.take(commitForgets)
	each(c.droppedTallies, c.dropTally)
	for _, b := range m.changedBatches {
		if b.changed = false; !b.gone && b.queue.live {
			c.putBatch(b)
		}
	}
	m.changedBatches = nil
	m.store.commit, m.store.now, m.store.ahead = c.Number, now, m.Ahead
	c.seq, c.ended, c.deferred = m.store.seq, m.store.ended, m.store.deferred
	c.putStore(m.store)
}

// addTally adds the record of a tally, in its state at collection, to the current commit.
func (m *Machine) addTally(t *tally) {
	if !t.inCommit && !t.gone {
		t.inCommit = true
		m.current.tallies = append(m.current.tallies, t)
	}
}

// Durable reports that commits up to a number are durable. Their jobs enter their lanes, in order. Invariants 5 and 8:
// what is granted or seen can no longer vanish.
func (m *Machine) Durable(number uint64, now leaky.Instant) {
	for len(m.taken) > 0 && m.taken[0].Number <= number {
		c := m.taken[0]
		m.taken[0], m.taken = nil, m.taken[1:]
		m.durable, m.durableKeys = c.Number, keys{c.seq, c.ended, c.deferred}
		for _, s := range c.ceilings {
			s.queue.ceiling.durable = s.value
		}
		if len(c.documents) > 0 {
			m.documentsDurable = c.Number
		}
		m.chargesDurable(c)
		for _, h := range c.holds {
			if m.grantsHeld[h] == c.Number {
				delete(m.grantsHeld, h)
			}
		}
		for i := range c.arrived {
			m.enterLane(&c.arrived[i], now)
		}
		if cap(c.list) <= spareEffectsMax {
			clear(c.list)
			c.list, m.spare = nil, c.list[:0]
		}
	}
}

// Write writes a commit in a transaction, which makes it durable as a whole.
func (c *Commit) Write(tx Transaction, o WriteOptions) error {
	t := &tables{tx}
	if err := t.write(&c.effects); err != nil {
		return err
	}
	// each write deletes one document at most, so this keeps up
	if err := t.forgetDocuments(2*len(c.documents), c.now.Add(-document.KeepDeleted)); err != nil {
		return err
	}
	if err := t.writeLog(c.logUpdates, o.KeepChanges, c.now); err != nil {
		return err
	}
	return t.writeAudit(c.audited, &o, c.now)
}

// WriteOptions are the settings for writing commits.
type WriteOptions struct {
	KeepChanges time.Duration // how long the logs keep their entries
	// Mask returns what the audit log may show of a queue, a rule or a document of a kind.
	Mask func(kind string, text []byte) []byte
	// AuditShares divides the budgets of the audit log; 0 leaves them whole.
	AuditShares uint64
}

// arrival is a job that has its id, its place and its turn, and enters its lane when its commit is durable.
type arrival struct {
	job *job
	// For imports: what is known of earlier attempts, the state that the job gets, and whether it holds its lane.
	lease     *lease
	state     queue.State
	holdsLane bool
	imported  bool
}

// arrive makes a job enter its lane with the current commit.
func (m *Machine) arrive(a arrival, record []byte) {
	c := m.current
	c.arrived = append(c.arrived, a)
	c.bytes += len(record)
}

// arrivingBefore returns how many arriving jobs of j's lane go before it. If so many arrive that counting would take
// long, all jobs of its priority count.
func (m *Machine) arrivingBefore(j *job) int64 {
	higher := j.lane.incomingBefore(j.priority() + 1)
	if !j.arriving() {
		return higher
	}
	n, looked := int64(0), 0
	for _, c := range append(slices.Clone(m.taken), m.current) {
		if looked += len(c.arrived); looked > 4096 {
			return j.lane.incomingBefore(j.priority())
		}
		for i := range c.arrived {
			if o := c.arrived[i].job; o.lane == j.lane && o.turn < j.turn && o.arriving() && o.lease == nil {
				n++
			}
		}
	}
	return n
}
