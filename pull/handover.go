package pull

import (
	"slices"
	"time"
)

// handOver hands jobs that may start to waiting requests, first come, first served. A request for several jobs gets
// those that may start within the first half of the first job's window.
func (l *loop) handOver(now time.Time) {
	for len(l.granted) > 0 {
		j, w := l.granted[0], l.first()
		if now.After(j.latest) {
			why := Late
			if w == nil {
				why = Unclaimed
			}
			l.giveBack(1, why)
			continue
		}
		if w == nil || now.Before(j.DepartsBy) {
			l.handAt = j.DepartsBy
			if w == nil {
				l.handAt = j.latest
			}
			return
		}
		until := now
		if half := j.DepartsBy.Add(j.latest.Sub(j.DepartsBy) / 2); half.After(now) && !l.spec.Rate.Unlimited() {
			until = half
		}
		n := 1
		for n < min(w.Max, len(l.granted)) && !l.granted[n].DepartsBy.After(until) {
			n++
		}
		if last := l.granted[n-1].DepartsBy; last.After(now) {
			l.handAt = last
			return
		}
		l.waiting = slices.DeleteFunc(l.waiting, func(o *waiter) bool { return o == w })
		w.answer <- answer{jobs: l.release(n)}
	}
}

// first returns the first request whose client is still there, or nil.
func (l *loop) first() *waiter {
	for _, w := range l.waiting {
		if w.ctx.Err() == nil {
			return w
		}
	}
	return nil
}

// release removes the first n jobs from the loop and returns them.
func (l *loop) release(n int) []*job {
	jobs := slices.Clone(l.granted[:n])
	l.granted = slices.Delete(l.granted, 0, n)
	for _, j := range jobs {
		l.bytes -= len(j.text)
	}
	return jobs
}

// giveBack gives the first n jobs back, in the background.
func (l *loop) giveBack(n int, why Reason) {
	if n == 0 {
		return
	}
	jobs := l.release(n)
	l.d.loops.Go(func() { l.d.giveBack(jobs, why) })
}

// dismiss answers requests whose time is over, without jobs or with an error. A request with a granted job stays.
func (l *loop) dismiss(now time.Time) {
	jobs := len(l.granted)
	l.waiting = slices.DeleteFunc(l.waiting, func(w *waiter) bool {
		if jobs > 0 && !l.stopped {
			jobs -= l.useful(w.Max)
			return false
		}
		failing := l.failed != nil && !l.asking
		if !l.stopped && (now.Before(w.until) || !w.seen && !failing && !l.d.full()) {
			return false
		}
		var a answer
		if failing && !l.stopped {
			a.err = l.failed
		}
		w.answer <- a
		return true
	})
}
