package api

import (
	"strconv"
	"time"

	"github.com/penstock/penstock/queue"
)

// appendAccepted appends the members that tell of a job which is in.
func appendAccepted(b []byte, a *queue.Appended, id string) []byte {
	b = append(b, `"id":`...)
	b = appendString(b, id)
	b = append(b, `,"state":"`...)
	b = append(b, a.State.String()...)
	b = append(b, '"')
	if a.Position > 0 {
		b = append(b, `,"position":`...)
		b = strconv.AppendInt(b, a.Position, 10)
	}
	return appendETA(b, a.ETA)
}

func appendETA(b []byte, eta queue.ETA) []byte {
	if eta.At.IsZero() {
		return b
	}
	b = append(b, `,"eta":{"at":`...)
	b = appendTime(b, eta.At)
	b = append(b, `,"exact":`...)
	b = strconv.AppendBool(b, eta.Exact)
	return append(b, '}')
}

// appendTime appends an instant as RFC 3339 in UTC, to the microsecond.
func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z07:00")
	return append(b, '"')
}
