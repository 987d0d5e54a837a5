package boltq

import (
	"context"
	"errors"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/machine"
)

// Get implements queue.Specs.
func (e *Engine) Get(ctx context.Context, name string) (i queue.Info, err error) {
	err = e.look(ctx, func(now leaky.Instant) (err error) { i, err = e.machine.Get(now, name); return err })
	return i, err
}

// ReadSpecs implements queue.Outflow.
func (e *Engine) ReadSpecs(ctx context.Context, names []string) (some []queue.KeptSpec, err error) {
	err = e.look(ctx, func(leaky.Instant) error { some = e.machine.ReadSpecs(names); return nil })
	return some, err
}

// GetMany implements queue.Watch.
func (e *Engine) GetMany(ctx context.Context, names []string) (some []queue.Info, err error) {
	err = e.look(ctx, func(now leaky.Instant) error { some = e.machine.GetMany(now, names); return nil })
	return some, err
}

// Lane implements queue.Specs.
func (e *Engine) Lane(ctx context.Context, name, key string) (i queue.Info, l queue.LaneInfo, err error) {
	err = e.look(ctx, func(now leaky.Instant) (err error) { i, l, err = e.machine.Lane(now, name, key); return err })
	return i, l, err
}

// Lineup implements queue.Specs.
func (e *Engine) Lineup(ctx context.Context, name string) (l queue.Lineup, err error) {
	err = e.look(ctx, func(now leaky.Instant) (err error) { l, err = e.machine.Lineup(now, name); return err })
	return l, err
}

// Lanes implements queue.Specs.
func (e *Engine) Lanes(ctx context.Context, r queue.LanesRequest) (p queue.LanesPage, err error) {
	err = e.look(ctx, func(now leaky.Instant) (err error) { p, err = e.machine.Lanes(now, r); return err })
	return p, err
}

// List implements queue.Specs.
func (e *Engine) List(ctx context.Context, after string, limit int) (list []queue.Info, err error) {
	err = e.look(ctx, func(now leaky.Instant) error { list = e.machine.List(now, after, limit); return nil })
	return list, err
}

// Readings implements queue.Watch.
func (e *Engine) Readings(ctx context.Context) (all []queue.Reading, err error) {
	for more, after := true, ""; more && err == nil; {
		err = e.look(ctx, func(now leaky.Instant) error {
			var page []queue.Reading
			page, more = e.machine.Readings(now, after)
			if all = append(all, page...); len(page) > 0 {
				after = page[len(page)-1].Name
			}
			return nil
		})
	}
	return all, err
}

// Totals implements queue.Specs.
func (e *Engine) Totals(ctx context.Context) (t queue.Totals, err error) {
	err = e.look(ctx, func(leaky.Instant) error { t = e.machine.Totals(); return nil })
	return t, err
}

// Drainers implements queue.Specs.
func (e *Engine) Drainers(ctx context.Context) (d queue.Drainers, err error) {
	err = e.look(ctx, func(now leaky.Instant) error {
		d = e.machine.Drainers(now)
		d.Clock = e.clock.State()
		d.ToWall()
		return nil
	})
	return d, err
}

// Put implements queue.Specs.
func (e *Engine) Put(ctx context.Context, spec queue.Spec, expect int64) (p queue.PutResult, err error) {
	s, err := machine.NewSpecText(spec)
	if err != nil {
		return p, err
	}
	return answerActor(ctx, e, func(now leaky.Instant, by audit.Actor) (queue.PutResult, uint64, error) {
		return e.machine.Put(now, by, s, expect)
	})
}

// Delete implements queue.Specs.
func (e *Engine) Delete(ctx context.Context, name string, expect int64, force bool) error {
	return e.act(ctx, func(now leaky.Instant, by audit.Actor) (uint64, error) {
		return e.machine.Delete(now, by, name, expect, force)
	})
}

// Pause implements queue.Specs.
func (e *Engine) Pause(ctx context.Context, name string, p queue.Pause) error {
	return e.act(ctx, func(now leaky.Instant, by audit.Actor) (uint64, error) {
		return e.machine.Pause(now, by, name, p)
	})
}

// Resume implements queue.Specs.
func (e *Engine) Resume(ctx context.Context, name string) error {
	return e.act(ctx, func(now leaky.Instant, by audit.Actor) (uint64, error) {
		return e.machine.Resume(now, by, name)
	})
}

// Changes implements queue.Specs.
func (e *Engine) Changes(ctx context.Context, r queue.ChangesRequest) (page queue.ChangesPage, err error) {
	var c *machine.Changing
	err = e.look(ctx, func(now leaky.Instant) (err error) { c, err = e.machine.Changes(now, r); return err })
	if err != nil {
		return page, err
	}
	return read(e, func(tx machine.Transaction) (queue.ChangesPage, error) { return c.Read(tx, e.opts.KeepChanges) })
}

// History implements queue.Specs.
func (e *Engine) History(ctx context.Context, name string) (h queue.History, err error) {
	_, h, err = e.history(ctx, name)
	return h, err
}

func (e *Engine) history(ctx context.Context, name string) (p machine.Past, h queue.History, err error) {
	err = e.lookDurable(ctx, func(now leaky.Instant) (wait uint64, err error) {
		p, wait = e.machine.History(now, name)
		return wait, nil
	})
	if err != nil {
		return p, h, err
	}
	h, err = read(e, p.Read)
	return p, h, err
}

// Rollback implements queue.Specs.
func (e *Engine) Rollback(
	ctx context.Context, name string, revision, expect int64,
) (p queue.PutResult, err error) {
	for {
		past, h, err := e.history(ctx, name)
		if err != nil {
			return p, err
		}
		p, err = answerActor(ctx, e, func(now leaky.Instant, by audit.Actor) (queue.PutResult, uint64, error) {
			return e.machine.Rollback(now, by, past, h, revision, expect)
		})
		if !errors.Is(err, machine.ErrOutdated) {
			return p, err
		}
	}
}
