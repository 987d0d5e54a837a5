package queuetest

import (
	"fmt"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
)

// changes compares the history of a queue or a rule, except for revisions.
func (p *pair) changes(of queue.Subject, name string) {
	p.both(fmt.Sprintf("changes of %s %s", of, name), func(_ int, e queue.Engine) string {
		page, err := e.Changes(p.ctx, queue.ChangesRequest{Subject: of, Name: name, Limit: queue.MaxChanges})
		text := fmt.Sprintf("%s, next %d, %d dropped", kind(err), page.Next, page.Dropped)
		for _, c := range page.Changes {
			text += fmt.Sprintf("\n  %d %s to %s %q %s %s -> %s %q %s; %d jobs %q %q", c.Number, micro(c.At),
				micro(c.Last), c.By+" "+c.Note, c.What, specText(c.Before), specText(c.After),
				c.Reason, micro(c.Until), c.Jobs, c.IDs, c.Detail)
			for _, r := range []*rules.Rule{c.RuleBefore, c.RuleAfter} {
				if r != nil {
					kept, err := rules.Encode(*r)
					text += fmt.Sprintf(" %s %v", kept, err)
				}
			}
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

// rollback rolls a queue back to the spec before the last change, if there was one.
func (p *pair) rollback() {
	q := p.queueName()
	var got [2]queue.PutResult
	p.both("rollback "+q, func(side int, e queue.Engine) string {
		r, err := e.Rollback(audit.WithNote(p.ctx, "carl"), q, 0, queue.AnyRevision)
		if got[side] = r; err == nil && r.Created {
			p.counts[q] = newAnswerCounts()
		}
		return fmt.Sprintf("%s created %v changed %v", kind(err), r.Created, r.Changed)
	})
	p.revision([2]int64{got[0].Revision, got[1].Revision})
}
