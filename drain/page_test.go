package drain

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock/penstock/queue"
)

// newBook reads specs with get.
func newBook(get func(ctx context.Context) error) (b *book, gets *int) {
	gets = new(int)
	return &book{pages: map[string]*page{}, get: func(ctx context.Context, name string) (queue.Info, error) {
		*gets++
		err := get(ctx)
		return queue.Info{Spec: queue.Spec{Name: name}, Revision: 1}, err
	}}, gets
}

// A spec that cannot be read is one failure for all who waited for it, and not one after the
// other; who comes later tries anew.
func TestSpecFailsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		begin := time.Now()
		b, gets := newBook(func(ctx context.Context) error {
			if time.Since(begin) >= 10*time.Second {
				return nil
			}
			<-ctx.Done()
			return away
		})
		p := b.open("q")
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * ms)
				_, err := b.specAt(t.Context(), p, 1)
				if took := time.Since(begin); !errors.Is(err, away) || took != specTimeout {
					t.Errorf("job %d: %v after %v", i, err, took)
				}
			})
		}
		all.Wait()
		if *gets != 1 {
			t.Errorf("%d Gets for those who waited, want 1", *gets)
		}
		time.Sleep(10 * time.Second)
		if spec, err := b.specAt(t.Context(), p, 1); err != nil || spec.Name != "q" {
			t.Errorf("later: %v, %v", spec, err)
		}
	})
}

// A job that is cancelled while it reads the spec for others does not fail for them.
func TestSpecReaderCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, gets := newBook(func(ctx context.Context) error {
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		p := b.open("q")
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := b.specAt(ctx, p, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled one got %v", err)
			}
		})
		synctest.Wait()
		for range 10 {
			all.Go(func() {
				if _, err := b.specAt(t.Context(), p, 1); err != nil {
					t.Errorf("another got %v", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		all.Wait()
		if *gets != 2 {
			t.Errorf("%d Gets, want 2", *gets)
		}
	})
}
