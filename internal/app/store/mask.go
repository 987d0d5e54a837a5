package store

import (
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/queue"
)

// unreadable stands in the audit log for a spec of which it is not known what it may show.
const unreadable = `"unreadable"`

// masked is what the audit log may show of a queue, a rule or a document. The targets of queues have secrets, and
// tokens what proves them.
func masked(kind string, text []byte) []byte {
	if kind != string(queue.OfQueue) {
		return auth.Mask(kind, text)
	}
	spec, err := queue.ParseSpec(text)
	if err != nil {
		return []byte(unreadable)
	}
	spec.Deliver = secrets.Mask(spec.Deliver)
	shown, err := queue.EncodeSpec(spec)
	if err != nil {
		return []byte(unreadable)
	}
	return shown
}
