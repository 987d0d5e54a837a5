package redisq

import (
	"context"
	"errors"

	"github.com/penstock/penstock/queue/audit"
)

var _ audit.Log = (*Engine)(nil)

// Record implements audit.Log.
func (e *Engine) Record(ctx context.Context, entry audit.Entry) error {
	entry, err := entry.Recorded()
	if err != nil {
		return err
	}
	by, err := actorText(&entry.Actor)
	if err != nil {
		return err
	}
	_, err = e.unrepeated(ctx, recordScript, 0, e.instant(), by, entry.Of, entry.Name, string(entry.What),
		entry.Refused, entry.Times, entry.Detail, entry.Reason)
	return err
}

// Audit implements audit.Log.
func (e *Engine) Audit(ctx context.Context, r audit.Request) (audit.Page, error) {
	if err := r.Validate(len(e.keys)); err != nil {
		return audit.Page{}, err
	}
	p := audit.Page{}
	for from := r.From; len(p.Records) < r.Limit; {
		v, err := e.ask(ctx, auditScript, r.Partition, e.instant(), from, flag(r.Back), r.Limit-len(p.Records))
		if err != nil {
			return audit.Page{}, err
		}
		answer := list(v)
		p.Newest, p.Oldest, from = answer.int(), answer.int(), answer.int()
		rows, ends := answer.list(), answer.list()
		for rows.more() {
			p.Records = append(p.Records, audit.Record{
				Text: []byte(rows.text()), Digest: audit.Digest(rows.text()),
				Before: bytesOf(rows.text()), After: bytesOf(rows.text()),
			})
		}
		p.Chains = nil
		for ends.more() {
			p.Chains = append(p.Chains, audit.Chain{
				Budget: audit.Budget(ends.text()), Newest: ends.int(), Oldest: ends.int(), Head: audit.Digest(ends.text()),
				Dropped: ends.int(),
			})
		}
		if answer.err != nil || rows.err != nil || ends.err != nil {
			return audit.Page{}, errors.Join(answer.err, rows.err, ends.err)
		}
		if from == 0 {
			break
		}
	}
	return p, nil
}

// bytesOf returns a text, nil if it is empty.
func bytesOf(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}
