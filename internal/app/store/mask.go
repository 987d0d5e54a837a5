package store

import (
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/queue"
)

// unreadable stands in the audit log for a spec that cannot be parsed, and so cannot be masked.
const unreadable = `"unreadable"`

// specs parses specs for masked. An import masks many that differ only in their names.
var specs queue.SpecParser

// masked returns what the audit log may show of a queue, a rule or a document: no secrets of targets, and no hashes of
// tokens.
func masked(kind string, text []byte) []byte {
	if kind != string(queue.OfQueue) {
		return auth.Mask(kind, text)
	}
	spec, err := specs.Parse(text)
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
