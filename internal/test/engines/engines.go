// Package engines runs a test on each engine, because both must behave alike.
package engines

import (
	"path/filepath"
	"testing"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/redisq"
)

// Each runs a test twice, each time on an empty store: on a file, and on a Redis of its own.
func Each(t *testing.T, test func(t *testing.T, e queue.Engine)) {
	t.Helper()
	t.Run("bolt", func(t *testing.T) {
		e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		test(t, e)
	})
	t.Run("redis", func(t *testing.T) {
		s := redistest.New(t, redistest.Options{})
		e, err := redisq.OpenClient(t.Context(), s.Client(), redisq.Options{Init: true, Patience: redistest.Patience})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.Close() }()
		test(t, e)
	})
}
