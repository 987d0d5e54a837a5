package queuetest

import (
	"fmt"

	"github.com/penstock/penstock/queue"
)

// changes compares what is recorded of a queue, all but revisions.
func (p *pair) changes(q string) {
	p.both("changes of "+q, func(_ int, e queue.Engine) string {
		list, err := e.Changes(p.ctx, q, queue.MaxChanges)
		text := kind(err)
		for _, c := range list {
			text += fmt.Sprintf("\n  %s %q %s %s -> %s %q %s", micro(c.At), c.By, c.What, specText(c.Before), specText(c.After), c.Reason, micro(c.Until))
		}
		return text
	})
}

func specText(s *queue.Spec) string {
	if s == nil {
		return "none"
	}
	text, err := queue.EncodeSpec(*s)
	return fmt.Sprintf("%s %v", text, err)
}

// rollback puts the spec before the last change, or finds none.
func (p *pair) rollback() {
	q := p.queueName()
	var got [2]queue.PutResult
	p.both("rollback "+q, func(side int, e queue.Engine) string {
		r, err := e.Rollback(queue.WithBy(p.ctx, "carl"), q, 0, queue.AnyRevision)
		if got[side] = r; err == nil && r.Created {
			p.books[q] = newBook()
		}
		return fmt.Sprintf("%s created %v changed %v", kind(err), r.Created, r.Changed)
	})
	p.revision([2]int64{got[0].Revision, got[1].Revision})
}
