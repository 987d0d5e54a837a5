package api

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/queue/audit"
)

// auditQuery selects entries of the audit log.
type auditQuery struct {
	app, actor, token, of, name, what, operation string

	refused      bool
	since, until time.Time
	oldest       bool
	limit        int
	at           auditCursor
	place        auditPlace // replaces at for callers who do not see all entries
}

// auditRequest reads a query of the audit log.
func auditRequest(r *http.Request, partitions int, all bool) (ask auditQuery, p *httpio.Problem) {
	q := r.URL.Query()
	ask = auditQuery{at: make(auditCursor, partitions)}
	for name, to := range map[string]*string{
		"app": &ask.app, "actor": &ask.actor, "token": &ask.token, "of": &ask.of, "name": &ask.name, "what": &ask.what,
		"operation": &ask.operation,
	} {
		*to = q.Get(name)
	}
	switch s := q.Get("refused"); s {
	case "", "false":
	case "true":
		ask.refused = true
	default:
		return ask, httpio.BadField("refused", httpio.Shorten(s)+" must be true or false")
	}
	switch s := q.Get("order"); s {
	case "", "newest":
	case "oldest":
		ask.oldest = true
	default:
		return ask, httpio.BadField("order", httpio.Shorten(s)+" must be newest or oldest")
	}
	if ask.limit, p = httpio.Limit(q, httpio.DefaultPage, audit.MaxPage); p != nil {
		return ask, p
	}
	if p = httpio.Span(q, &ask.since, &ask.until); p != nil {
		return ask, p
	}
	read := ask.place.read
	if all {
		read = ask.at.read
	}
	if s := q.Get("after"); s != "" && !read(s) {
		return ask, httpio.BadField("after", httpio.Shorten(s)+" must be the next of an answer with the same order")
	}
	return ask, nil
}

// wants reports whether an entry matches. An entry about many queues has the names of all of them.
func (q *auditQuery) wants(a *audited) bool {
	e, name := &a.entry, a.entry.Name
	if slices.ContainsFunc(a.list, func(l audit.ListedQueue) bool { return l.Name == q.name }) {
		name = q.name
	}
	for _, is := range []struct{ asked, value string }{
		{q.app, e.Actor.App},
		{q.actor, e.Actor.Name},
		{q.token, e.Actor.Token},
		{q.of, e.Of},
		{q.name, name},
		{q.what, string(e.What)},
		{q.operation, e.Actor.Operation},
	} {
		if is.asked != "" && is.asked != is.value {
			return false
		}
	}
	at := e.Time()
	return (!q.refused || e.Refused != "") && (q.since.IsZero() || !at.Before(q.since)) &&
		(q.until.IsZero() || at.Before(q.until))
}

// before reports whether the first entry of a comes before the first entry of b.
func (q *auditQuery) before(a, b *auditRun) bool {
	if q.oldest {
		return a.entries[0].entry.At < b.entries[0].entry.At
	}
	return a.entries[0].entry.At > b.entries[0].entry.At
}

// auditCursor holds, for each partition, the number of the next entry; 0 is the beginning.
type auditCursor []int64

// auditEnd is the number in a cursor that has passed the oldest entry.
const auditEnd = -1

// pass moves the cursor past an entry.
func (c auditCursor) pass(partition int, number int64, oldest bool) {
	switch {
	case oldest:
		c[partition] = number + 1
	case number > 1:
		c[partition] = number - 1
	default:
		c[partition] = auditEnd
	}
}

func (c auditCursor) text() string {
	var b []byte
	for _, n := range c {
		b = binary.AppendVarint(b, n)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// read parses a cursor over len(c) partitions, and reports whether the text is one.
func (c auditCursor) read(text string) bool {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	for i := range c {
		n, size := binary.Varint(b)
		if size <= 0 || n < auditEnd {
			return false
		}
		c[i], b = n, b[size:]
	}
	return len(b) == 0
}

// auditPlace is the end of a page for a caller who does not see all entries. Unlike an auditCursor, it does not reveal
// how many entries are hidden. The zero auditPlace is the beginning.
type auditPlace struct {
	at     int64 // the time of the last entry, in microseconds
	passed int64 // how many entries of that time the caller has seen
}

// pass moves past an entry. visible says whether the caller may see it.
func (p *auditPlace) pass(at int64, visible bool) {
	if at != p.at {
		*p = auditPlace{at: at}
	}
	if visible {
		p.passed++
	}
}

// precedes reports whether p comes before other.
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

// read parses a place, and reports whether the text is one.
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

// seekAudit moves the cursor of a query to its place.
func (h *handler) seekAudit(ctx context.Context, ask *auditQuery) error {
	if ask.place == (auditPlace{}) {
		return nil
	}
	for n := range ask.at {
		at := ask.place.at
		if !ask.oldest {
			at++ // include the entries at this time
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

// firstAudited returns the number of the first entry of a partition at or after a time. If no entry is that recent,
// first is the number that the next new entry will get. oldest is the number of the oldest entry that is kept.
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
		if len(page.Records) == 0 { // it was dropped meanwhile, because of its age
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
