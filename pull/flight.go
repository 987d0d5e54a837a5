package pull

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/queue"
)

const (
	reserveTimeout = 5 * time.Second
	// sharpenTries is how often a grant that came slowly is asked for again.
	sharpenTries = 2
	// sharpTrip is a round trip that leaves most of any slack.
	sharpTrip = time.Millisecond / 2
)

// grant is a granted job, and between which instants of the local clock it departs: not
// before from (s+d), not behind to (r+d).
type grant struct {
	*queue.Reservation
	from, to time.Time
}

// reply is what came of asking the engine once.
type reply struct {
	spec     *queue.Spec // as it is known now
	revision int64
	asked    bool // for jobs, and not only for the spec
	res      queue.Reserved
	grants   []grant
	at       time.Time
	err      error
}

// ask asks the engine: first of all for the queue's spec, later for jobs.
func (d *Desk) ask(req queue.ReserveRequest, spec *queue.Spec, revision int64) reply {
	r := reply{spec: spec, revision: revision}
	if spec == nil {
		r.err = d.readSpec(req.Queue, &r)
		if r.err == nil && !r.spec.Pull {
			r.err = queue.NotPulled(req.Queue)
		}
		return r
	}
	r.asked = true
	var trip time.Duration
	r.res, r.grants, trip, r.err = d.reserve(req, reserveTimeout)
	if r.err != nil {
		return r
	}
	for range sharpenTries {
		left, blurred := blurred(r.grants, trip, spec)
		if !blurred {
			break
		}
		again, same, t, err := d.reserve(req, left)
		if err != nil {
			break // no repeat can take away what an answer before it brought
		}
		again.Expired, again.Lost = r.res.Expired, r.res.Lost
		r.res, r.grants, trip = again, sharpen(r.grants, same), t
	}
	r.at = time.Now()
	for _, g := range r.grants {
		if g.Revision > r.revision {
			_ = d.readSpec(req.Queue, &r) // else the slack that was known will do
			break
		}
	}
	return r
}

func (d *Desk) readSpec(name string, r *reply) error {
	ctx, cancel := context.WithTimeout(d.calls, reserveTimeout)
	defer cancel()
	info, err := d.engine.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("spec of queue %s: %w", name, err)
	}
	info.Spec.Normalize()
	r.spec, r.revision = &info.Spec, info.Revision
	return nil
}

// reserve makes a request once.
func (d *Desk) reserve(req queue.ReserveRequest, timeout time.Duration) (queue.Reserved, []grant, time.Duration, error) {
	ctx, cancel := context.WithTimeout(d.calls, timeout)
	defer cancel()
	asked := time.Now()
	res, err := d.engine.Reserve(ctx, req)
	answered := time.Now()
	if err != nil {
		return res, nil, 0, err
	}
	all := make([]grant, len(res.Jobs))
	for i := range res.Jobs {
		all[i] = grant{&res.Jobs[i], asked.Add(res.Jobs[i].In), answered.Add(res.Jobs[i].In)}
	}
	return res, all, answered.Sub(asked), nil
}

// blurred reports whether an answer took so long that it leaves a job less than half of its
// slack, while there is time to ask again before it departs, and how long that may take. A
// slow answer says little about when a job departs; to ask again under the same number costs
// a round trip, not the slot.
func blurred(all []grant, trip time.Duration, spec *queue.Spec) (left time.Duration, blurred bool) {
	if trip <= sharpTrip || spec.Rate.Unlimited() {
		return 0, false
	}
	for _, g := range all {
		if g.In > trip && g.to.Sub(g.from) > slack(spec)/2 {
			return max(time.Until(g.from), sharpTrip), true
		}
	}
	return 0, false
}

// sharpen joins what two answers to one request say: both are true. Jobs that the second
// leaves out are not the client's any more.
func sharpen(first, second []grant) []grant {
	known := make(map[queue.Fence]grant, len(first))
	for _, g := range first {
		known[g.Fence] = g
	}
	for i, g := range second {
		if k, ok := known[g.Fence]; ok {
			if k.from.After(g.from) {
				second[i].from = k.from
			}
			if k.to.Before(g.to) {
				second[i].to = k.to
			}
		}
	}
	return second
}

// hopeless reports whether asking again mends nothing.
func hopeless(err error) bool {
	var field *queue.FieldError
	return errors.Is(err, queue.ErrUnknownQueue) || errors.Is(err, queue.ErrClosed) || errors.As(err, &field)
}
