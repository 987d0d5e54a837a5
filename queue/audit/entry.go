// Package audit is the audit log of a store: who did what, and what was refused. An Entry tells of an Actor; a Verifier
// finds out whether the chain of entries was broken.
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

// Entry is one entry of the audit log: what was done or refused, by whom. Every change of queues, rules, documents
// and jobs but those of appending, taking and settling writes its entry in its own step. Entries are never written
// again, and each has the digest of the one before it in its Budget: see Record.
type Entry struct {
	// Partition is the partition whose log the entry is of.
	Partition int `json:"partition"`
	// Number counts the entries of a partition from 1. Entries of another budget may be dropped between two.
	Number int64 `json:"number"`
	// Budget is the budget that pays for the entry, and Follows the number of the entry before it in that budget; 0 of
	// the first.
	Budget  Budget `json:"budget"`
	Follows int64  `json:"follows,omitempty"`
	// At is when, in microseconds since 1970 by the engine's clock.
	At int64 `json:"at"`
	// Previous is the digest of the entry that it follows, in hex; empty of the first.
	Previous string `json:"previous"`
	Actor    Actor  `json:"actor"`
	// Of is the kind of what it was done to, "queue", "rule" or a kind of document, and Name which one.
	Of   string          `json:"of"`
	Name string          `json:"name"`
	What changekind.Kind `json:"what"`
	// Refused is why it was not done; empty if it was.
	Refused string `json:"refused,omitempty"`
	// Times is how often it was refused, of one that stands for several.
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
	// LeftOut names of "before" and "after" those whose text is longer than MaxTextBytes: only its digest is kept.
	LeftOut []string `json:"left_out,omitempty"`
	// Diff is where the two sides differ, if one of them is left out.
	Diff *Diff `json:"diff,omitempty"`
}

// The sides of a change, as LeftOut names them.
const (
	Before = "before"
	After  = "after"
)

// Digest is a SHA-256 in hex; empty of nothing.
type Digest string

// DigestOf returns the digest of a text, empty if it is nil.
func DigestOf(text []byte) Digest {
	if text == nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return Digest(hex.EncodeToString(sum[:]))
}

// Record is an entry as it is kept. Its chain is of the texts, byte by byte, so that whoever has them needs
// nothing else to verify it.
type Record struct {
	// Text is an Entry as JSON.
	Text []byte `json:"text"`
	// Digest is that of Text, which the next entry names.
	Digest Digest `json:"digest"`
	// Before and After are what it was and what it became, JSON in which secrets are masked; nil if there is none, or
	// Entry.LeftOut names it.
	Before []byte `json:"before,omitempty"`
	After  []byte `json:"after,omitempty"`
}

// Entry reads the text of a record.
func (r *Record) Entry() (e Entry, err error) {
	if err = json.Unmarshal(r.Text, &e); err != nil {
		err = fmt.Errorf("an entry of the audit log: %w", err)
	}
	return e, err
}

// Recorded returns what of an entry is kept by Record, cut to its bounds. Its error is an *invalid.Error.
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
	// From is the number of the first wanted, and Back says that those before it follow, newest first; 0 begins with
	// the newest, or with the oldest.
	From  int64
	Back  bool
	Limit int // 1 to MaxPage
}

// Page is some of the audit log of a partition.
type Page struct {
	Records []Record
	// Newest is the number of the newest entry, Oldest that of the oldest that is kept; both 0 if there is none.
	Newest, Oldest int64
	// Chains has the chain of each budget, sorted by budget.
	Chains []Chain
}

// Chain is how far the entries of a budget in a partition go.
type Chain struct {
	Budget Budget
	// Newest is the number of the newest entry, Oldest that of the oldest that is kept.
	Newest, Oldest int64
	// Head is the digest of the newest.
	Head Digest
	// Dropped is how many entries went before their time, because the budget was used up.
	Dropped int64
}

// Dropped returns how many entries went before their time.
func (p *Page) Dropped() (n int64) {
	for i := range p.Chains {
		n += p.Chains[i].Dropped
	}
	return n
}

// Bounds of the audit log.
const (
	// MaxPage is the longest page.
	MaxPage = 500
	// MaxTextBytes is the longest Record.Before, and After, that is kept. Of longer ones an entry has the Diff.
	MaxTextBytes = 2 << 10
	// MaxDiffBytes is how much of each side a Diff shows.
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

// maxFieldBytes is how much of a text of an entry is kept.
const maxFieldBytes = 512

// Time is At as a time.
func (e *Entry) Time() time.Time { return time.UnixMicro(e.At).UTC() }

// Log keeps who did what, and what was refused.
type Log interface {
	// Record writes an entry about something that changed nothing in the store, which has its Actor, Of, Name, What,
	// Refused, Times, Detail and Reason; the engine sets the rest. It lives in partition 0. To repeat it writes it
	// twice.
	Record(ctx context.Context, e Entry) error
	// Audit returns entries of a partition. Errors also: an *invalid.Error.
	Audit(ctx context.Context, r Request) (Page, error)
}
