package deferred

import (
	"context"
	"errors"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	// unknownGrace is how long a queue must have been missing before its jobs become dead
	// letters: a store that was restored may have its queues a little later.
	unknownGrace = 30 * time.Second
	// buryBatch is how many messages become dead letters at a time, and buryPause when the
	// next follow: there may be very many of them, and they are in no hurry.
	buryBatch = 16
	buryPause = 100 * time.Millisecond
)

// orphans makes dead letters of the jobs of a queue that does not exist. Nobody can have
// that path to himself; but several who do it at once write the same dead letters, which
// NATS stores once, and remove the same messages.
func (w *returnPath) orphans(ctx context.Context) (pause time.Duration, left bool, err error) {
	w.lost()
	now := time.Now()
	if w.unknown.IsZero() {
		w.unknown = now
	}
	if wait := w.r.grace - now.Sub(w.unknown); wait > 0 {
		return min(wait, w.r.grace/4+1), true, nil
	}
	return w.clear(ctx, QueueDeleted, "there is no such queue", func(ctx context.Context) error {
		// After the look: what was put by now was not put for a queue that was made since.
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		_, err := w.r.engine.Get(ctx, w.name)
		switch {
		case err == nil:
			w.unknown = time.Time{}
			return errQueueBack
		case errors.Is(err, queue.ErrUnknownQueue):
			return nil
		}
		return err
	})
}

var errQueueBack = errors.New("the queue was made again")

// foreign makes dead letters of messages on a subject that is no queue's.
func (w *returnPath) foreign(ctx context.Context) (pause time.Duration, left bool, err error) {
	return w.clear(ctx, NotOurs, "its subject is no queue's", func(context.Context) error { return nil })
}

// clear makes dead letters of the next messages, unless sure says no.
func (w *returnPath) clear(
	ctx context.Context, why Reason, detail string, sure func(context.Context) error,
) (pause time.Duration, left bool, err error) {
	h, err := w.r.memory.hold(ctx)
	if err != nil {
		return 0, true, err
	}
	defer h.release()
	f, err := w.r.stream.fetch(ctx, w.subject, 1, buryBatch)
	if err != nil {
		return 0, true, err
	}
	if len(f.messages) == 0 {
		w.clearStuck()
		subjects, err := w.r.stream.count(ctx, w.subject)
		w.tries++
		return w.backoff(1), subjects[w.subject] > 0, err
	}
	if err := sure(ctx); err != nil {
		return 0, true, err
	}
	deadLetters := w.deadLetters(&f, why, detail)
	if err := w.r.stream.bury(ctx, deadLetters); err != nil {
		return 0, true, w.noteStuck(ctx, err)
	}
	w.clearStuck()
	w.tries = 0
	w.r.observer.DeadLetter(w.name, why, len(deadLetters))
	w.r.log.Warn("deferred jobs became dead letters", "subject", w.subject, "reason", string(why),
		"jobs", len(deadLetters))
	return buryPause, true, w.r.stream.remove(ctx, w.subject, f.last+1)
}

// deadLetters are those of messages, one for each job that can be read.
func (w *returnPath) deadLetters(f *fetched, why Reason, detail string) []deadLetter {
	var all []deadLetter
	for i := range f.messages {
		m := &f.messages[i]
		l := deadLetter{subject: w.subject, seq: m.seq, reason: why, detail: detail, body: m.body}
		items, err := w.read(m)
		if err != nil || w.name == "" {
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
