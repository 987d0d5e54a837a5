// Package chain verifies an audit log by nothing but its entries.
//
// It promises to find every entry that was changed, removed or put in between others, wherever its digest or what
// stands beside it was changed along. It cannot tell that the newest entries were removed, nor that all of them were
// written anew: for that it needs a Head that was remembered elsewhere.
package chain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/audit"
)

// Head is the newest entry of a partition at some time. Whoever remembers it can tell later whether what led to it is
// still what it was.
type Head struct {
	Partition int          `json:"partition"`
	Number    int64        `json:"number"`
	Digest    audit.Digest `json:"digest"`
	At        time.Time    `json:"at"`
}

// Part is what was read of one partition.
type Part struct {
	Partition int
	First     int64 // number of the first entry
	Head      Head  // the last
	chain     audit.Verifier
}

// Broken is an entry at which a log is not what it was.
type Broken struct {
	Partition int
	Number    int64
	Why       string
}

func (b *Broken) Error() string {
	return fmt.Sprintf("the audit log does not hold: partition %d, entry %d: %s", b.Partition, b.Number, b.Why)
}

// Verifier reads entries, those of a partition in order.
type Verifier struct {
	parts map[int]*Part
	since map[int]Head
}

// New returns a Verifier of a log that begins anywhere. It looks for the heads that are given, if it reads so far.
func New(since []Head) *Verifier {
	v := &Verifier{parts: map[int]*Part{}, since: map[int]Head{}}
	for _, h := range since {
		v.since[h.Partition] = h
	}
	return v
}

// Add reads the next entry of its partition. Its error is a *Broken.
func (v *Verifier) Add(r *wire.AuditRecord) error {
	record := audit.Record{Text: []byte(r.Text), Digest: r.Digest, Before: r.Before, After: r.After}
	e, _ := record.Entry() // which the chain refuses if it cannot be read
	broken := func(number int64, why string) error { return &Broken{r.Partition, number, why} }
	h, remembered := v.since[r.Partition]
	part := v.parts[r.Partition]
	if part == nil {
		part = &Part{
			Partition: r.Partition, First: e.Number, chain: audit.Verifier{Partition: r.Partition},
		}
		if remembered && h.Number == e.Number-1 {
			part.chain.Number, part.chain.Digest = h.Number, h.Digest
		}
		v.parts[r.Partition] = part
	}
	err := part.chain.Add([]audit.Record{record})
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
	part.Head = Head{r.Partition, e.Number, r.Digest, e.Time()}
	return nil
}

func same(said []byte, e audit.Entry) bool {
	text, err := json.Marshal(e)
	return err == nil && bytes.Equal(said, text)
}

// End says, after the last entry, whether all that was remembered was there, and that what the server calls its newest
// entries was read. Its error is a *Broken.
func (v *Verifier) End(chains []wire.AuditChain) error {
	for _, p := range slices.Sorted(maps.Keys(v.since)) {
		h := v.since[p]
		part := v.parts[p]
		switch {
		case part == nil || part.Head.Number < h.Number:
			return &Broken{p, h.Number, "it was remembered, and is gone with all behind it"}
		case part.First > h.Number+1:
			return &Broken{p, h.Number, fmt.Sprintf(
				"it was remembered, and the log begins with entry %d: it was dropped for its age, or removed", part.First)}
		}
	}
	for _, c := range chains {
		var read audit.Verifier
		if part := v.parts[c.Partition]; part != nil {
			read = part.chain
		}
		var b *audit.Break
		if c.Newest > 0 && errors.As(read.End(c.Newest, c.Head), &b) {
			return &Broken{c.Partition, b.Number, b.Detail}
		}
	}
	return nil
}

// Parts is what was read, by partition.
func (v *Verifier) Parts() (all []Part) {
	for _, p := range slices.Sorted(maps.Keys(v.parts)) {
		all = append(all, *v.parts[p])
	}
	return all
}
