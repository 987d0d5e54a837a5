package auth

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
)

// memory is a document.Documents in memory, which can be away, hang, or be restarted with less than it had.
type memory struct {
	mu       sync.Mutex
	all      map[string]document.Document // by kind and name; those that were deleted too
	revision int64
	run      string
	away     error
	hangs    bool
	polls    atomic.Int64
	puts     atomic.Int64
	page     int // that is the longest; 0 is as asked
	// written is called behind each write.
	written func()
}

func newMemory() *memory { return &memory{all: map[string]document.Document{}, run: "1"} }

func (m *memory) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// ask is how each call begins; it returns with mu held if there is no error.
func (m *memory) ask(ctx context.Context) error {
	m.mu.Lock()
	if m.hangs {
		m.mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	}
	if away := m.away; away != nil {
		m.mu.Unlock()
		return away
	}
	return nil
}

func (m *memory) Document(ctx context.Context, kind, name string) (document.Document, error) {
	if err := m.ask(ctx); err != nil {
		return document.Document{}, err
	}
	defer m.mu.Unlock()
	d, ok := m.all[kind+"/"+name]
	if !ok || d.Text == nil {
		return document.Document{}, document.Unknown(kind, name)
	}
	return d, nil
}

func (m *memory) DocumentsSince(ctx context.Context, after int64, limit int) (document.Page, error) {
	m.polls.Add(1)
	if err := m.ask(ctx); err != nil {
		return document.Page{}, err
	}
	defer m.mu.Unlock()
	page := document.Page{Run: m.run}
	for _, d := range m.all {
		if d.Revision > after {
			page.Documents = append(page.Documents, d)
		}
	}
	slices.SortFunc(page.Documents, func(a, b document.Document) int { return cmp.Compare(a.Revision, b.Revision) })
	if m.page != 0 {
		limit = min(limit, m.page)
	}
	if len(page.Documents) > limit {
		page.Documents, page.More = page.Documents[:limit], true
	}
	return page, nil
}

func (m *memory) PutDocument(ctx context.Context, d document.Document, expect int64) (int64, error) {
	m.puts.Add(1)
	if err := d.Validate(); err != nil {
		return 0, err
	}
	if err := m.ask(ctx); err != nil {
		return 0, err
	}
	written := m.written
	defer func() {
		m.mu.Unlock()
		if written != nil {
			written()
		}
	}()
	old, ok := m.all[d.Kind+"/"+d.Name]
	at := int64(0)
	if ok && old.Text != nil {
		at = old.Revision
	}
	switch {
	case expect != queue.AnyRevision && expect != at:
		return at, queue.ErrRevision
	case d.Text == nil && at == 0:
		return 0, document.Unknown(d.Kind, d.Name)
	case at != 0 && d.Text != nil && string(d.Text) == string(old.Text):
		return at, nil
	}
	m.revision++
	d.Revision, d.At = m.revision, time.Now()
	m.all[d.Kind+"/"+d.Name] = d
	return d.Revision, nil
}

// copyOf is another store with the same in it.
func (m *memory) copyOf() map[string]document.Document {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]document.Document{}
	for k, d := range m.all {
		all[k] = d
	}
	return all
}
