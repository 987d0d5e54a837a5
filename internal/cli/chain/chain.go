// Package chain verifies an audit log by nothing but its entries.
//
// It promises to find every entry that was changed, removed or put in between others, wherever its digest or what
// stands beside it was changed along. It cannot tell that the newest entries were removed, nor that all of them were
// written anew: for that it needs a Head that was remembered elsewhere.
package chain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/audit"
)

// Log is one chain of entries: those of a budget in a partition.
type Log struct {
	Partition int          `json:"partition"`
	Budget    audit.Budget `json:"budget"`
}

func compare(a, b Log) int {
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Budget, b.Budget))
}

// Head is the newest entry of a log at some time. Whoever remembers it can tell later whether what led to it is still
// what it was.
type Head struct {
	Log
	Number int64        `json:"number"`
	Digest audit.Digest `json:"digest"`
	At     time.Time    `json:"at"`
}

// Part is what was read of one log.
type Part struct {
	First   int64 // number of the first entry
	Entries int64
	Head    Head  // the last
	follows int64 // number of the entry that the first follows
}

// Broken is an entry at which a log is not what it was.
type Broken struct {
	Log
	Number int64
	Why    string
}

func (b *Broken) Error() string {
	return fmt.Sprintf("the audit log does not hold: partition %d, entry %d of %s: %s", b.Partition, b.Number, b.Budget,
		b.Why)
}

// Verifier reads entries, those of a partition in order.
type Verifier struct {
	chains map[int]*audit.Verifier // by partition
	parts  map[Log]*Part
	since  map[Log]Head
}

// New returns a Verifier of a log that begins anywhere. It looks for the heads that are given, if it reads so far.
func New(since []Head) *Verifier {
	v := &Verifier{chains: map[int]*audit.Verifier{}, parts: map[Log]*Part{}, since: map[Log]Head{}}
	for _, h := range since {
		v.since[h.Log] = h
	}
	return v
}

// Add reads the next entry of its partition. Its error is a *Broken.
func (v *Verifier) Add(r *wire.AuditRecord) error {
	record := audit.Record{Text: []byte(r.Text), Digest: r.Digest, Before: r.Before, After: r.After}
	e, _ := record.Entry() // which the chain refuses if it cannot be read
	log := Log{r.Partition, e.Budget}
	broken := func(number int64, why string) error { return &Broken{log, number, why} }
	h, remembered := v.since[log]
	chain := v.chains[r.Partition]
	if chain == nil {
		chain = &audit.Verifier{Partition: r.Partition, Links: map[audit.Budget]audit.Link{}}
		v.chains[r.Partition] = chain
	}
	part := v.parts[log]
	if part == nil {
		part = &Part{First: e.Number, follows: e.Follows}
		if remembered && h.Number == e.Follows {
			chain.Links[e.Budget] = audit.Link{Number: h.Number, Digest: h.Digest}
		}
		v.parts[log] = part
	}
	err := chain.Add([]audit.Record{record})
	var b *audit.Break
	if errors.As(err, &b) {
		return broken(b.Number, b.Detail)
	}
	if said, err := json.Marshal(r.Entry); err != nil || !same(said, e) {
		return broken(e.Number, "what is shown of it is not what its text says")
	}
	if remembered && h.Number == e.Number && h.Digest != r.Digest {
		return broken(e.Number, "it is not the one that was remembered: the log was written anew")
	}
	part.Entries++
	part.Head = Head{log, e.Number, r.Digest, e.Time()}
	return nil
}

func same(said []byte, e audit.Entry) bool {
	text, err := json.Marshal(e)
	return err == nil && bytes.Equal(said, text)
}

// End says, after the last entry, whether all that was remembered was there, and that what the server calls its newest
// entries was read. Its error is a *Broken.
func (v *Verifier) End(chains []wire.AuditChain) error {
	for _, log := range slices.SortedFunc(maps.Keys(v.since), compare) {
		h := v.since[log]
		part := v.parts[log]
		switch {
		case part == nil || part.Head.Number < h.Number:
			return &Broken{log, h.Number, "it was remembered, and is gone with all behind it"}
		case part.First > h.Number && part.follows != h.Number:
			return &Broken{log, h.Number, fmt.Sprintf(
				"it was remembered, and the log begins with entry %d: it was dropped for its age, or removed", part.First)}
		}
	}
	for _, c := range chains {
		var read audit.Verifier
		if chain := v.chains[c.Partition]; chain != nil {
			read = *chain
		}
		var b *audit.Break
		if errors.As(read.End([]audit.Chain{{Budget: c.Budget, Newest: c.Newest, Head: c.Head}}), &b) {
			return &Broken{Log{c.Partition, c.Budget}, b.Number, b.Detail}
		}
	}
	return nil
}

// Parts is what was read, by partition and budget.
func (v *Verifier) Parts() (all []Part) {
	for _, log := range slices.SortedFunc(maps.Keys(v.parts), compare) {
		all = append(all, *v.parts[log])
	}
	return all
}
