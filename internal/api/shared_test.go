package api_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/queue"
)

// lineups counts the readings of lineups.
type lineups struct {
	queue.Engine
	n atomic.Int64
}

func (l *lineups) Lineup(ctx context.Context, name string) (queue.Lineup, error) {
	l.n.Add(1)
	return l.Engine.Lineup(ctx, name)
}

// Callers who accept an answer of the last second share a forecast, until a change. Forecasts with settings are never
// shared.
func TestForecastsAreShared(t *testing.T) {
	onBoth(t, func(t *testing.T, _ *fixture, e queue.Engine) {
		counted := &lineups{Engine: e}
		f := unserved(t)
		f.serveOver(counted, api.Options{})
		f.do("PUT", email, `{"rate":"1/s"}`)
		const recent = "max-age=1"
		ask := func(query string, header ...string) {
			t.Helper()
			f.do("GET", email+"/forecast"+query, "", header...).want(t, 200)
		}
		for range 5 {
			ask("", "Cache-Control", recent)
		}
		if n := counted.n.Load(); n < 1 || n > 2 { // a slow machine may take a second
			t.Errorf("5 callers who accept recent answers took %d readings", n)
		}
		before := counted.n.Load()
		ask("")
		ask("?rate=2/s", "Cache-Control", recent)
		ask("?rate=2/s", "Cache-Control", recent)
		f.do("POST", email+"/pause", "").want(t, 200)
		ask("", "Cache-Control", recent)
		if n := counted.n.Load() - before; n != 4 {
			t.Errorf("4 others took %d readings", n)
		}
	})
}
