package app_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/engines"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A drainer goes by the shares that apps have of its handlers in the store, those that were put before it began and
// those that are put while it runs: a receiver that hangs takes no more from the other app.
func TestAppsShareTheHandlersOfADrainer(t *testing.T) {
	engines.Each(t, func(t *testing.T, e queue.Engine) {
		share := func(handlers float64) {
			t.Helper()
			text := fmt.Sprintf(`{"name":"acme","prefixes":["acme-*"],"limits":{"handlers":%v}}`, handlers)
			if _, err := e.PutDocument(t.Context(), document.Document{
				Kind: "app", Name: "acme", Text: []byte(text),
			}, queue.AnyRevision); err != nil {
				t.Fatal(err)
			}
		}
		fill := func(name string, jobs int) {
			t.Helper()
			if _, err := e.Put(t.Context(), queue.Spec{Name: name, Rate: leaky.Unlimited}, 0); err != nil {
				t.Fatal(err)
			}
			for i := range jobs {
				job := queue.Job{Queue: name, ID: fmt.Sprint(i), Payload: []byte("{}")}
				if _, err := e.Append(t.Context(), []queue.Job{job}); err != nil {
					t.Fatal(err)
				}
			}
		}
		share(.25)
		for i := range 8 {
			fill(fmt.Sprint("acme-", i), 8)
		}
		var others atomic.Int64
		var usage drain.Usage
		d, err := app.NewDrainer(e, app.DrainerOptions{
			Handler: drain.HandlerFunc(func(ctx context.Context, job *drain.Job) error {
				if job.Queue == "beta-1" {
					others.Add(1)
					return nil
				}
				<-ctx.Done() // it hangs
				return context.Cause(ctx)
			}),
			Drain: drain.Options{Concurrency: 8, Usage: &usage, Grace: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() { end <- d.Run(ctx) }()
		held := func() (n int) {
			for _, q := range usage.Queues() {
				if q.Queue != "beta-1" {
					n += q.Handlers
				}
			}
			return n
		}
		await.Until(t, "the app has its share", func() bool { return held() == 4 })
		fill("beta-1", 40)
		await.Until(t, "the other app goes on", func() bool { return others.Load() == 40 })
		if n := held(); n != 4 {
			t.Errorf("the app has %d handlers, want 4 of 16", n)
		}
		share(.5)
		await.Until(t, "the app has its greater share", func() bool { return held() == 8 })
		stop()
		if err := <-end; err != nil {
			t.Error(err)
		}
	})
}
