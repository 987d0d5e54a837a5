package deferred

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

const (
	// few is how many jobs are handed in when there is no room for them: enough to see
	// whether the oldest are too old.
	few = 16
	// maxBatch is the most messages that are read at a time.
	maxBatch = 256
	// longestElection is how long jobs come back while the stream has no leader. NATS takes 4 to 9 s to elect one.
	longestElection = 30 * time.Second
)

// takeResult is how taking went.
type takeResult struct {
	last    queue.Readmitted // the engine's last answer
	nothing bool             // nothing is there any more, as far as one replica knows
	stuck   bool             // there is no room for what is there
}

// candidate is one job on its way back, or a message that is none.
type candidate struct {
	deadLetter
	order int64
	done  bool // a dead letter by now
}

// take reads what there is room for, hands it in, and removes what was taken. Killed
// anywhere in it, nothing is lost, and what is seen again is refused by the engine's
// order, or by the job's id.
func (w *returnPath) take(ctx context.Context, a queue.Readmitted, open bool) (takeResult, error) {
	t := takeResult{last: a}
	h, err := w.r.memory.hold(ctx)
	if err != nil {
		return t, err
	}
	defer h.release()

	room := a.Room
	if !open {
		room = 0
	}
	w.asOf = w.now
	// Always from the first: what is removed below ends where the reading did, so nothing
	// may lie before it that was not read. Without a leader nothing is removed.
	from, batch, leaderless := uint64(1), w.batch(room), w.goesOn()
	if leaderless {
		// The first message read may be taken already, so read one more.
		from, batch = max(1, uint64(a.Order)/stride), batch+1
	}
	f, err := w.r.stream.fetch(ctx, w.subject, from, batch)
	if err != nil {
		return t, err
	}
	if len(f.messages) == 0 {
		t.nothing = true
		return t, nil
	}
	h.settle(f.size())
	below := a.Order
	if !leaderless && w.suspects(f.messages[0].seq, below) {
		head, err := w.r.stream.first(ctx, w.subject)
		if err != nil {
			return t, err
		}
		if f.drop(head); len(f.messages) == 0 { // a replica lags: all of this was removed
			t.nothing = true
			return t, nil
		}
		if w.suspects(f.messages[0].seq, below) {
			w.doubtful()
			below = 0
		}
	}
	candidates := w.candidates(&f, below)
	found := len(candidates)
	err = w.hand(ctx, &t, &candidates, f.pending, open)
	if leaderless {
		w.trusted = 0 // it was not asked whether the order is to be believed
	}
	if err != nil || t.last.Busy > 0 {
		return t, err
	}
	w.clearStuck()
	w.tries = 0 // not before: who cannot go on is to try ever more seldom
	// All below the first that is not taken; of a message, all of its jobs.
	end := f.last + 1
	if len(candidates) > 0 {
		end = candidates[0].seq
	}
	t.nothing = len(candidates) == 0 && f.pending == 0
	if end > f.messages[0].seq && !leaderless {
		if err = w.r.stream.remove(ctx, w.subject, end); err != nil {
			leaderless = w.goesOn()
		}
	}
	switch {
	case leaderless:
		w.ahead, w.unremoved = max(w.ahead, end), w.unremoved+int64(found-len(candidates))
		w.trusted = 0
		return t, nil
	case err != nil:
		return t, err
	case end >= w.ahead:
		w.ahead, w.unremoved = 0, 0
	}
	if len(candidates) == 0 || candidates[0].index == 0 {
		w.doubt = "" // what was doubted is gone
	}
	return t, nil
}

// goesOn reports whether the stream has no leader and jobs come back all the same. Any replica can be read, but nothing
// can be removed: take reads on from the engine's order. Once there is a leader, take reads from the first message
// again, and the engine judges each job by its id. So the queue must remember the ids until then.
func (w *returnPath) goesOn() bool {
	since, remembers := w.r.stream.leaderless(), w.spec.retention
	return !since.IsZero() && time.Since(since) < longestElection && remembers.For.D() >= 2*longestElection &&
		w.unremoved < remembers.Max/2
}

// batch is how many messages to read for so much room.
func (w *returnPath) batch(room int64) int {
	if w.ahead > 0 { // most of what is read is in the queue already and needs no room
		return maxBatch
	}
	return int(min(max(1, room/int64(w.each)), maxBatch))
}

func orderOf(seq uint64, index int) int64 { return int64(seq)*stride + int64(index) }

