package httpio

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted is what is read, and how often.
type counted struct {
	Shared[string, int64]
	n     atomic.Int64
	takes time.Duration
	err   error
}

func (c *counted) look(ctx context.Context, age time.Duration) (int64, error) {
	return c.Get(ctx, "a", age, func(ctx context.Context) (int64, error) {
		select {
		case <-time.After(c.takes):
			return c.n.Add(1), c.err
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
}

func TestReadingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{takes: 100 * time.Millisecond}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if n, err := c.look(t.Context(), time.Second); n != 1 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			})
		}
		all.Wait()
		for _, step := range []struct {
			after, age time.Duration
			forget     bool
			want       int64
		}{
			{0, time.Second, false, 1},
			{0, 0, false, 2}, // who asks for what is now gets that
			{700 * time.Millisecond, time.Second, false, 1},
			{200 * time.Millisecond, time.Second, false, 3},
			{0, time.Second, true, 4}, // something was changed
		} {
			time.Sleep(step.after)
			if step.forget {
				c.Forget()
			}
			if n, err := c.look(t.Context(), step.age); n != step.want || err != nil {
				t.Errorf("%+v: %d, %v", step, n, err)
			}
		}
	})
}

// Who does not wait any longer is answered at once, though the store hangs, and those who do wait are not given up with
// him.
func TestReadingOutlivesWhoBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{takes: time.Minute}
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithTimeout(t.Context(), time.Second/2)
		defer leaveToo()
		ends := func(ctx context.Context, want error, after time.Duration) func() {
			begun := time.Now()
			return func() {
				_, err := c.look(ctx, time.Second)
				if took := time.Since(begun); !errors.Is(err, want) || took != after {
					t.Errorf("%v after %v, want %v after %v", err, took, want, after)
				}
			}
		}
		var all sync.WaitGroup
		all.Go(ends(first, context.Canceled, time.Second))
		synctest.Wait() // he reads
		all.Go(ends(second, context.DeadlineExceeded, time.Second/2))
		all.Go(ends(t.Context(), nil, time.Second+time.Minute))
		time.Sleep(time.Second)
		leave()
		all.Wait()
	})
}

// An error is told to those who wait, and to nobody later. A panic leaves nothing that is waited for.
func TestFailedReadingIsForgotten(t *testing.T) {
	c := &counted{err: errors.New("away")}
	if _, err := c.look(t.Context(), time.Second); err == nil {
		t.Error("no error")
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Get(t.Context(), "a", time.Second, func(context.Context) (int64, error) { panic("a mistake") })
	}()
	c.err = nil
	if n, err := c.look(t.Context(), time.Second); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// How old an answer may be is for whoever asks to say, as HTTP has it.
func TestMayBeOld(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "max-age=1": recently, " Max-Age=1 ": recently, "max-age=60": recently, "max-age=0": 0,
		"max-stale, max-age=5": recently, "max-age=1, no-cache": 0, "no-store": 0, "max-age=-1": 0, "max-age=x": 0,
		"max-age=99999999999999999999": 0, "max-age": 0,
	} {
		r := &http.Request{Header: http.Header{"Cache-Control": {header}}}
		if got := MaxAge(r); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
	if got := MaxAge(&http.Request{Header: http.Header{}}); got != 0 {
		t.Errorf("without the header: %v", got)
	}
}
