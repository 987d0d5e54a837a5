package machine

import (
	"strings"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/internal/check"
)

// Decide says what became of held jobs, and returns where each is afterwards and the commit that the answer waits for.
// Errors: queue.ErrUnknownQueue, an *invalid.Error.
func (m *Machine) Decide(
	now leaky.Instant, actor audit.Actor, name string, ids []string, v queue.Verdict, reason string,
) (states []queue.State, wait uint64, err error) {
	q := m.queues[name]
	if q == nil {
		return nil, 0, unknownQueue(name)
	}
	if err := check.IDs(ids); err != nil {
		return nil, 0, err
	}
	if err := check.Decision(ids, v, reason); err != nil {
		return nil, 0, err
	}
	act := &jobAct{
		what: changekind.Decided, actor: actor, detail: v.Decides().String(), reason: strings.Clone(reason),
	}
	states = make([]queue.State, len(ids))
	for i, id := range ids {
		j := q.jobs[id]
		if j == nil {
			states[i] = m.endedState(q, id, now)
			wait = max(wait, m.lastWait())
			continue
		}
		if states[i] = j.stateToBe(); j.state == queue.Held {
			states[i] = m.decideHeld(j, v, act, now)
		}
		wait = max(wait, m.waitsForJob(j))
	}
	return states, wait, nil
}

// decideHeld carries out a decision about a held job, and returns its state.
func (m *Machine) decideHeld(j *job, v queue.Verdict, act *jobAct, now leaky.Instant) queue.State {
	q, ls, c := j.lane.queue, j.lease, m.touch(j.lane.queue)
	c.logJobAct(act, q.name, q.revision, j.id, false, m.wall(now))
	q.held.remove(ls)
	if ls.commit = c.Number; v == queue.Release {
		ls.due, ls.onFile = 0, true
		c.putLease(j.seq, queue.Waiting, ls)
		m.putWaiting(j, now)
		m.wakeForExpiry(j, now)
		m.armAndWake(q, now)
		return queue.Waiting
	}
	state, past := queue.Delivered, []byte(nil)
	if v == queue.Bury {
		state, past = queue.Dead, ls.timeline
	}
	d := m.newEndedJob(j, state, now)
	d.attempts, d.fence, d.verdict, d.result = ls.attempts, ls.settled, ls.verdict, ls.result
	if act.reason != "" {
		d.reason = act.reason
	}
	if state == queue.Dead {
		q.counters.Died++
	} else {
		q.counters.Delivered++
		c.dropJob(j.seq)
	}
	c.dropLease(j.seq)
	c.putEnded(q, d, past)
	m.leaveFlight(j, state, now)
	m.removeJob(j, now)
	m.rememberEnded(q, d, now)
	m.announceRoom(q, now)
	return state
}
