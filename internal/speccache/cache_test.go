package speccache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/queue"
)

const slow = 100 * time.Millisecond

var errAway = errors.New("away")

// store answers after slow with how often it was asked, and that as the revision.
type store struct {
	mu    sync.Mutex
	reads int
	err   error
	hangs bool
}

func (s *store) read(ctx context.Context, _ string) (int, int64, error) {
	s.mu.Lock()
	s.reads++
	n, err, hangs := s.reads, s.err, s.hangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return 0, 0, ctx.Err()
	}
	time.Sleep(slow)
	return n, int64(n), err
}

func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func (s *store) answer(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func newCache(s *store) *Cache[int] {
	return New(Options[int]{Read: s.read, Patience: time.Second, MaxAge: time.Second, Max: 100})
}

// want gets a name, and compares what came of it, how long that took and how many reads there were until then.
func want(t *testing.T, c *Cache[int], s *store, value int, err error, took time.Duration, reads int) {
	t.Helper()
	begun := time.Now()
	got, failed := c.Get(t.Context(), "q")
	if got != value || !errors.Is(failed, err) || time.Since(begun) != took || s.count() != reads {
		t.Errorf(
			"%d, %v after %v and %d reads; want %d, %v after %v and %d", got, failed, time.Since(begun), s.count(), value, err,
			took, reads,
		)
	}
}

func TestValuesAreReadAgainWhenTheyAreTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		c := newCache(s)
		want(t, c, s, 1, nil, slow, 1)
		time.Sleep(time.Second - 1)
		want(t, c, s, 1, nil, 0, 1)
		time.Sleep(time.Nanosecond)
		want(t, c, s, 2, nil, slow, 2)
	})
}

func TestOfACrowdOneReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		c := newCache(s)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { want(t, c, s, 1, nil, slow, 1) })
		}
		all.Wait()
		time.Sleep(time.Second)
		go func() { _, _ = c.Get(t.Context(), "q") }()
		synctest.Wait()
		want(t, c, s, 1, nil, 0, 2) // what is known will do beside a read
		time.Sleep(slow)
		synctest.Wait()
		want(t, c, s, 2, nil, 0, 2)
	})
}

func TestOneWhoLeavesDoesNotEndTheReadOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		c := newCache(s)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := c.Get(ctx, "q"); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		synctest.Wait()
		time.AfterFunc(slow/2, cancel)
		want(t, c, s, 1, nil, slow, 1)
		if _, err := c.Get(ctx, "other"); !errors.Is(err, context.Canceled) || s.count() != 1 {
			t.Errorf("%v after %d reads", err, s.count())
		}
	})
}

func TestWhatIsKnownOutlivesAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		c := newCache(s)
		want(t, c, s, 1, nil, slow, 1)
		s.answer(errAway)
		time.Sleep(time.Hour)
		want(t, c, s, 1, nil, slow, 2)
		want(t, c, s, 1, nil, 0, 2)
		s.answer(nil)
		time.Sleep(time.Second)
		want(t, c, s, 3, nil, slow, 3)
	})
}

func TestAFailureIsForgottenUnlessItIsToBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{err: errAway}
		c := newCache(s)
		want(t, c, s, 0, errAway, slow, 1)
		want(t, c, s, 0, errAway, slow, 2)
		if c.Len() != 0 {
			t.Errorf("%d names", c.Len())
		}
		c.o.FailureAge = time.Second
		want(t, c, s, 0, errAway, slow, 3)
		s.answer(nil)
		time.Sleep(time.Second - 1)
		want(t, c, s, 0, errAway, 0, 3)
		time.Sleep(time.Nanosecond)
		want(t, c, s, 4, nil, slow, 4)
	})
}

func TestAStoreThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{hangs: true}
		c := newCache(s)
		want(t, c, s, 0, context.DeadlineExceeded, time.Second, 1)
	})
}

func TestWhatIsNotThereTakesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		c := newCache(s)
		c.o.FailureAge = time.Hour
		want(t, c, s, 1, nil, slow, 1)
		s.answer(fmt.Errorf("q: %w", queue.ErrUnknownQueue))
		time.Sleep(time.Second)
		want(t, c, s, 0, queue.ErrUnknownQueue, slow, 2) // it was deleted
		want(t, c, s, 0, queue.ErrUnknownQueue, slow, 3)
		if _, err := c.Get(t.Context(), "no name of a queue"); !errors.Is(err, queue.ErrUnknownQueue) || s.count() != 3 ||
			c.Len() != 0 {
			t.Errorf("%v after %d reads; %d names", err, s.count(), c.Len())
		}
	})
}

func TestRevisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		c := newCache(s)
		get := func(revision int64, value int, err error, took time.Duration, reads int) {
			t.Helper()
			begun := time.Now()
			got, failed := c.AtLeast(t.Context(), "q", revision)
			if got != value || !errors.Is(failed, err) || time.Since(begun) != took || s.count() != reads {
				t.Errorf(
					"%d, %v after %v and %d reads; want %d, %v after %v and %d", got, failed, time.Since(begun), s.count(), value, err,
					took, reads,
				)
			}
		}
		get(1, 1, nil, slow, 1)
		time.Sleep(time.Hour)
		get(1, 1, nil, 0, 1)
		get(2, 2, nil, slow, 2)
		get(1, 2, nil, 0, 2)
		s.answer(errAway)
		get(3, 0, errAway, slow, 3) // an old one is not good enough
		get(2, 2, nil, 0, 3)
		s.answer(nil)
		go func() { _, _ = c.AtLeast(t.Context(), "q", 4) }()
		synctest.Wait()
		get(5, 5, nil, 2*slow, 5) // the read under way may have begun before the change
	})
}

func TestRefreshReadsInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		c := newCache(s)
		known := func(value int, ok bool) {
			t.Helper()
			if got, revision, has := c.Known("q"); got != value || revision != int64(value) || has != ok {
				t.Errorf("%d at %d, %v; want %d, %v", got, revision, has, value, ok)
			}
		}
		c.Refresh("q", time.Minute)
		c.Refresh("q", time.Minute)
		known(0, false)
		time.Sleep(slow)
		synctest.Wait()
		known(1, true)
		c.Refresh("q", time.Minute)
		time.Sleep(time.Minute)
		known(1, true)
		c.Refresh("q", time.Minute)
		time.Sleep(slow)
		synctest.Wait()
		known(2, true)
		c.Refresh("no name of a queue", 0)
		for i := range 20 {
			c.Refresh(fmt.Sprintf("other-%d", i), 0)
		}
		synctest.Wait()
		if s.count() != 2+maxReaders {
			t.Errorf("%d reads, want %d at once", s.count()-2, maxReaders)
		}
		time.Sleep(20 * slow)
		c.Close()
		if s.count() != 22 || c.readers != 0 {
			t.Errorf("%d reads, %d readers", s.count(), c.readers)
		}
	})
}

func TestForgottenIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		c := newCache(s)
		want(t, c, s, 1, nil, slow, 1)
		c.Forget("q")
		go func() { _, _ = c.Get(t.Context(), "q") }()
		synctest.Wait()
		c.Forget("q") // what is being read may be from before
		want(t, c, s, 3, nil, slow, 3)
		want(t, c, s, 3, nil, 0, 3)
	})
}

func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		c := newCache(s)
		for i := range 300 {
			if _, err := c.Get(t.Context(), fmt.Sprintf("q-%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, ok := c.Known("q-299"); c.Len() != 100 || !ok {
			t.Errorf("%d names, the last one among them: %v", c.Len(), ok)
		}
	})
}

func TestCloseEndsReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		c := newCache(s)
		want(t, c, s, 1, nil, slow, 1)
		s.hangs = true
		c.Refresh("q", 0)
		go func() {
			if _, err := c.Get(t.Context(), "other"); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		synctest.Wait()
		begun := time.Now()
		c.Close()
		if time.Since(begun) != 0 {
			t.Errorf("took %v", time.Since(begun))
		}
		want(t, c, s, 1, nil, 0, 3)
		if _, err := c.Get(t.Context(), "other"); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}
