package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

const etaRate = 200

// etaJobs returns the number of jobs appended at once, which leave in ten seconds.
func etaJobs() int { return sized(2000) }

// eta compares the departures with the ETAs that producers got. Allowed are 50 ms or 5% of the wait, whichever is more.
func eta(name, what string, job func(i int) queue.Job) Figure {
	var worst, p50 time.Duration
	return Figure{
		Name: "eta-" + name, Unit: "x, p99 error of ETAs over the allowed error, " + what, Rounds: 1,
		Goal: "50 ms or 5% of the wait, in one lane", Met: func(ours, _, _ float64) bool { return ours <= 1 },
		Setup: func(ctx context.Context) (Measurements, error) {
			s, err := newRedisStore(ctx)
			if err != nil {
				return Measurements{}, err
			}
			m := Measurements{Close: s.Close, Notes: func() string {
				return fmt.Sprintf("off by %v p50, %v at most", p50, worst)
			}}
			m.Ours = func(ctx context.Context) (float64, error) {
				if err := put(ctx, s.engine, queueName, leaky.PerSecond(etaRate)); err != nil {
					return 0, err
				}
				departed := drainTimes(ctx, s.engine)
				type promise struct{ asked, eta time.Time }
				promises := make(map[string]promise, etaJobs())
				for i := range etaJobs() {
					j := job(i)
					j.Queue, j.ID, j.Payload = queueName, newID(), payload
					answers, err := s.engine.Append(ctx, []queue.Job{j})
					if err != nil {
						return 0, err
					}
					if answers[0].Outcome != queue.Accepted {
						return 0, notAccepted(answers[0])
					}
					promises[j.ID] = promise{time.Now(), answers[0].ETA.At}
				}
				times, err := departed()
				if err != nil {
					return 0, err
				}
				var shares, off []float64
				for id, p := range promises {
					wrong := math.Abs(float64(times[id].Sub(p.eta)))
					allowed := max(float64(50*time.Millisecond), 0.05*float64(times[id].Sub(p.asked)))
					shares, off = append(shares, wrong/allowed), append(off, wrong)
				}
				p50, worst = time.Duration(percentile(off, 0.5)), time.Duration(percentile(off, 1))
				return percentile(shares, 0.99), nil
			}
			return m, nil
		},
	}
}

// drainTimes begins to drain. wait waits until etaJobs have left, and returns when each of them left.
func drainTimes(ctx context.Context, e queue.Outflow) (wait func() (map[string]time.Time, error)) {
	ctx, stop := context.WithCancel(ctx)
	var mu sync.Mutex
	times := make(map[string]time.Time, etaJobs())
	handler := drain.HandlerFunc(func(_ context.Context, j *drain.Job) error {
		mu.Lock()
		defer mu.Unlock()
		if _, again := times[j.ID]; !again {
			times[j.ID] = time.Now()
		}
		if len(times) == etaJobs() {
			stop()
		}
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- drain.Run(ctx, e, handler, drain.Options{}) }()
	return func() (map[string]time.Time, error) {
		defer stop()
		err := <-ended
		return times, err
	}
}

var (
	etaPlain = eta("plain", "one lane", func(int) queue.Job { return queue.Job{} })
	etaLanes = eta("lanes", "20 lanes of very different depth", func(int) queue.Job {
		return queue.Job{Lane: fmt.Sprint(int(20 * math.Pow(rand.Float64(), 3)))}
	})
)
