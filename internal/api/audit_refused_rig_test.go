package api_test

import (
	"context"
	"sync"

	"github.com/penstock/penstock/queue/audit"
)

// refusedLog is an audit log that keeps what is recorded.
type refusedLog struct {
	audit.Log
	away    chan struct{} // until it is closed nothing is recorded; nil is never
	mu      sync.Mutex
	entries []audit.Entry
}

func (k *refusedLog) Record(_ context.Context, e audit.Entry) error {
	if k.away != nil {
		<-k.away
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.entries = append(k.entries, e)
	return nil
}

// times is how often each entry was refused.
func (k *refusedLog) times() (all []int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.entries {
		all = append(all, e.Times)
	}
	return all
}
