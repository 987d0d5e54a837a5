package deferred

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

const (
	// few is how many jobs are submitted when there is no room for them: enough to see whether the oldest are too old.
	few = 16
	// maxBatch is the maximum number of messages read at a time.
	maxBatch = 256
	// longestElection is how long jobs come back while the stream has no leader. NATS takes 4 to 9 s to elect one.
	longestElection = 30 * time.Second
)

// batchResult is the result of readmitBatch.
type batchResult struct {
	last  queue.Readmitted // the engine's last answer
	empty bool             // no messages are left, as far as one replica knows
	stuck bool             // there is no room for the next job
}

// candidate is a job on its way back, or a foreign message.
type candidate struct {
	deadLetter
	order  int64
	buried bool // stored as a dead letter
}

// readmitBatch reads as many messages as there is room for, submits their jobs to the engine, and removes what the
// engine took. If the process is killed meanwhile, nothing is lost, and what is read again is refused by the engine's
// order or by the job's id.
func (p *returnPath) readmitBatch(ctx context.Context, a queue.Readmitted, open bool) (batchResult, error) {
	b := batchResult{last: a}
	permit, err := p.r.memory.acquire(ctx)
	if err != nil {
		return b, err
	}
	defer permit.release()
	p.asOf = p.now
	leaderless := p.goesOn()
	f, order, err := p.readHead(ctx, a, open, leaderless, permit)
	if err != nil {
		return b, err
	}
	if len(f.messages) == 0 {
		b.empty = true
		return b, nil
	}
	candidates := p.candidates(&f, order)
	found := len(candidates)
	err = p.submit(ctx, &b, &candidates, f.pending, open)
	if leaderless {
		p.trusted = 0 // the leader was not asked whether the order is right
	}
	if err != nil || b.last.Busy > 0 {
		return b, err
	}
	p.clearStuck()
	p.tries = 0 // not earlier: a path that makes no progress must try ever more rarely
	b.empty = len(candidates) == 0 && f.pending == 0
	return b, p.removeTaken(ctx, &f, candidates, found-len(candidates), leaderless)
}

// readHead reads the first messages, as many as there is room for, and returns the order up to which jobs are skipped.
func (p *returnPath) readHead(
	ctx context.Context, a queue.Readmitted, open, leaderless bool, permit *permit,
) (f fetched, order int64, err error) {
	room := a.Room
	if !open {
		room = 0
	}
	// Always start at the first message: removeTaken removes everything before the end of what was read, so nothing
	// may be skipped. Without a leader nothing is removed.
	from, batch := uint64(1), p.batch(room)
	if leaderless {
		// The first message may be taken already, so read one more.
		from, batch = max(1, uint64(a.Order)/stride), batch+1
	}
	if f, err = p.r.stream.fetch(ctx, p.subject, from, batch); err != nil || len(f.messages) == 0 {
		return f, 0, err
	}
	permit.shrink(f.size())
	if leaderless || !p.suspects(f.messages[0].seq, a.Order) {
		return f, a.Order, nil
	}
	head, err := p.r.stream.first(ctx, p.subject)
	if err != nil {
		return f, 0, err
	}
	f.drop(head) // from a lagging replica: removed already
	if len(f.messages) > 0 && p.suspects(f.messages[0].seq, a.Order) {
		p.doubtful()
		return f, 0, nil
	}
	return f, a.Order, nil
}

// removeTaken removes the messages before the first job that is left; a message goes with its last job. While the
// stream has no leader it only records how far that is.
func (p *returnPath) removeTaken(ctx context.Context, f *fetched, left []candidate, taken int, leaderless bool) error {
	end := f.last + 1
	if len(left) > 0 {
		end = left[0].seq
	}
	var err error
	if end > f.messages[0].seq && !leaderless {
		if err = p.r.stream.remove(ctx, p.subject, end); err != nil {
			leaderless = p.goesOn()
		}
	}
	switch {
	case leaderless:
		p.ahead, p.unremoved = max(p.ahead, end), p.unremoved+int64(taken)
		p.trusted = 0
		return nil
	case err != nil:
		return err
	case end >= p.ahead:
		p.ahead, p.unremoved = 0, 0
	}
	if len(left) == 0 || left[0].index == 0 {
		p.doubt = "" // the doubtful messages are gone
	}
	return nil
}

// goesOn reports whether jobs come back although the stream has no leader. Any replica can be read, but nothing can be
// removed: reading continues from the engine's order. Once there is a leader, reading starts from the first message
// again, and the engine judges each job by its id. So the queue must remember the ids until then.
func (p *returnPath) goesOn() bool {
	since, remembers := p.r.stream.leaderless(), p.spec.retention
	return !since.IsZero() && time.Since(since) < longestElection && remembers.For.D() >= 2*longestElection &&
		p.unremoved < remembers.Max/2
}

// batch returns how many messages to read for that much room.
func (p *returnPath) batch(room int64) int {
	if p.ahead > 0 { // most of the jobs are in the queue already and need no room
		return maxBatch
	}
	return int(min(max(1, room/int64(p.each)), maxBatch))
}

func orderOf(seq uint64, index int) int64 { return int64(seq)*stride + int64(index) }

