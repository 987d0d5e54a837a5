package queue

import (
	"encoding/binary"

	"github.com/penstock/penstock/internal/pack"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// FindRequest asks for the jobs of many queues by id or lane.
type FindRequest struct {
	// ID is the id of the jobs or, with Prefix, the beginning of their ids. A search without ID needs a Lane.
	ID     string
	Prefix bool
	// Lane restricts the search to jobs of one lane; empty means all. Jobs that are delivered, cancelled, expired or
	// deferred have no known lane.
	Lane string
	// From and To restrict the search to queues with From <= name < To; empty means no bound.
	From, To string
	// After is the Next of the previous call; empty starts from the beginning. It is opaque.
	After string
	Limit int // 1 to MaxPage
}

// FoundJobs is a page of a search.
type FoundJobs struct {
	// Jobs are as in lists, and of all states. Only a search for a whole id finds deferred jobs.
	Jobs []JobInfo
	Next string // empty at the end; other pages may have fewer jobs than requested, or none
}

// FindCursor says where a search continues.
type FindCursor struct {
	Partition int
	Queue     string // empty while the search is at the leased jobs, which it looks at first
	State     State  // of the jobs to look at, StateNone for the first; Delivered stands for all ended jobs but dead ones
	Within    *Cursor
}

// FindStates are the states in which a search looks at the jobs of a queue, in this order. The leased jobs of all
// queues come before them.
var FindStates = []State{Waiting, Scheduled, Held, Dead, Delivered}

// Exact reports whether the request is for one id, which is looked up in each queue.
func (r *FindRequest) Exact() bool { return r.ID != "" && !r.Prefix }

// Covers reports whether the request is about a queue.
func (r *FindRequest) Covers(name string) bool {
	return name != "" && name >= r.From && (r.To == "" || name < r.To)
}

// Validate checks everything but After. Its error is an *invalid.Error.
func (r *FindRequest) Validate() error {
	if r.ID == "" && r.Lane == "" {
		return invalid.Errorf("id", "", "is missing; give an id, the beginning of an id or a lane")
	}
	if r.ID != "" && (r.Exact() || r.ID != "." && r.ID != "..") {
		if err := names.ValidateID(r.ID); err != nil {
			return err
		}
	}
	if err := ValidateLane(r.Lane); err != nil {
		return err
	}
	return invalid.Range("limit", int64(r.Limit), 1, MaxPage)
}

// Cursor parses After. It returns nil if After is empty. The error is an *invalid.Error.
func (r *FindRequest) Cursor() (*FindCursor, error) {
	if r.After == "" {
		return nil, nil
	}
	b, err := openCursor(r.After, r.cursorHead())
	if err != nil {
		return nil, err
	}
	p := pack.Reader{Rest: b}
	c := FindCursor{Partition: int(p.Varint()), Queue: p.Text(maxCursorBytes), State: State(p.Varint())}
	if p.Varint() != 0 {
		c.Within = &Cursor{At: p.Varint(), Lane: p.Text(maxCursorBytes), ID: p.Text(maxCursorBytes)}
	}
	if p.Bad || len(p.Rest) > 0 || c.Partition < 0 {
		return nil, foreignCursor(r.After)
	}
	return &c, nil
}

// Next returns the After of the next call.
func (r *FindRequest) Next(c FindCursor) string {
	b := binary.AppendVarint(nil, int64(c.Partition))
	b = binary.AppendVarint(pack.AppendText(b, c.Queue), int64(c.State))
	if w := c.Within; w == nil {
		b = append(b, 0)
	} else {
		b = binary.AppendVarint(binary.AppendVarint(b, 1), w.At)
		b = pack.AppendText(pack.AppendText(b, w.Lane), w.ID)
	}
	return sealCursor(b, r.cursorHead())
}

func (r *FindRequest) cursorHead() []byte {
	head := []byte{'f', 0}
	if r.Prefix {
		head[1] = 1
	}
	for _, part := range []string{r.ID, r.Lane, r.From, r.To} {
		head = pack.AppendText(head, part)
	}
	return head
}
