// Package chain verifies an audit log from its entries alone.
//
// It promises to detect every entry that was changed, removed or inserted, even if digests were changed to match. It
// cannot detect that the newest entries were removed, or that the whole log was rewritten: for that it needs a Head
// that was kept elsewhere.
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

// Log identifies a chain: the entries of a budget in a partition.
type Log struct {
	Partition int          `json:"partition"`
	Budget    audit.Budget `json:"budget"`
}

func compare(a, b Log) int {
	return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Budget, b.Budget))
}

// Head is the newest entry of a log at some time. It proves later that the entries up to it are unchanged.
type Head struct {
	Log
	Number int64        `json:"number"`
	Digest audit.Digest `json:"digest"`
	At     time.Time    `json:"at"`
}

// Part is the part of a log that was read.
type Part struct {
	First   int64 // number of the first entry
	Entries int64
	Head    Head  // the last entry
	follows int64 // number of the entry that the first follows
}

// Broken is the first entry at which a log is not intact.
type Broken struct {
	Log
	Number int64
	Why    string
}

func (b *Broken) Error() string {
	return fmt.Sprintf("the audit log is not intact: partition %d, entry %d of %s: %s", b.Partition, b.Number, b.Budget,
		b.Why)
}

// Verifier verifies entries. The entries of each partition must come in order.
type Verifier struct {
	chains map[int]*audit.Verifier // by partition
	parts  map[Log]*Part
	since  map[Log]Head
}

// New returns a Verifier for a log that may start at any entry. It also checks that the log contains the given heads.
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
	e, _ := record.Entry() // the chain refuses an unreadable entry
	log := Log{r.Partition, e.Budget}
	broken := func(number int64, why string) error { return &Broken{log, number, why} }
	h, hasHead := v.since[log]
	chain := v.chains[r.Partition]
	if chain == nil {
		chain = &audit.Verifier{Partition: r.Partition, Links: map[audit.Budget]audit.Link{}}
		v.chains[r.Partition] = chain
	}
	part := v.parts[log]
	if part == nil {
		part = &Part{First: e.Number, follows: e.Follows}
		if hasHead && h.Number == e.Follows {
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
		return broken(e.Number, "its fields differ from its text")
	}
	if hasHead && h.Number == e.Number && h.Digest != r.Digest {
		return broken(e.Number, "it differs from the head: the log was rewritten")
	}
	part.Entries++
	part.Head = Head{log, e.Number, r.Digest, e.Time()}
	return nil
}

func same(said []byte, e audit.Entry) bool {
	text, err := json.Marshal(e)
	return err == nil && bytes.Equal(said, text)
}

// End checks, after the last entry, that all heads and the newest entries that the server states were read. Its error
// is a *Broken.
func (v *Verifier) End(chains []wire.AuditChain) error {
	for _, log := range slices.SortedFunc(maps.Keys(v.since), compare) {
		h := v.since[log]
		part := v.parts[log]
		switch {
		case part == nil || part.Head.Number < h.Number:
			return &Broken{log, h.Number, "the head and all later entries are missing"}
		case part.First > h.Number && part.follows != h.Number:
			return &Broken{log, h.Number, fmt.Sprintf(
				"the head is missing, and the log starts at entry %d: it expired or was removed", part.First)}
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

// Parts returns the parts that were read, by partition and budget.
func (v *Verifier) Parts() (all []Part) {
	for _, log := range slices.SortedFunc(maps.Keys(v.parts), compare) {
		all = append(all, *v.parts[log])
	}
	return all
}