// candidates returns the jobs of the messages above an order.
func (p *returnPath) candidates(f *fetched, order int64) []candidate {
	var all []candidate
	for i := range f.messages {
		m := &f.messages[i]
		l := deadLetter{subject: p.subject, seq: m.seq, body: m.body}
		items, err := p.read(m)
		if err != nil {
			l.reason, l.detail = NotOurs, err.Error()
			all = append(all, candidate{deadLetter: l, order: orderOf(m.seq, stride-1)})
			continue
		}
		for k := range items {
			l.index, l.item = k, &items[k]
			all = append(all, candidate{deadLetter: l, order: orderOf(m.seq, k)})
		}
	}
	p.each = max(1, len(all)/len(f.messages))
	for len(all) > 0 && all[0].order <= order {
		all = all[1:]
	}
	return all
}

func (p *returnPath) read(m *stored) ([]Item, error) {
	if f := last(m.header, formatHeader); f != format {
		return nil, fmt.Errorf("%w: its %s is %q", errNotOurs, formatHeader, f)
	}
	return decode(p.name, m.body)
}

// submit submits candidates to the engine, as long as it takes them, and cuts off the taken ones.
func (p *returnPath) submit(
	ctx context.Context, b *batchResult, candidates *[]candidate, pending int64, open bool,
) error {
	for len(*candidates) > 0 && !b.stuck {
		c := *candidates
		if c[0].reason != "" && !c[0].buried {
			if err := p.bury(ctx, &c[0]); err != nil {
				return err
			}
		}
		room := b.last.Room
		if !open {
			room = 0
		}
		n := run(c, int(min(max(room, few), queue.MaxReadmit)))
		r := queue.ReadmitRequest{Jobs: jobs(c[:n]), Closed: !open, Behind: int64(len(c)-n) + pending}
		a, err := p.readmit(ctx, r)
		b.last = a
		if err != nil || a.Busy > 0 {
			return err
		}
		if len(a.Outcomes) != n {
			return fmt.Errorf("%w: %d outcomes for %d jobs", queue.ErrCorrupt, len(a.Outcomes), n)
		}
		p.trust(a.Order)
		p.head = time.Now()
		final, returned := p.report(a.Outcomes)
		*candidates = c[final:]
		if final < n {
			b.stuck = !(*candidates)[0].refused(a.Outcomes[final])
		} else if a.Room == 0 && returned > 0 {
			b.stuck = true // not worth asking again
		}
		p.depth(*candidates, a.Deferred, pending)
	}
	return nil
}

// run returns how many candidates can be submitted at once, up to the first that must become a dead letter.
func run(c []candidate, limit int) int {
	n := min(len(c), limit)
	for i := range c[:n] {
		if c[i].reason != "" && !c[i].buried {
			return i
		}
	}
	return n
}

func jobs(c []candidate) []queue.Readmission {
	r := make([]queue.Readmission, len(c))
	for i := range c {
		r[i] = queue.Readmission{Order: c[i].order, Done: c[i].buried}
		if item := c[i].item; item != nil {
			r[i].Job, r[i].Ticket, r[i].At = item.Job, item.Ticket, item.At
		}
	}
	return r
}

// refused turns a candidate that cannot come back into a dead letter. It reports whether it did: otherwise there is no
// room for the candidate.
func (c *candidate) refused(o readmit.Outcome) bool {
	switch o {
	case readmit.Clash:
		c.reason, c.detail = Clash, "the queue has or had another job of this id"
	case readmit.Orphaned:
		c.reason, c.detail = Orphaned, "it was deferred for a queue that has since been deleted and created again"
	case readmit.Unreadable:
		c.reason, c.detail = Unreadable, "the record under its id in the store was not written by Penstock"
	default:
		return false
	}
	return true
}

// bury stores a candidate as a dead letter.
func (p *returnPath) bury(ctx context.Context, c *candidate) error {
	if err := p.r.stream.bury(ctx, []deadLetter{c.deadLetter}); err != nil {
		return p.noteStuck(ctx, err)
	}
	c.buried = true
	p.r.observer.DeadLetter(p.name, c.reason, 1)
	p.r.log.Warn("a deferred job became a dead letter", "subject", p.subject, "sequence", c.seq,
		"reason", string(c.reason), "detail", c.detail)
	return nil
}

// report reports the outcomes to the observer, and returns how many are final, up to the first that is not.
func (p *returnPath) report(outcomes []readmit.Outcome) (final, returned int) {
	var count [readmit.TooLarge + 1]int
	for _, o := range outcomes {
		if !o.Final() {
			break
		}
		final++
		count[o]++
	}
	if returned = count[readmit.Returned]; returned > 0 {
		p.r.observer.Returned(p.name, returned)
	}
	if n := count[readmit.TooOld]; n > 0 {
		p.r.observer.DeadLetter(p.name, TooOld, n)
	}
	if n := count[readmit.TooLate]; n > 0 {
		p.r.observer.DeadLetter(p.name, TooLate, n)
	}
	if n := count[readmit.TooLarge]; n > 0 {
		p.r.observer.DeadLetter(p.name, TooLarge, n)
	}
	return final, returned
}

// depth reports what is left.
func (p *returnPath) depth(left []candidate, recorded, pending int64) {
	p.behind = int64(len(left)) + pending
	var oldest time.Time
	if len(left) > 0 && left[0].item != nil {
		oldest = left[0].item.At
	}
	p.show(max(recorded, p.behind), oldest)
}
