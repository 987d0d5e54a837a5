// Package audit is the audit log of a store: who did what, and what was refused. An Entry names an Actor; a Verifier
// checks that the chain of entries is unbroken.
package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// Entry is an entry of the audit log: what was done or refused, and by whom. Every change of queues, rules, documents
// and jobs writes its entry in its own step, except appending, taking and settling. Entries never change, and each has
// the digest of the previous one in its Budget: see Record.
type Entry struct {
	// Partition is the partition whose log has the entry.
	Partition int `json:"partition"`
	// Number counts the entries of a partition from 1. Entries in between may be missing if their budgets dropped
	// them.
	Number int64 `json:"number"`
	// Budget is the budget of the entry. Follows is the number of the previous entry in that budget, or 0.
	Budget  Budget `json:"budget"`
	Follows int64  `json:"follows,omitempty"`
	// At is the time in microseconds since 1970, by the engine's clock.
	At int64 `json:"at"`
	// Previous is the digest of the previous entry in the budget, in hex; empty for the first.
	Previous string `json:"previous"`
	Actor    Actor  `json:"actor"`
	// Of is "queue", "rule" or a kind of document, and Name identifies the object. Name is empty in an entry about many
	// queues, which Record.After lists: see ListedQueue.
	Of   string          `json:"of"`
	Name string          `json:"name"`
	What changekind.Kind `json:"what"`
	// Refused is why the action was refused; empty if it was not.
	Refused string `json:"refused,omitempty"`
	// Times is how many refusals the entry stands for, if there were several.
	Times    int64    `json:"times,omitempty"`
	Revision int64    `json:"revision,omitempty"`
	Was      int64    `json:"was,omitempty"`
	Detail   string   `json:"detail,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Until    int64    `json:"until,omitempty"` // microseconds
	Jobs     int64    `json:"jobs,omitempty"`
	IDs      []string `json:"ids,omitempty"`
	Before   Digest   `json:"before,omitempty"` // of Record.Before
	After    Digest   `json:"after,omitempty"`
	// LeftOut has "before" and "after" if that text is longer than MaxTextBytes: only its digest is kept.
	LeftOut []string `json:"left_out,omitempty"`
	// Diff says where the two texts differ, if one of them is left out.
	Diff *Diff `json:"diff,omitempty"`
}

// The texts of a change, as LeftOut names them.
const (
	Before = "before"
	After  = "after"
)

// Digest is a SHA-256 in hex, or empty for no text.
type Digest string

// DigestOf returns the digest of a text, or "" if it is nil.
func DigestOf(text []byte) Digest {
	if text == nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return Digest(hex.EncodeToString(sum[:]))
}

// Record is an entry as stored. The chain covers the texts byte by byte, so the records alone suffice to verify it.
type Record struct {
	// Text is an Entry as JSON.
	Text []byte `json:"text"`
	// Digest is the digest of Text; the next entry refers to it.
	Digest Digest `json:"digest"`
	// Before and After are the state before and after, as JSON with secrets masked; nil if there is no such state, or
	// if Entry.LeftOut names it.
	Before []byte `json:"before,omitempty"`
	After  []byte `json:"after,omitempty"`
}

// ListedQueue is a queue in the After of an entry about many queues that were imported together. The list is never left
// out.
type ListedQueue struct {
	Name string `json:"name"`
	Spec Digest `json:"spec"` // of the spec with secrets masked
}

// EncodeList encodes the After of an entry about many queues.
func EncodeList(list []ListedQueue) ([]byte, error) { return json.Marshal(list) }

// List returns the queues of an entry about many queues from its Record.After, and nothing for other entries.
func (e *Entry) List(after []byte) (list []ListedQueue, err error) {
	if e.Name != "" || e.What != changekind.Imported || after == nil {
		return nil, nil
	}
	if err = json.Unmarshal(after, &list); err != nil {
		err = fmt.Errorf("the queues of entry %d of the audit log: %w", e.Number, err)
	}
	return list, err
}

// Entry parses the text of a record.
func (r *Record) Entry() (e Entry, err error) {
	if err = json.Unmarshal(r.Text, &e); err != nil {
		err = fmt.Errorf("an entry of the audit log: %w", err)
	}
	return e, err
}

// Recorded returns the part of an entry that Log.Record keeps, cut to its bounds. Its error is an *invalid.Error.
func (e *Entry) Recorded() (Entry, error) {
	if err := e.Actor.Validate(); err != nil {
		return Entry{}, err
	}
	if !names.IsKind(e.Of) {
		return Entry{}, invalid.Errorf("of", clip.Quote(e.Of, 40), "must be 1 to 16 of a-z and _")
	}
	if !names.IsKind(string(e.What)) {
		return Entry{}, invalid.Errorf("what", clip.Quote(string(e.What), 40), "must be 1 to 16 of a-z and _")
	}
	if e.Times < 0 {
		return Entry{}, invalid.Errorf("times", fmt.Sprint(e.Times), "must not be negative")
	}
	cut := func(s string) string {
		return strings.Clone(clip.Text(strings.ToValidUTF8(s, "\uFFFD"), maxFieldBytes))
	}
	return Entry{
		Actor: e.Actor, Of: e.Of, Name: cut(e.Name), What: e.What, Refused: cut(e.Refused), Times: e.Times,
		Detail: cut(e.Detail), Reason: cut(e.Reason),
	}, nil
}

// Request asks for entries of one partition.
type Request struct {
	Partition int
	// From is the number of the entry to start with. Entries follow oldest first or, with Back, newest first. A From of
	// 0 starts with the oldest entry or, with Back, the newest.
	From  int64
	Back  bool
	Limit int // 1 to MaxPage
}

// Page is a page of the audit log of a partition.
type Page struct {
	Records []Record
	// Newest and Oldest are the numbers of the newest and oldest entry kept; both 0 if the log is empty.
	Newest, Oldest int64
	// Chains has the chain of each budget, sorted by budget.
	Chains []Chain
}

// Chain describes the entries of one budget in a partition.
type Chain struct {
	Budget Budget
	// Newest and Oldest are the numbers of the newest and oldest entry kept.
	Newest, Oldest int64
	// Head is the digest of the newest entry.
	Head Digest
	// Dropped is how many entries were dropped early because the budget was used up.
	Dropped int64
}

// Dropped returns how many entries were dropped early.
func (p *Page) Dropped() (n int64) {
	for i := range p.Chains {
		n += p.Chains[i].Dropped
	}
	return n
}

// Bounds of the audit log.
const (
	// MaxPage is the maximum length of a page.
	MaxPage = 500
	// MaxTextBytes is the maximum length of Record.Before and After. For longer texts the entry has a Diff.
	MaxTextBytes = 2 << 10
	// MaxDiffBytes is the maximum length of each side of a Diff.
	MaxDiffBytes = 512
)

// Validate checks a request. Its error is an *invalid.Error.
func (r *Request) Validate(partitions int) error {
	if r.Partition < 0 || r.Partition >= partitions {
		return invalid.Errorf("partition", fmt.Sprint(r.Partition), "must be from 0 to %d", partitions-1)
	}
	if r.From < 0 {
		return invalid.Errorf("from", fmt.Sprint(r.From), "must not be negative")
	}
	return invalid.Range("limit", int64(r.Limit), 1, MaxPage)
}

// maxFieldBytes is the maximum length of a text field of an entry.
const maxFieldBytes = 512

// Time returns At as a time.
func (e *Entry) Time() time.Time { return time.UnixMicro(e.At).UTC() }

// Log stores the audit log.
type Log interface {
	// Record writes an entry about an action that changed nothing in the store. It has Actor, Of, Name, What, Refused,
	// Times, Detail and Reason; the engine sets the rest, and stores it in partition 0. Repeating it writes a second
	// entry.
	Record(ctx context.Context, e Entry) error
	// Audit returns entries of a partition. Errors also: an *invalid.Error.
	Audit(ctx context.Context, r Request) (Page, error)
}
