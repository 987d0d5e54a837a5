package api

import (
	"context"
	"encoding/base64"
	"encoding/binary"

	"github.com/penstock/penstock/queue/audit"
)

// auditPlace is where a page of the audit log ends for somebody who does not see all of it. It says nothing of how many
// entries there are that he does not see, as an auditCursor does. The zero auditPlace begins.
type auditPlace struct {
	at     int64 // the instant of the last entry, in microseconds
	passed int64 // how many entries of that instant he has seen
}

// pass goes on behind an entry that he may see, or not.
func (p *auditPlace) pass(at int64, visible bool) {
	if at != p.at {
		*p = auditPlace{at: at}
	}
	if visible {
		p.passed++
	}
}

// precedes reports whether another place lies behind it.
func (p auditPlace) precedes(other auditPlace, oldest bool) bool {
	switch {
	case p == auditPlace{}:
		return true
	case p.at == other.at:
		return p.passed < other.passed
	}
	return p.at < other.at == oldest
}

func (p auditPlace) text() string {
	b := binary.AppendVarint(binary.AppendVarint(nil, p.at), p.passed)
	return base64.RawURLEncoding.EncodeToString(b)
}

// read reports whether a text is a place.
func (p *auditPlace) read(text string) bool {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	for _, v := range []*int64{&p.at, &p.passed} {
		n, size := binary.Varint(b)
		if size <= 0 || n < 0 {
			return false
		}
		*v, b = n, b[size:]
	}
	return len(b) == 0
}

// seekAudit sets the cursor of a query to its place.
func (h *handler) seekAudit(ctx context.Context, ask *auditQuery) error {
	if ask.place == (auditPlace{}) {
		return nil
	}
	for n := range ask.at {
		at := ask.place.at
		if !ask.oldest {
			at++ // those of this instant too
		}
		first, oldest, err := h.firstAudited(ctx, n, at)
		if err != nil {
			return err
		}
		if ask.at[n] = first; ask.oldest {
			continue
		}
		if ask.at[n]--; ask.at[n] < oldest {
			ask.at[n] = auditEnd
		}
	}
	return nil
}

// firstAudited is the number of the first entry of a partition at an instant or later, one more than there are if there
// is none. oldest is the number of the oldest that is kept.
func (h *handler) firstAudited(ctx context.Context, partition int, at int64) (first, oldest int64, err error) {
	ask := audit.Request{Partition: partition, Back: true, Limit: 1}
	page, err := h.engine.Audit(ctx, ask)
	if err != nil {
		return 0, 0, err
	}
	low, high := max(1, page.Oldest), page.Newest+1
	for ask.From = page.Newest; low < high; ask.From = low + (high-low)/2 {
		if ask.From != page.Newest {
			if page, err = h.engine.Audit(ctx, ask); err != nil {
				return 0, 0, err
			}
		}
		if len(page.Records) == 0 { // it was dropped meanwhile for its age
			low = ask.From + 1
			continue
		}
		e, err := auditEntry(&page.Records[0])
		if err != nil {
			return 0, 0, err
		}
		if e.At < at {
			low = ask.From + 1
		} else {
			high = e.Number
		}
	}
	return low, max(1, page.Oldest), nil
}
