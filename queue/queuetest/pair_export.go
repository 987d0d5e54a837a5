package queuetest

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/queue"
)

// exported exports a queue from one engine. The order of the jobs does not matter, since their turns and instants are
// exported.
func (p *pair) exported(e queue.Engine, name string) (m exportedQueue, err error) {
	mover := e.(move.Mover)
	if m.queue, err = mover.ExportQueue(p.ctx, name); err != nil {
		return m, err
	}
	for _, s := range []queue.State{
		queue.Dead, queue.Scheduled, queue.Waiting, queue.Leased, queue.Held, queue.Delivered,
	} {
		for r := (move.ExportRequest{Queue: name, State: s}); ; {
			page, err := mover.ExportJobs(p.ctx, r)
			if err != nil {
				return m, err
			}
			m.jobs = append(m.jobs, page.Jobs...)
			if r.After = page.Next; r.After == "" {
				break
			}
		}
	}
	return m, nil
}

// export exports a queue from both engines and compares the results.
func (p *pair) export() {
	name := p.queueName()
	p.both("export of "+name, func(_ int, e queue.Engine) string {
		m, err := p.exported(e, name)
		if err != nil {
			return kind(err)
		}
		lines := strings.Split(m.text(), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n  ")
	})
}
