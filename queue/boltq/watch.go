package boltq

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	longestSleep  = 2 * time.Second
	shortestSleep = time.Millisecond
	backupEach    = 250 * time.Millisecond
	overdue       = 250 * time.Millisecond
	// Who did not ask for as long does not live, as far as the watch goes.
	aliveLately = 4 * time.Second
	// A client that was silent for as long is forgotten, and its last grant
	// with it.
	clientsKept = 10 * time.Minute
)

// client is a drainer in the eyes of the engine.
type client struct {
	queue.Client
	seen  leaky.Instant
	last  uint64   // the number of its last request that was decided
	grant *grant   // what it was answered
	pulls bool     // from one queue, and is no drainer
	short []string // queues of which more was due than it could have, by that request
}

// fresh reports whether the client's request of that number was not decided yet,
// nor overtaken by a later one.
func (c *client) fresh(number uint64) bool {
	return number > c.last || c.grant == nil && number == c.last
}

// watch says which client looks at the agenda for all.
type watch struct {
	client string // empty: nobody
	// told is when it will ask; when nobody watches, until when everybody is
	// taken to be awake already.
	told leaky.Instant
	// offered: its last one left a queue to others. Until it is overdue only who is not short takes it.
	offered bool
}

// meet notes that a client asks, and forgets those long silent.
func (e *Engine) meet(c queue.Client, now leaky.Instant) *client {
	cl := e.clients[c.ID]
	if cl == nil {
		for id, old := range e.clients {
			if now.Sub(old.seen) > clientsKept {
				delete(e.clients, id)
			}
		}
		cl = &client{}
		e.clients[c.ID] = cl
	}
	cl.Client, cl.seen = c, now
	return cl
}

// alive counts the clients that asked lately.
func (e *Engine) alive(now leaky.Instant) int {
	n := 0
	for _, cl := range e.clients {
		if !cl.pulls && now.Sub(cl.seen) <= aliveLately {
			n++
		}
	}
	return n
}

// sleep decides how long a client sleeps, and who watches: somebody else, when it was granted all that it has
// handlers for, or begins to leave a queue to others.
func (e *Engine) sleep(id string, g *grant, now leaky.Instant) (next, backup time.Duration) {
	n, busy := e.alive(now), g.full
	// The others check about four times a second together.
	backup = min(longestSleep, time.Duration(n)*backupEach)
	offered := e.watch.offered && len(g.short) > 0
	watches := e.watch.client == id || e.watch.client == "" && !offered || now >= e.watch.told.Add(overdue)
	if !watches && !busy && offered {
		return min(e.untilNext(g, now), e.watch.told.Add(overdue).Sub(now)), backup
	}
	if !watches && !busy {
		if late := now.Sub(e.watch.told); late > 0 {
			return overdue - late, backup
		}
		return min(longestSleep, e.watch.told.Sub(now)+backup), backup
	}
	next = e.untilNext(g, now)
	if watches {
		e.watch = watch{client: id, told: now.Add(next)}
	}
	if watches && !busy && g.news && n > 1 {
		e.watch = watch{told: now, offered: true}
		e.publish("")
	}
	if busy {
		if watches {
			e.watch = watch{told: now}
			if n > 1 && e.agenda.len()+len(g.passed)+e.ripening.len()+e.expiring.len() > 0 {
				e.publish("")
			}
		}
		if e.first(g) <= now.Add(queue.Horizon) {
			next = 0
		}
	}
	return next, backup
}

// untilNext is how long until somebody should ask: half a horizon before the
// next departure, or when a scheduled job is due, a lease runs out or jobs expire.
func (e *Engine) untilNext(g *grant, now leaky.Instant) time.Duration {
	next := longestSleep
	if first := e.first(g); first != never {
		next = min(next, first.Add(-queue.Horizon/2).Sub(now))
	}
	if e.ripening.len() > 0 {
		next = min(next, e.ripening.top().ripens.Sub(now))
	}
	return max(min(next, e.untilOver(now)), shortestSleep)
}

// untilOver is how long until a lease runs out, or jobs expire, whatever queues they are of.
func (e *Engine) untilOver(now leaky.Instant) time.Duration {
	if e.leases.len() > 0 && !e.full() {
		return min(e.untilExpiry(now), e.leases.top().deadline.Sub(now))
	}
	return e.untilExpiry(now)
}

// wakeFor wakes whoever watches when it would look after at. It is taken to ask
// at once, so that one wake-up is enough. One that is overdue is taken to be
// dead. While nobody watches everybody is woken, four times a second at most.
func (e *Engine) wakeFor(at, now leaky.Instant) {
	patience := overdue
	if e.watch.offered {
		patience = queue.Horizon / 2
	}
	if (e.watch.client != "" || e.watch.offered) && now >= e.watch.told.Add(patience) {
		e.watch = watch{told: now}
	}
	switch {
	case e.watch.offered: // everybody was woken just now
	case e.watch.client == "" && now >= e.watch.told:
		e.watch.told = now.Add(overdue)
		e.publish("")
	case e.watch.client != "" && at < e.watch.told:
		e.watch.told = now
		e.publish(e.watch.client)
	}
}

// publish sends a wake-up to those who listen.
func (e *Engine) publish(client string) { e.ears.tell(queue.Wakeup{Client: client}) }

// Wake implements queue.Outflow. Closing the engine closes the channel too.
func (e *Engine) Wake(ctx context.Context) <-chan queue.Wakeup { return listen(ctx, e, e.ears, 16) }

// Drainers implements queue.Specs.
func (e *Engine) Drainers(ctx context.Context) (queue.Drainers, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.readable(ctx); err != nil {
		return queue.Drainers{}, err
	}
	now := e.now()
	d := queue.Drainers{Now: now.Time()}
	if e.reserved != 0 {
		d.Last = e.reserved.Time()
	}
	for _, cl := range e.clients {
		if !cl.pulls && now.Sub(cl.seen) <= queue.SeenFor {
			d.Seen = append(d.Seen, queue.Drainer{Client: cl.Client, LastSeen: cl.seen.Time()})
		}
	}
	slices.SortFunc(d.Seen, func(a, b queue.Drainer) int { return cmp.Compare(a.ID, b.ID) })
	return d, nil
}
