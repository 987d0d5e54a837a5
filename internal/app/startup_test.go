package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// A start that fails because the overflow does not open changes nothing in the store; a start that succeeds creates the
// queues of the config file.
func TestConfigIsAppliedOnceTheOverflowIsOpen(t *testing.T) {
	file, data := filepath.Join(t.TempDir(), "queues.yaml"), filepath.Join(t.TempDir(), "jobs.db")
	if err := os.WriteFile(file, []byte("queues:\n  - {name: email, rate: 14/s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	closed := errors.New("the overflow does not open")
	for _, want := range []error{closed, nil} {
		created := func(e queue.Engine) bool {
			list, err := e.List(t.Context(), "", 10)
			if err != nil {
				t.Fatal(err)
			}
			return len(list) == 1 && list[0].Spec.Name == "email"
		}
		b, err := app.Open(t.Context(), app.BaseOptions{
			Service: "test", Config: file, Logger: slog.New(slog.DiscardHandler),
			ValidTarget: func(string, json.RawMessage) error { return nil },
			OpenStore: func(ctx context.Context, _ prometheus.Registerer) (queue.Engine, error) {
				return boltq.Open(ctx, data, boltq.Options{})
			},
			OpenOverflow: func(_ context.Context, b *app.Base) (*deferred.Stream, error) {
				if created(b.Engine) {
					t.Error("queues were created before the overflow was open")
				}
				return nil, want
			},
		})
		if !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
		if err != nil {
			continue
		}
		if !created(b.Engine) {
			t.Error("the queue of the config file was not created")
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
