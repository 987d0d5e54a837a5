package coalesce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/queue"
)

// tower watches flights of integers, each of which takes a second, and answers
// n with "n".
type tower struct {
	mu      sync.Mutex
	flights [][]int
	err     error
	short   bool // answers too few
	size    func(int) int
	senders int
}

func (w *tower) coalescer() *Coalescer[int, string] {
	size := w.size
	if size == nil {
		size = func(int) int { return 1 }
	}
	return New(
		max(w.senders, 1), 10*time.Second, size, w.fly,
		func(n int, err error) string { return fmt.Sprint(n, " failed: ", err) },
	)
}

func (w *tower) fly(ctx context.Context, items []int) ([]string, error) {
	w.mu.Lock()
	w.flights = append(w.flights, slices.Clone(items))
	w.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", queue.ErrOutcomeUnknown, ctx.Err())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, w.err
	}
	answers := make([]string, len(items))
	for i, n := range items {
		answers[i] = fmt.Sprint(n)
	}
	if w.short {
		answers = answers[1:]
	}
	return answers, nil
}

func (w *tower) lengths() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var n []int
	for _, f := range w.flights {
		n = append(n, len(f))
	}
	return n
}

func series(from, count int) []int {
	list := make([]int, count)
	for i := range list {
		list[i] = from + i
	}
	return list
}

func answersOf(items []int) []string {
	var list []string
	for _, n := range items {
		list = append(list, fmt.Sprint(n))
	}
	return list
}

// send does a call that nobody gives up, and checks that each item has its own answer.
func send(t *testing.T, c *Coalescer[int, string], items []int) {
	t.Helper()
	got, err := c.Do(context.WithoutCancel(t.Context()), items)
	if err != nil || !slices.Equal(got, answersOf(items)) {
		t.Errorf("got %d answers, %v", len(got), err)
	}
}

func TestALoneCallerFliesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w tower
		c := w.coalescer()
		for i := range 3 {
			began := time.Now()
			send(t, c, []int{i})
			if took := time.Since(began); took != time.Second {
				t.Errorf("took %v, a flight takes 1s", took)
			}
		}
		if got := w.lengths(); !slices.Equal(got, []int{1, 1, 1}) {
			t.Errorf("flights of %v", got)
		}
		c.Close()
	})
}

func TestThoseWhoComeMeanwhileTravelTogether(t *testing.T) {
	for senders, want := range map[int][]int{1: {1, 9}, 2: {1, 1, 8}} {
		synctest.Test(t, func(t *testing.T) {
			w := tower{senders: senders}
			c := w.coalescer()
			began := time.Now()
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() { send(t, c, []int{i}) })
				synctest.Wait() // one after another, so that their order is known
			}
			wg.Wait()
			if took := time.Since(began); took != 2*time.Second {
				t.Errorf("%d senders: took %v", senders, took)
			}
			if got := w.lengths(); !slices.Equal(got, want) {
				t.Errorf("%d senders: flights of %v, want %v", senders, got, want)
			}
			if got := slices.Concat(w.flights...); !slices.Equal(got, series(0, 10)) {
				t.Errorf("they left in the order %v", got)
			}
			c.Close()
		})
	}
}

func TestAFlightHasLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		size  func(int) int
		items int
		want  []int
	}{
		"items":                         {nil, 2*MaxItems + 7, []int{MaxItems, MaxItems, 7}},
		"exactly":                       {nil, MaxItems, []int{MaxItems}},
		"bytes":                         {func(int) int { return MaxBytes / 4 }, 9, []int{4, 4, 1}},
		"one is larger than any flight": {func(n int) int { return []int{1, 2 * MaxBytes, 1}[n] }, 3, []int{1, 1, 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := tower{size: tt.size}
			c := w.coalescer()
			send(t, c, series(0, tt.items))
			if got := w.lengths(); !slices.Equal(got, tt.want) {
				t.Errorf("%s: flights of %v, want %v", name, got, tt.want)
			}
			if got := slices.Concat(w.flights...); !slices.Equal(got, series(0, tt.items)) {
				t.Errorf("%s: the order was lost", name)
			}
			c.Close()
		})
	}
}

// A long call keeps its order over several flights, with any number of senders, while others fill the remaining seats.
func TestALongCallKeepsItsOrder(t *testing.T) {
	for senders := 1; senders <= 3; senders++ {
		synctest.Test(t, func(t *testing.T) {
			w := tower{senders: senders}
			c := w.coalescer()
			var wg sync.WaitGroup
			wg.Go(func() { send(t, c, series(0, 3*MaxItems+100)) })
			synctest.Wait()
			for k := range 5 {
				wg.Go(func() { send(t, c, series(10_000*(k+1), 30)) })
			}
			wg.Wait()
			at := map[int]int{}
			for f, items := range w.flights {
				for _, n := range items {
					at[n] = f
				}
			}
			for n := 1; n < 3*MaxItems+100; n++ {
				if at[n] < at[n-1] {
					t.Fatalf("%d senders: %d flew before %d", senders, n, n-1)
				}
			}
			c.Close()
		})
	}
}

func TestACallerWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w tower
		c := w.coalescer()
		ctx, cancel := context.WithCancel(t.Context())

		cancelled, stop := context.WithCancel(t.Context())
		stop()
		if got, err := c.Do(cancelled, []int{1}); got != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("before it began: %v, %v", got, err)
		}

		var wg sync.WaitGroup
		inTheAir := func(items ...int) {
			wg.Go(func() {
				got, err := c.Do(ctx, items)
				if got != nil || !errors.Is(err, queue.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
					t.Errorf("in the air: %v, %v", got, err)
				}
			})
			synctest.Wait()
		}
		waiting := func(item int) {
			wg.Go(func() {
				got, err := c.Do(ctx, []int{item})
				if got != nil || errors.Is(err, queue.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
					t.Errorf("not boarded: %v, %v", got, err)
				}
			})
		}
		wg.Go(func() { send(t, c, []int{1}) })
		synctest.Wait()
		inTheAir(2)                            // with 3, as soon as 1 has landed
		wg.Go(func() { send(t, c, []int{3}) }) // untouched by the others
		time.Sleep(1500 * time.Millisecond)
		waiting(4)
		wg.Go(func() { send(t, c, []int{5}) })
		synctest.Wait()
		cancel()
		wg.Wait()

		synctest.Wait()
		ctx, cancel = context.WithCancel(t.Context())
		inTheAir(6, 7) // alone
		wg.Go(func() { send(t, c, []int{8}) })
		synctest.Wait()
		cancel()
		wg.Wait()
		if got := slices.Concat(w.flights...); !slices.Equal(got, []int{1, 2, 3, 5, 6, 7, 8}) {
			t.Errorf("%v flew, want all but 4", got)
		}
		c.Close()
	})
}

func TestAHalfFlownCallThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w tower
		c := w.coalescer()
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if got, err := c.Do(ctx, series(0, 3*MaxItems)); got != nil || !errors.Is(err, queue.ErrOutcomeUnknown) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d answers, %v", len(got), err)
		}
		send(t, c, []int{-1})
		if got := w.lengths(); !slices.Equal(got, []int{MaxItems, MaxItems, 1}) {
			t.Errorf("flights of %v: what had not boarded must not fly", got)
		}
		c.Close()
	})
}

func TestAFlightThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := tower{err: queue.ErrUnavailable}
		c := w.coalescer()
		got, err := c.Do(t.Context(), []int{1, 2})
		if !errors.Is(err, queue.ErrUnavailable) || len(got) != 2 || got[0] != "1 failed: "+queue.ErrUnavailable.Error() {
			t.Errorf("got %q, %v", got, err)
		}
		w.err, w.short = nil, true
		if _, err := c.Do(t.Context(), []int{1, 2}); !errors.Is(err, queue.ErrCorrupt) {
			t.Errorf("one answer to two items: %v", err)
		}
		w.short = false
		send(t, c, []int{3})
		c.Close()
	})
}

// When only a part of a call fails, each item has its own error.
func TestAFlightOfManyThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w tower
		c := w.coalescer()
		var wg sync.WaitGroup
		wg.Go(func() {
			got, err := c.Do(t.Context(), series(0, MaxItems+1))
			if err != nil || got[0] != "0" || got[MaxItems] != fmt.Sprint(MaxItems, " failed: ", queue.ErrUnavailable) {
				t.Errorf("%d answers, the last %q, %v", len(got), got[len(got)-1], err)
			}
		})
		time.Sleep(1500 * time.Millisecond) // within the second flight
		w.mu.Lock()
		w.err = queue.ErrUnavailable
		w.mu.Unlock()
		wg.Wait()
		c.Close()
	})
}

func TestAFlightIsBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(1, 3*time.Second, func(int) int { return 1 },
			func(ctx context.Context, _ []int) ([]string, error) { <-ctx.Done(); return nil, ctx.Err() },
			func(int, error) string { return "" })
		began := time.Now()
		if _, err := c.Do(t.Context(), []int{1}); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		c.Close()
	})
}

func TestNothingToSend(t *testing.T) {
	var w tower
	c := w.coalescer()
	if got, err := c.Do(t.Context(), nil); got != nil || err != nil || len(w.flights) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	c.Close()
}

// Close ends all flying and waiting calls, and leaves no goroutine: synctest fails a test that does.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w tower
		c := w.coalescer()
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				if _, err := c.Do(t.Context(), []int{i}); !errors.Is(err, queue.ErrOutcomeUnknown) &&
					!errors.Is(err, queue.ErrClosed) {
					t.Errorf("caller %d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		began := time.Now()
		c.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("closing took %v", took)
		}
		wg.Wait()
		if _, err := c.Do(t.Context(), []int{9}); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("after closing: %v", err)
		}
		c.Close()
	})
}

func TestManyCallers(t *testing.T) {
	for _, senders := range []int{1, 2, 4} {
		var mu sync.Mutex
		seen := map[int]int{}
		c := New(senders, time.Minute, func(int) int { return MaxBytes / 50 }, func(
			_ context.Context, items []int,
		) ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			if len(items) > 50 {
				t.Errorf("a flight of %d", len(items))
			}
			for _, n := range items {
				seen[n]++
			}
			return answersOf(items), nil
		}, func(int, error) string { return "failed" })
		var wg sync.WaitGroup
		for w := range 32 {
			wg.Go(func() {
				for i := range 100 {
					send(t, c, series(w*1_000_000+i*100, 1+(w+i)%70))
				}
			})
		}
		wg.Wait()
		c.Close()
		for n, times := range seen {
			if times != 1 {
				t.Fatalf("%d flew %d times", n, times)
			}
		}
	}
}
