package queue

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/penstock/penstock/queue/invalid"
)

// Limits of batches.
const (
	MaxBatchBytes = 128 // of a label
	// MaxBatches is the maximum number of batches of a queue. When there are as many, the finished batch that ended
	// first makes room for a new one. If none is finished, a job with a new label is accepted without its label.
	MaxBatches = 1000
	// KeepBatches is how long a finished batch is kept after its last job ended.
	KeepBatches = 7 * 24 * time.Hour
	// MaxBatchLanes is the number of lanes of a batch whose last jobs are known.
	MaxBatchLanes = 32
)

// Batch counts the jobs of a queue that carry a label. Each job that was accepted remains until it has ended in one of
// the states below.
type Batch struct {
	Label    string
	Accepted int64 // including deferred jobs, without withdrawn ones
	// How the jobs ended that remain no longer. A replayed job remains again.
	Delivered, Dead, Cancelled, Expired int64
	Missing                             int64     // deferred jobs that the overflow lost
	FirstAt, LastAt                     time.Time // when the first and the last job were appended
	EndedAt                             time.Time // when the last job ended; zero while jobs remain
	// Lasts has the job of each lane that leaves last, by the order of their lanes' first jobs, of at most
	// MaxBatchLanes lanes. A job is missing here once it has ended, even if earlier jobs remain.
	Lasts     []string
	MoreLanes bool // there were more lanes
}

// Remaining returns how many jobs have not ended.
func (b *Batch) Remaining() int64 {
	return b.Accepted - b.Delivered - b.Dead - b.Cancelled - b.Expired - b.Missing
}

// BatchesRequest asks for batches of a queue.
type BatchesRequest struct {
	Queue string
	Label string // the only batch to return; empty means all
	After string // the label of the last batch of the previous page; empty starts from the beginning
	Limit int    // 1 to MaxPage
}

// Validate checks everything but the queue's name. Its error is an *invalid.Error.
func (r *BatchesRequest) Validate() error {
	for _, label := range []string{r.Label, r.After} {
		if label == "" {
			continue
		}
		if err := ValidateBatch(label); err != nil {
			return err
		}
	}
	return invalid.Range("limit", int64(r.Limit), 1, MaxPage)
}

// ValidateBatch checks the label of a batch. Its error is an *invalid.Error.
func ValidateBatch(label string) error {
	switch {
	case len(label) > MaxBatchBytes:
		return invalid.Errorf("batch", label, "has %d bytes, the limit is %d", len(label), MaxBatchBytes)
	case !utf8.ValidString(label):
		return invalid.Errorf("batch", label, "is not valid UTF-8")
	case label == "" || label == "." || label == ".." || strings.ContainsFunc(label, unicode.IsControl):
		return invalid.Errorf("batch", label, "must be text without control characters, and not empty, . or ..")
	}
	return nil
}
