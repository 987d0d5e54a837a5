package prove

import "sync"

// acceptedJobs records the accepted jobs and where each was put.
type acceptedJobs struct {
	mu    sync.Mutex
	flows map[string]flow
	ids   []string
}

func newAcceptedJobs() *acceptedJobs { return &acceptedJobs{flows: map[string]flow{}} }

func (b *acceptedJobs) accept(id string, at flow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, twice := b.flows[id]; !twice {
		b.ids = append(b.ids, id)
	}
	b.flows[id] = at
}

func (b *acceptedJobs) flowOf(id string) (flow, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f, ok := b.flows[id]
	return f, ok
}

func (b *acceptedJobs) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ids)
}

func (b *acceptedJobs) accepted() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.ids...)
}
