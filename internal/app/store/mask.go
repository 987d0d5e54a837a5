package store

import (
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/queue"
)

// unreadable stands in the audit log for a spec of which it is not known what it may show.
const unreadable = `"unreadable"`

// masked is what the audit log may show of a queue, a rule or a document. Only the targets of queues have secrets.
func masked(kind string, text []byte) []byte {
	if kind != string(queue.OfQueue) {
		return text
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
