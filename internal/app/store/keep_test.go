package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/redisq"
)

// How long changes are kept is the store's to know: who opens it later and does not say leaves it as it is.
func TestKeepChanges(t *testing.T) {
	now := leaky.Instant(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC).UnixMicro())
	path, redis := t.TempDir()+"/store", redistest.New(t, redistest.Options{})
	for kind, open := range map[string]func(keep time.Duration) (queue.Engine, error){
		"embedded": func(keep time.Duration) (queue.Engine, error) {
			return boltq.Open(t.Context(), path, boltq.Options{KeepChanges: keep, Now: func() leaky.Instant { return now }})
		},
		"redis": func(keep time.Duration) (queue.Engine, error) {
			return redisq.OpenClient(t.Context(), redis.Client(), redisq.Options{
				Init: true, Partitions: 2, KeepChanges: keep, Patience: redistest.Patience,
				Now: func() leaky.Instant { return now },
			})
		},
	} {
		t.Run(kind, func(t *testing.T) {
			changes := func(keep time.Duration) int {
				t.Helper()
				e, err := open(keep)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = e.Close() }()
				page, err := e.Changes(t.Context(), queue.ChangesRequest{Subject: queue.OfQueue, Name: "email", Limit: 9})
				if err != nil {
					t.Fatal(err)
				}
				return len(page.Changes)
			}
			e, err := open(0)
			if err != nil {
				t.Fatal(err)
			}
			use(t, e)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			begin := now
			now = begin.Add(399 * 24 * time.Hour)
			if n := changes(0); n != 1 {
				t.Errorf("%d changes after 399 days", n)
			}
			if n := changes(398 * 24 * time.Hour); n != 0 {
				t.Errorf("%d changes that are too old", n)
			}
			if n := changes(0); n != 0 {
				t.Errorf("the store forgot it: %d changes", n)
			}
			if n := changes(500 * 24 * time.Hour); n != 1 {
				t.Errorf("%d changes when they are kept for longer", n)
			}
			for _, d := range []time.Duration{-1, time.Minute, 1 << 62} {
				if _, err := open(d); err == nil || !strings.Contains(err.Error(), "keep_changes") {
					t.Errorf("%v: %v", d, err)
				}
			}
			now = begin
		})
	}
	if _, err := open(t, store.Options{DataPath: t.TempDir(), KeepChanges: time.Hour}); err != nil {
		t.Error(err)
	}
}
