package prove

import (
	"testing"
	"time"

	"github.com/penstock/penstock/internal/prove/receiver"
	"github.com/penstock/penstock/leaky"
)

func TestPostKeepsItsGrid(t *testing.T) {
	rec, stop, err := receive(t.Context(), receiver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := Post(t.Context(), rec.URL(), leaky.PerSecond(100), 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n := rec.Count(); n != 21 {
		t.Errorf("%d posts, want 21", n)
	}
	if err := Post(t.Context(), rec.URL(), leaky.Unlimited, time.Second); err == nil {
		t.Error("unlimited was accepted")
	}
}