// candidates are the jobs of messages that are above an order.
func (w *returnPath) candidates(f *fetched, order int64) []candidate {
	var all []candidate
	for i := range f.messages {
		m := &f.messages[i]
		l := deadLetter{subject: w.subject, seq: m.seq, body: m.body}
		items, err := w.read(m)
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
	w.each = max(1, len(all)/len(f.messages))
	for len(all) > 0 && all[0].order <= order {
		all = all[1:]
	}
	return all
}

func (w *returnPath) read(m *stored) ([]Item, error) {
	if f := last(m.header, formatHeader); f != format {
		return nil, fmt.Errorf("%w: its %s is %q", errNotOurs, formatHeader, f)
	}
	return unpack(w.name, m.body)
}

// hand hands candidates to the engine, as long as it takes them, and cuts off those that it
// took.
func (w *returnPath) hand(ctx context.Context, t *takeResult, candidates *[]candidate, pending int64, open bool) error {
	for len(*candidates) > 0 && !t.stuck {
		p := *candidates
		if p[0].reason != "" && !p[0].done {
			if err := w.bury(ctx, &p[0]); err != nil {
				return err
			}
		}
		room := t.last.Room
		if !open {
			room = 0
		}
		n := run(p, int(min(max(room, few), queue.MaxReadmit)))
		r := queue.ReadmitRequest{Jobs: jobs(p[:n]), Closed: !open, Behind: int64(len(p)-n) + pending}
		a, err := w.readmit(ctx, r)
		t.last = a
		if err != nil || a.Busy > 0 {
			return err
		}
		if len(a.Outcomes) != n {
			return fmt.Errorf("%w: %d outcomes of %d jobs", queue.ErrCorrupt, len(a.Outcomes), n)
		}
		w.trust(a.Order)
		w.head = time.Now()
		final, returned := w.report(a.Outcomes)
		*candidates = p[final:]
		if final < n {
			t.stuck = !(*candidates)[0].refused(a.Outcomes[final])
		} else if a.Room == 0 && returned > 0 {
			t.stuck = true // it is not worth asking again
		}
		w.depth(*candidates, a.Deferred, pending)
	}
	return nil
}

// run is how many candidates can be handed in at once: none that has to become a dead letter
// first.
func run(p []candidate, limit int) int {
	n := min(len(p), limit)
	for i := range p[:n] {
		if p[i].reason != "" && !p[i].done {
			return i
		}
	}
	return n
}

func jobs(p []candidate) []queue.Readmission {
	r := make([]queue.Readmission, len(p))
	for i := range p {
		r[i] = queue.Readmission{Order: p[i].order, Done: p[i].done}
		if item := p[i].item; item != nil {
			r[i].Job, r[i].Ticket, r[i].At = item.Job, item.Ticket, item.At
		}
	}
	return r
}

// refused makes a dead letter of a candidate that cannot come back. It reports whether it
// is one: else there is no room for it.
func (p *candidate) refused(o readmit.Outcome) bool {
	switch o {
	case readmit.Clash:
		p.reason, p.detail = Clash, "the queue has or had another job of this id"
	case readmit.Orphaned:
		p.reason, p.detail = Orphaned, "it was deferred for a queue that was deleted since, and made again"
	case readmit.Unreadable:
		p.reason, p.detail = Unreadable, "the store holds something under its id that is not Penstock's"
	default:
		return false
	}
	return true
}

// bury makes a candidate a dead letter.
func (w *returnPath) bury(ctx context.Context, p *candidate) error {
	if err := w.r.stream.bury(ctx, []deadLetter{p.deadLetter}); err != nil {
		return w.noteStuck(ctx, err)
	}
	p.done = true
	w.r.observer.DeadLetter(w.name, p.reason, 1)
	w.r.log.Warn("a deferred job became a dead letter", "subject", w.subject, "sequence", p.seq,
		"reason", string(p.reason), "detail", p.detail)
	return nil
}

// report tells the observer, and returns how many outcomes are final, up to the first
// that is not.
func (w *returnPath) report(outcomes []readmit.Outcome) (final, returned int) {
	var count [readmit.TooLarge + 1]int
	for _, o := range outcomes {
		if !o.Final() {
			break
		}
		final++
		count[o]++
	}
	if returned = count[readmit.Returned]; returned > 0 {
		w.r.observer.Returned(w.name, returned)
	}
	if n := count[readmit.TooOld]; n > 0 {
		w.r.observer.DeadLetter(w.name, TooOld, n)
	}
	if n := count[readmit.TooLate]; n > 0 {
		w.r.observer.DeadLetter(w.name, TooLate, n)
	}
	if n := count[readmit.TooLarge]; n > 0 {
		w.r.observer.DeadLetter(w.name, TooLarge, n)
	}
	return final, returned
}

// depth shows what is left.
func (w *returnPath) depth(left []candidate, recorded, pending int64) {
	w.behind = int64(len(left)) + pending
	var oldest time.Time
	if len(left) > 0 && left[0].item != nil {
		oldest = left[0].item.At
	}
	w.show(max(recorded, w.behind), oldest)
}
