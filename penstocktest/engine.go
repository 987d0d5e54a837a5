package penstocktest

import (
	"context"
	"testing"

	"github.com/penstock/penstock/internal/virtualtime"
	"github.com/penstock/penstock/queue/boltq"
)

// Engine is an engine in memory, for tests of programs that embed Penstock. Its clock runs like the wall clock, and
// Advance sets it ahead.
type Engine struct{ *virtualtime.Engine }

// NewEngine returns an empty engine that is closed with the test.
func NewEngine(t testing.TB) *Engine {
	t.Helper()
	e, err := virtualtime.Open(context.Background(), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Engine{e}
}
