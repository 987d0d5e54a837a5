package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/queue/changekind"
)

// AuditEntry is one entry of the audit log: what was done or refused, by whom. Every change of queues, rules, documents
// and jobs but those of appending, taking and settling writes its entry in its own step. Entries are never written
// again, and each has the digest of the one before it: see AuditRecord.
type AuditEntry struct {
	// Partition is the partition whose log the entry is of.
	Partition int `json:"partition"`
	// Number counts the entries of a partition from 1, and leaves none out.
	Number int64 `json:"number"`
	// At is when, in microseconds since 1970 by the engine's clock.
	At int64 `json:"at"`
	// Previous is the digest of the entry before, in hex; empty of the first.
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
	Before   Digest   `json:"before,omitempty"` // of AuditRecord.Before
	After    Digest   `json:"after,omitempty"`
	// LeftOut names of "before" and "after" those whose text is longer than MaxAuditTextBytes: only its digest is kept.
	LeftOut []string `json:"left_out,omitempty"`
}

// The sides of a change, as LeftOut names them.
const (
	AuditBefore = "before"
	AuditAfter  = "after"
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

// AuditRecord is an entry as it is kept. Its chain is of the texts, byte by byte, so that whoever has them needs
// nothing else to verify it.
type AuditRecord struct {
	// Text is an AuditEntry as JSON.
	Text []byte `json:"text"`
	// Digest is that of Text, which the next entry names.
	Digest Digest `json:"digest"`
	// Before and After are what it was and what it became, JSON in which secrets are masked; nil if there is none, or
	// AuditEntry.LeftOut names it.
	Before []byte `json:"before,omitempty"`
	After  []byte `json:"after,omitempty"`
}

// Entry reads the text of a record.
func (r *AuditRecord) Entry() (e AuditEntry, err error) {
	if err = json.Unmarshal(r.Text, &e); err != nil {
		err = fmt.Errorf("%w: an entry of the audit log: %w", ErrCorrupt, err)
	}
	return e, err
}

// Recorded returns what of an entry is kept by Record, cut to its bounds. Its error is a *FieldError.
func (e *AuditEntry) Recorded() (AuditEntry, error) {
	if err := e.Actor.Validate(); err != nil {
		return AuditEntry{}, err
	}
	if !isKind(e.Of) {
		return AuditEntry{}, FieldErrorf("of", Shorten(e.Of, 40), "must be 1 to 16 of a-z and _")
	}
	if !isKind(string(e.What)) {
		return AuditEntry{}, FieldErrorf("what", Shorten(string(e.What), 40), "must be 1 to 16 of a-z and _")
	}
	if e.Times < 0 {
		return AuditEntry{}, FieldErrorf("times", fmt.Sprint(e.Times), "must not be negative")
	}
	cut := func(s string) string { return strings.Clone(Cut(strings.ToValidUTF8(s, "\uFFFD"), MaxReasonBytes)) }
	return AuditEntry{
		Actor: e.Actor, Of: e.Of, Name: cut(e.Name), What: e.What, Refused: cut(e.Refused), Times: e.Times,
		Detail: cut(e.Detail), Reason: cut(e.Reason),
	}, nil
}

// AuditRequest asks for entries of one partition.
type AuditRequest struct {
	Partition int
	// From is the number of the first wanted, and Back says that those before it follow, newest first; 0 begins with
	// the newest, or with the oldest.
	From  int64
	Back  bool
	Limit int // 1 to MaxAudit
}

// AuditPage is some of the audit log of a partition.
type AuditPage struct {
	Records []AuditRecord
	// Newest is the number of the newest entry, Oldest that of the oldest that is kept; both 0 if there is none.
	Newest, Oldest int64
	// Dropped is how many entries went before their time, because the log had as many bytes as it may.
	Dropped int64
	// Head is the digest of the newest.
	Head Digest
}

// Bounds of the audit log.
const (
	// MaxAudit is the longest page.
	MaxAudit = 500
	// MaxAuditBytes is about how much is kept in a store, its partitions together. Entries go when they are older than
	// changes are kept, the oldest also when there are more.
	MaxAuditBytes = 256 << 20
	// MaxAuditTextBytes is the longest AuditRecord.Before, and After, that is kept. It lets 16 MiB hold about 1,000
	// entries of the largest kind.
	MaxAuditTextBytes = 8 << 10
)

// Validate checks a request. Its error is a *FieldError.
func (r *AuditRequest) Validate(partitions int) error {
	if r.Partition < 0 || r.Partition >= partitions {
		return FieldErrorf("partition", fmt.Sprint(r.Partition), "must be from 0 to %d", partitions-1)
	}
	if r.From < 0 {
		return FieldErrorf("from", fmt.Sprint(r.From), "must not be negative")
	}
	return within("limit", int64(r.Limit), 1, MaxAudit)
}

// Time is At as a time.
func (e *AuditEntry) Time() time.Time { return time.UnixMicro(e.At).UTC() }
