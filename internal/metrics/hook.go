package metrics

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// Hook is a redis.Hook that measures round trips. It distinguishes scripts from other commands, but not scripts from
// one another: commands contain only their hash.
type Hook struct {
	script, pipeline, other prometheus.Observer
	failed, dialFailed      prometheus.Counter
}

var _ redis.Hook = (*Hook)(nil)

// NewHook registers a hook's metrics.
func NewHook(reg prometheus.Registerer) (*Hook, error) {
	trips := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "penstock_redis_seconds", Help: "Round trips to Redis, by kind: script, pipeline or other.",
		Buckets: latencyBuckets,
	}, []string{"kind"})
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "penstock_redis_errors_total", Help: "Failed round trips to Redis, by kind: command or dial.",
	}, []string{"kind"})
	h := &Hook{
		script: trips.WithLabelValues("script"), pipeline: trips.WithLabelValues("pipeline"),
		other:  trips.WithLabelValues("other"),
		failed: failures.WithLabelValues("command"), dialFailed: failures.WithLabelValues("dial"),
	}
	return h, register(reg, trips, failures)
}

// DialHook implements redis.Hook.
func (h *Hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err != nil {
			h.dialFailed.Inc()
		}
		return c, err
	}
}

// ProcessHook implements redis.Hook.
func (h *Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		start := time.Now()
		err := next(ctx, cmd)
		kind := h.other
		switch cmd.Name() {
		case "evalsha", "eval":
			kind = h.script
		}
		h.done(kind, start, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h *Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		start := time.Now()
		err := next(ctx, cmds)
		h.done(h.pipeline, start, err)
		return err
	}
}

func (h *Hook) done(kind prometheus.Observer, start time.Time, err error) {
	kind.Observe(time.Since(start).Seconds())
	if err != nil && !errors.Is(err, redis.Nil) {
		h.failed.Inc()
	}
}
