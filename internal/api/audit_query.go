package api

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock/penstock/queue/audit"
)

// auditQuery chooses entries of the audit log.
type auditQuery struct {
	app, actor, token, of, name, what, operation string

	refused      bool
	since, until time.Time
	oldest       bool
	limit        int
	at           auditCursor
	place        auditPlace // instead of at, for who does not see all
}

// auditRequest reads what is asked of the audit log.
func auditRequest(r *http.Request, partitions int, all bool) (ask auditQuery, p *Problem) {
	q := r.URL.Query()
	ask = auditQuery{limit: defaultPage, at: make(auditCursor, partitions)}
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
		return ask, badField("refused", shorten(s)+" must be true or false")
	}
	switch s := q.Get("order"); s {
	case "", "newest":
	case "oldest":
		ask.oldest = true
	default:
		return ask, badField("order", shorten(s)+" must be newest or oldest")
	}
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > audit.MaxPage {
			return ask, badField("limit", shorten(s)+" must be a whole number from 1 to "+strconv.Itoa(audit.MaxPage))
		}
		ask.limit = n
	}
	if p = readSpan(q, &ask.since, &ask.until); p != nil {
		return ask, p
	}
	read := ask.place.read
	if all {
		read = ask.at.read
	}
	if s := q.Get("after"); s != "" && !read(s) {
		return ask, badField("after", shorten(s)+" must be the next of an answer, of the same order")
	}
	return ask, nil
}

// wants reports whether an entry is asked for.
func (q *auditQuery) wants(e *audit.Entry) bool {
	for _, is := range []struct{ asked, value string }{
		{q.app, e.Actor.App},
		{q.actor, e.Actor.Name},
		{q.token, e.Actor.Token},
		{q.of, e.Of},
		{q.name, e.Name},
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

// before reports whether the first entry of one run comes before that of another.
func (q *auditQuery) before(a, b *auditRun) bool {
	if q.oldest {
		return a.entries[0].entry.At < b.entries[0].entry.At
	}
	return a.entries[0].entry.At > b.entries[0].entry.At
}

// auditCursor is for each partition the number of the next entry that is wanted: 0 begins.
type auditCursor []int64

// auditEnd stands for nothing: the oldest entry was passed.
const auditEnd = -1

// pass goes on behind an entry.
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

// read reports whether a text is a cursor over as many partitions.
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
