package deferred

import (
	"context"
	"errors"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// unknownGrace is how long a queue must be missing before its jobs become dead letters: a restored store may get
	// its queues a little later.
	unknownGrace = 30 * time.Second
	// buryBatch is how many messages become dead letters at a time, and buryPause the time between: there may be very
	// many, and they are not urgent.
	buryBatch = 16
	buryPause = 100 * time.Millisecond
)

// orphans turns the jobs of a missing queue into dead letters. No process can claim the way back of a missing queue for
// itself, but several at once do no harm: they write the same dead letters, which NATS stores once, and remove the same
// messages.
func (p *returnPath) orphans(ctx context.Context) (pause time.Duration, left bool, err error) {
	p.lost()
	now := time.Now()
	if p.unknown.IsZero() {
		p.unknown = now
	}
	if wait := p.r.grace - now.Sub(p.unknown); wait > 0 {
		return min(wait, p.r.grace/4+1), true, nil
	}
	return p.clear(ctx, QueueDeleted, "the queue does not exist", func(ctx context.Context) error {
		// Asked after the messages were read: jobs put later may belong to a new queue of the same name.
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		_, err := p.r.engine.Get(ctx, p.name)
		switch {
		case err == nil:
			p.unknown = time.Time{}
			return errQueueBack
		case errors.Is(err, queue.ErrUnknownQueue):
			return nil
		}
		return err
	})
}

var errQueueBack = errors.New("the queue was created again")

// foreign turns messages on a subject that belongs to no queue into dead letters.
func (p *returnPath) foreign(ctx context.Context) (pause time.Duration, left bool, err error) {
	return p.clear(ctx, NotOurs, "its subject belongs to no queue", func(context.Context) error { return nil })
}

// clear turns the next messages into dead letters, unless sure, called after they were read, returns an error.
func (p *returnPath) clear(
	ctx context.Context, why Reason, detail string, sure func(context.Context) error,
) (pause time.Duration, left bool, err error) {
	permit, err := p.r.memory.acquire(ctx)
	if err != nil {
		return 0, true, err
	}
	defer permit.release()
	f, err := p.r.stream.fetch(ctx, p.subject, 1, buryBatch)
	if err != nil {
		return 0, true, err
	}
	if len(f.messages) == 0 {
		p.clearStuck()
		subjects, err := p.r.stream.count(ctx, p.subject)
		p.tries++
		return p.backoff(1), subjects[p.subject] > 0, err
	}
	if err := sure(ctx); err != nil {
		return 0, true, err
	}
	deadLetters := p.deadLetters(&f, why, detail)
	if err := p.r.stream.bury(ctx, deadLetters); err != nil {
		return 0, true, p.noteStuck(ctx, err)
	}
	p.clearStuck()
	p.tries = 0
	p.r.observer.DeadLetter(p.name, why, len(deadLetters))
	p.r.log.Warn("deferred jobs became dead letters", "subject", p.subject, "reason", string(why),
		"jobs", len(deadLetters))
	return buryPause, true, p.r.stream.remove(ctx, p.subject, f.last+1)
}

// deadLetters returns a dead letter per readable job, and per unreadable message.
func (p *returnPath) deadLetters(f *fetched, why Reason, detail string) []deadLetter {
	var all []deadLetter
	for i := range f.messages {
		m := &f.messages[i]
		l := deadLetter{subject: p.subject, seq: m.seq, reason: why, detail: detail, body: m.body}
		items, err := p.read(m)
		if err != nil || p.name == "" {
			if err != nil {
				l.reason, l.detail = NotOurs, err.Error()
			}
			all = append(all, l)
			continue
		}
		for k := range items {
			l.index, l.item = k, &items[k]
			all = append(all, l)
		}
	}
	return all
}
