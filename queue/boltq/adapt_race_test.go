package boltq

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// A Put decided while a settlement is in progress loses none of its effect on the rate: the result is as if the
// settlement had been answered before.
func TestAPutThatRacesTheRate(t *testing.T) {
	puts := map[string]func(*queue.Spec){
		"goes on":        func(s *queue.Spec) { s.Capacity = 7 },
		"burst":          func(s *queue.Spec) { s.Burst = 3 },
		"begins anew":    func(s *queue.Spec) { s.Adapt.Ceiling = leaky.PerSecond(30) },
		"adapts no more": func(s *queue.Spec) { s.Adapt = queue.Adapt{} },
	}
	for name, change := range puts {
		for _, race := range []string{"none", "in the commit before", "in the same commit"} {
			t.Run(name+"/"+race, func(t *testing.T) {
				h := holding()
				b := start(t, Options{synced: h.synced})
				spec := queue.Spec{
					Name: "q", Rate: leaky.PerSecond(10),
					Adapt: queue.Adapt{Floor: leaky.PerSecond(2), Ceiling: leaky.PerSecond(20)},
				}
				if _, err := b.Put(t.Context(), spec, queue.AnyRevision); err != nil {
					t.Fatal(err)
				}
				b.MustPut("other", "1/s")
				b.AppendTo("q", 0, 3)
				b.Advance(time.Second)
				leased := b.MustReserve(1)
				b.Advance(100 * time.Millisecond)
				change(&spec)

				ended := make(chan error, 3)
				under := func(do func() error) { go func() { ended <- do() }() }
				decided := func(what func() bool) {
					await.Until(t, "it is decided", what)
				}
				lowered := func() bool { return b.MustGet("q").Rate.PerSecond() < 10 }
				revision := b.MustGet("q").Revision
				changed := func() bool { return b.MustGet("q").Revision > revision }
				settle := func() error {
					answers, err := b.Settle(context.Background(), enginetest.Settlements(queue.Throttle, leased))
					if err == nil && answers[0].Effect.To.PerSecond() >= 10 {
						t.Errorf("it lowered nothing: %+v", answers[0])
					}
					return err
				}
				put := func() error { _, err := b.Put(context.Background(), spec, queue.AnyRevision); return err }
				h.on.Store(race != "none")
				n := 2
				switch race {
				case "none":
					ended <- settle()
					ended <- put()
				case "in the commit before":
					under(settle)
					<-h.arrived
					under(put)
					decided(changed)
				case "in the same commit":
					n = 3
					under(func() error {
						_, err := b.Append(
							context.Background(), []queue.Job{enginetest.Job("other", 1)},
						)
						return err
					})
					<-h.arrived
					under(settle)
					decided(lowered)
					under(put)
					decided(changed)
				}
				if h.on.Swap(false) {
					h.release <- struct{}{}
				}
				for range n {
					if err := <-ended; err != nil {
						t.Fatal(err)
					}
				}
				b.sequel(name)
			})
		}
	}
}

// sequel checks the state, in memory and on file, after a refused departure and a Put.
func (b *bench) sequel(put string) {
	b.Helper()
	i := b.MustGet("q")
	rate, causes := i.Rate.PerSecond(), []string{}
	for _, a := range i.RateChanges {
		causes = append(causes, a.Cause)
	}
	want := map[string][]string{
		"goes on": {"throttled"}, "burst": {"throttled"}, "begins anew": {"put", "throttled"}, "adapts no more": {},
	}[put]
	if !reflect.DeepEqual(causes, want) || (put == "goes on" || put == "burst") != (rate < 10) {
		b.Errorf("rate %v, changed by %v, want %v", rate, causes, want)
	}
	b.reopen()
	if again := b.MustGet("q"); again.Rate != i.Rate || !reflect.DeepEqual(again.RateChanges, i.RateChanges) {
		b.Errorf("opened again it has %v by %+v, and had %v by %+v", again.Rate, again.RateChanges, i.Rate, i.RateChanges)
	}
}
