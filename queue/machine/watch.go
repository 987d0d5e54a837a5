package machine

import (
	"maps"
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const (
	maxSleep        = 2 * time.Second
	minSleep        = time.Millisecond
	backupPerClient = 250 * time.Millisecond
	overdue         = 250 * time.Millisecond
	// A client that has not asked for this long is considered dead.
	aliveFor = 4 * time.Second
	// A client that has been silent for this long is forgotten, with its last grant.
	clientsKept = 10 * time.Minute
)

// drainers is the state of the clients that ask for jobs.
type drainers struct {
	clients map[string]*client
	// lastReserve is when a drainer last asked for jobs; 0 if not since the file was opened.
	lastReserve leaky.Instant
	watch       watch
	deputy      string // the client that checks most often whether the watcher is alive
	reigns             // of uncertain clients, the latest last
}

// client is a drainer or a puller as the engine knows it.
type client struct {
	queue.Client
	seen       leaky.Instant
	lastNumber uint64   // of its latest decided request
	grant      *grant   // the answer to it
	isPuller   bool     // it pulls from one queue and is not a drainer
	short      []string // queues that had more jobs due than it could have
}

// isNew reports whether the client's request of that number is still to be decided, and not overtaken by a later one.
func (c *client) isNew(number uint64) bool {
	return number > c.lastNumber || c.grant == nil && number == c.lastNumber
}

// watch is which client looks at the agenda for all clients.
type watch struct {
	client string // empty if no client watches
	// until is when the watcher will ask. While no client watches, all clients count as awake until then.
	until leaky.Instant
	// offered is set if the last watcher left a queue to others because it had its share. Only a client that is not
	// short takes over, until the offer is overdue.
	offered bool
}

// patience returns how late the watcher may be before another client takes the watch: departures until then are granted
// already. An offer stands for longer.
func (w *watch) patience() time.Duration {
	if w.offered {
		return overdue
	}
	return queue.Horizon / 2
}

// asksBy reports whether the drainers' watcher can be expected to look at the agenda by an instant.
func (w *watch) asksBy(at, now leaky.Instant) bool {
	return (w.client != "" || w.offered) && w.until <= at && now < w.until.Add(claimKept)
}

// registerClient notes that a client asks, and forgets clients that were silent for long.
func (m *Machine) registerClient(c queue.Client, now leaky.Instant) *client {
	cl := m.clients[c.ID]
	if cl == nil {
		for id, old := range m.clients {
			if now.Sub(old.seen) > clientsKept {
				delete(m.clients, id)
			}
		}
		cl = &client{}
		m.clients[c.ID] = cl
	}
	cl.Client, cl.seen = c, now
	return cl
}

// aliveClients returns how many drainers asked lately.
func (m *Machine) aliveClients(now leaky.Instant) int {
	n := 0
	for _, cl := range m.clients {
		if !cl.isPuller && now.Sub(cl.seen) <= aliveFor {
			n++
		}
	}
	return n
}

// isDeputy reports whether a client is the deputy, and makes it the deputy if there is no other. A watcher that asks at
// least once per horizon is checked by only one other client, however many there are.
func (m *Machine) isDeputy(id string, now leaky.Instant) bool {
	watcher, deputy := m.clients[m.watch.client], m.clients[m.deputy]
	if watcher == nil || m.watch.until.Sub(watcher.seen) > queue.Horizon {
		return false
	}
	if deputy == nil || deputy == watcher || now.Sub(deputy.seen) > overdue {
		m.deputy = id
	}
	return m.deputy == id
}

// planSleep decides how long a client sleeps, and who watches. The watch goes to another client when this one has all
// the jobs that it has handlers for, or begins to leave a queue to others.
func (m *Machine) planSleep(id string, g *grant, now leaky.Instant) (next, backup time.Duration) {
	n, busy := m.aliveClients(now), g.full
	// So the other clients check about four times a second, all together.
	backup = min(maxSleep, time.Duration(n)*backupPerClient)
	offered := m.watch.offered && len(g.short) > 0
	watches := m.watch.client == id || m.watch.client == "" && !offered || now >= m.watch.until.Add(m.watch.patience())
	if !watches && !busy && offered {
		return g.sleeps(min(m.untilNext(g, now), m.watch.until.Add(overdue).Sub(now))), backup
	}
	if !watches && !busy {
		wait, look := m.watch.until.Sub(now), backup
		if wait < 0 {
			return g.sleeps(m.watch.patience() + wait), backup
		}
		if m.isDeputy(id, now) {
			look = min(backup, max(queue.Horizon/2, 3*wait))
		}
		return g.sleeps(min(maxSleep, wait+look)), backup
	}
	next = m.untilNext(g, now)
	if !busy && g.atVisitLimit() && m.firstDeparture(g) <= now.Add(queue.Horizon) {
		next = 0
	}
	if watches {
		m.watch = watch{client: id, until: now.Add(g.sleeps(next) + g.lead)}
	}
	if watches && !busy && g.newlyShort && n > 1 {
		m.watch = watch{until: now, offered: true}
		m.publishWake("")
	}
	if busy {
		if watches {
			m.watch = watch{until: now}
			if n > 1 && m.agenda.len()+len(g.passedOver)+m.timers.len()+m.expiring.len() > 0 {
				m.publishWake("")
			}
		}
		if m.firstDeparture(g) <= now.Add(queue.Horizon) {
			next = 0
		}
	}
	return g.sleeps(next), backup
}

// asksFor returns when the client should ask for a departure: half a horizon before it, or its lead if that is longer.
func (g *grant) asksFor(departs leaky.Instant) leaky.Instant {
	return max(departs, g.from).Add(-max(queue.Horizon/2, g.lead))
}

// sleeps returns the client's pause, shortened by its lead, so that its request arrives on time. It takes about the
// lead until the client has the answer and can pause.
func (g *grant) sleeps(next time.Duration) time.Duration {
	return max(next-g.lead, min(next, minSleep))
}

// untilNext returns how long until a client should ask: half a horizon before the next departure, or when a timer, a
// lease or an expiry is due.
func (m *Machine) untilNext(g *grant, now leaky.Instant) time.Duration {
	next := maxSleep
	if m.toRefile {
		return minSleep
	}
	if first := m.firstDeparture(g); first != never {
		next = min(next, g.asksFor(first).Sub(now))
	}
	if g.again != 0 {
		next = min(next, g.again.Sub(now))
	}
	if m.timers.len() > 0 {
		next = min(next, m.timers.top().timerAt.Sub(now))
	}
	return max(min(next, m.untilLeaseOrExpiry(now)), minSleep)
}

// untilLeaseOrExpiry returns how long until a lease runs out or jobs expire, in any queue.
func (m *Machine) untilLeaseOrExpiry(now leaky.Instant) time.Duration {
	if m.leases.len() > 0 && m.Full == nil {
		return min(m.untilExpiry(now), m.leases.top().deadline.Sub(now))
	}
	return m.untilExpiry(now)
}

// wakeFor wakes the watcher if it would look later than at. It then counts as asking at once, so one wake-up is enough;
// if it is overdue, it is considered dead. While no client watches, all are woken, at most four times a second.
func (m *Machine) wakeFor(at, now leaky.Instant) {
	patience := overdue
	if m.watch.offered {
		patience = queue.Horizon / 2
	}
	if (m.watch.client != "" || m.watch.offered) && now >= m.watch.until.Add(patience) {
		m.watch = watch{until: now}
	}
	switch {
	case m.watch.offered: // all clients were woken just now
	case m.watch.client == "" && now >= m.watch.until:
		m.watch.until = now.Add(overdue)
		m.publishWake("")
	case m.watch.client != "" && at < m.watch.until:
		m.watch.until = now
		m.publishWake(m.watch.client)
	}
}

// publishWake sends a wake-up to a client; to all if it is empty.
func (m *Machine) publishWake(client string) {
	m.wakeups = append(m.wakeups, queue.Wakeup{Client: client})
}

// Drainers returns the clients that drain the store.
func (m *Machine) Drainers(now leaky.Instant) queue.Drainers {
	d := queue.Drainers{Now: now.Time()}
	if m.lastReserve != 0 {
		d.Last = m.lastReserve.Time()
	}
	for _, id := range slices.Sorted(maps.Keys(m.clients)) {
		if cl := m.clients[id]; !cl.isPuller && now.Sub(cl.seen) <= queue.SeenFor {
			d.Seen = append(d.Seen, queue.Drainer{Client: cl.Client, LastSeen: cl.seen.Time()})
		}
	}
	return d
}
