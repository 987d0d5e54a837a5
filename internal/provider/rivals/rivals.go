// Package rivals has clients as people write them for a provider that limits tokens. Penstock is measured beside them.
//
// Each has workers that call without end, and share a budget if the client keeps one. All wait as long as a 429 asks
// for.
package rivals

import (
	"context"
	"sync"
	"time"
)

// Outcome is what came of a call.
type Outcome struct {
	Tokens int64         // that the answer states
	Wait   time.Duration // that a refusal asks for; 0 if the call was not refused
}

// Call makes a call.
type Call func(ctx context.Context) Outcome

// Rival is a client. It runs until ctx ends. perMinute is how many tokens the provider allows, and reserve how many a
// client takes for a call whose cost it does not know yet.
type Rival func(ctx context.Context, workers int, perMinute, reserve int64, call Call)

// Retrying calls whenever a worker is free, and relies on the waits that refusals ask for.
func Retrying(ctx context.Context, workers int, _, _ int64, call Call) {
	work(ctx, workers, func() { rest(ctx, call(ctx).Wait) })
}

// Reserving takes a fixed number of tokens from its budget before each call, and gives nothing back.
func Reserving(ctx context.Context, workers int, perMinute, reserve int64, call Call) {
	b := newBudget(perMinute)
	work(ctx, workers, func() {
		if b.await(ctx, reserve, reserve) {
			rest(ctx, call(ctx).Wait)
		}
	})
}

// Counting calls while anything is left of its budget, from which it takes what each answer states.
func Counting(ctx context.Context, workers int, perMinute, _ int64, call Call) {
	b := newBudget(perMinute)
	work(ctx, workers, func() {
		if b.await(ctx, 1, 0) {
			o := call(ctx)
			b.take(o.Tokens)
			rest(ctx, o.Wait)
		}
	})
}

// work has workers do something over and over, until ctx ends.
func work(ctx context.Context, workers int, do func()) {
	var all sync.WaitGroup
	defer all.Wait()
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				do()
			}
		})
	}
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// budget is a bucket of tokens, as large as what is refilled in a minute.
type budget struct {
	mu        sync.Mutex
	perMinute float64
	left      float64
	at        time.Time
}

func newBudget(perMinute int64) *budget {
	return &budget{perMinute: float64(perMinute), left: float64(perMinute), at: time.Now()}
}

// await waits until n are left, and takes some of them. It reports whether ctx has not ended before.
func (b *budget) await(ctx context.Context, n, take int64) bool {
	for ctx.Err() == nil {
		wait := b.tryTake(n, take)
		if wait <= 0 {
			return true
		}
		rest(ctx, wait)
	}
	return false
}

// tryTake takes some if n are left; otherwise it returns the time until they may be.
func (b *budget) tryTake(n, take int64) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.left = min(b.perMinute, b.left+b.perMinute*now.Sub(b.at).Minutes())
	b.at = now
	if b.left >= float64(n) {
		b.left -= float64(take)
		return 0
	}
	return max(time.Millisecond, time.Duration((float64(n)-b.left)/b.perMinute*float64(time.Minute)))
}

func (b *budget) take(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left -= float64(n)
}
