package prove

import "sync"

// book says what was accepted, and where it was put.
type book struct {
	mu    sync.Mutex
	flows map[string]flow
	ids   []string
}

func newBook() *book { return &book{flows: map[string]flow{}} }

func (b *book) accept(id string, at flow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, twice := b.flows[id]; !twice {
		b.ids = append(b.ids, id)
	}
	b.flows[id] = at
}

func (b *book) flowOf(id string) (flow, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, ok := b.flows[id]
	return f, ok
}

func (b *book) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ids)
}

func (b *book) accepted() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.ids...)
}
