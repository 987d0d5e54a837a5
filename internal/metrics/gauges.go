package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// DefaultRefresh is how often Gauges looks at the queues.
const DefaultRefresh = 10 * time.Second

// Gauges shows how the queues are, as of the last look: the first ones in order of name each, and those of the others
// that are in trouble, which it knows by a Survey of all; the others are summed up. However many queues there are, a
// look reads those and asks for the totals.
type Gauges struct {
	queueGauges

	most     int
	used     prometheus.Gauge
	stop     prometheus.Gauge
	queues   prometheus.Gauge
	unseen   prometheus.Gauge
	looked   prometheus.Gauge
	states   *prometheus.GaugeVec
	drainers prometheus.Gauge
	audit    *auditDrops
	ahead    prometheus.Gauge
	jumped   prometheus.Gauge
	shown    map[string]bool
	rare     map[string]rarity
}

// NewGauges registers the gauges. Run or Refresh sets them.
func NewGauges(reg prometheus.Registerer, maxQueues int) (*Gauges, error) {
	if maxQueues <= 0 {
		maxQueues = DefaultMaxQueues
	}
	g := &Gauges{
		queueGauges: newQueueGauges(nil),
		most:        maxQueues,
		used: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_store_used_bytes", Help: "How much of the store is used; of several Redis servers the fullest.",
		}),
		stop: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_store_limit_bytes",
			Help: "At how much no jobs are taken in any more, what makes room goes on; +Inf when it is not known.",
		}),
		queues: prometheus.NewGauge(prometheus.GaugeOpts{Name: "penstock_queues", Help: "How many queues there are."}),
		unseen: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_queues_unseen",
			Help: "How many queues are in trouble and have no series of their own, because as many others have as may.",
		}),
		looked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_refreshed_timestamp_seconds", Help: "When the gauges of queues were last read from the store.",
		}),
		states: prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: "penstock_queues_in_state", Help: "How many queues do what, of all there are."},
			[]string{"state"},
		),
		drainers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_drainers", Help: "How many drainers asked the store for jobs in the last 10 s.",
		}),
		audit: newAuditDrops(),
		ahead: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_store_clock_ahead_seconds",
			Help: "How far the clock by which jobs are paced is ahead of that of the store's host.",
		}),
		jumped: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_store_clock_jumped",
			Help: "1 for a minute after the clock of the store's host jumped by 5 s or more.",
		}),
		shown: map[string]bool{},
		rare:  map[string]rarity{},
	}
	if err := register(reg, g.vecs()...); err != nil {
		return nil, err
	}
	return g, register(
		reg, g.ahead, g.jumped, g.states, g.drainers, g.used, g.stop, g.queues, g.unseen, g.looked, g.audit.dropped,
	)
}

// maxSurveyAge is how old a Survey may be: what is older was read of a store that has not answered since.
const maxSurveyAge = 30 * time.Second

// measured is what Gauges look at, beside a Survey of it.
type measured interface {
	queue.Watch
	queue.Store
	auditLog
}

// Run refreshes until ctx ends, by a Survey that is run by somebody else. Every is the time between two looks, 0 for
// the default.
func (g *Gauges) Run(
	ctx context.Context, engine measured, s *survey.Survey, every time.Duration, log *slog.Logger,
) error {
	if every <= 0 {
		every = DefaultRefresh
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for failing := false; ; {
		err := g.look(ctx, engine, s)
		if err == nil {
			err = g.audit.look(ctx, engine, log)
		}
		if err != nil && ctx.Err() == nil && !failing { // once, not at every look
			log.Warn("gauges cannot be refreshed", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (g *Gauges) look(ctx context.Context, engine measured, s *survey.Survey) error {
	if s.Latest().At.IsZero() { // nobody has read yet
		if err := s.Read(ctx); err != nil {
			return err
		}
	}
	if age := time.Since(s.Latest().At); age > maxSurveyAge {
		return fmt.Errorf("the queues were last read %v ago", age.Round(time.Second))
	}
	return g.Refresh(ctx, engine, s.Latest().Rows())
}

// Refresh looks at the queues once; rows are all of them by name. After an error the gauges are as they were.
func (g *Gauges) Refresh(ctx context.Context, engine measured, rows []*survey.Row) error {
	totals, err := engine.Totals(ctx)
	if err != nil {
		return err
	}
	space, err := engine.Space(ctx)
	if err != nil {
		return err
	}
	drainers, err := engine.Drainers(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	names, all := g.choose(rows, now)
	infos, err := engine.GetMany(ctx, names)
	if err != nil {
		return err
	}
	g.together(&all, now)
	rest := totals
	present := make(map[string]bool, len(infos))
	for i := range infos {
		info := &infos[i]
		present[info.Spec.Name] = true
		g.set(info, now)
		rest.Waiting -= info.Waiting
		rest.Scheduled -= info.Scheduled
		rest.Leased -= info.Leased
		rest.Held -= info.Held
		rest.Deferred -= info.Deferred
		rest.Dead -= info.Dead
	}
	for name := range g.shown {
		if !present[name] {
			g.forget(name)
		}
	}
	g.shown = present
	g.drainers.Set(float64(len(drainers.Seen)))
	g.ahead.Set(drainers.Clock.Ahead.Seconds())
	jumped := 0.
	if drainers.Jumping() {
		jumped = 1
	}
	g.jumped.Set(jumped)
	if totals.Queues > int64(len(infos)) {
		// The totals are a little older than the list, so the difference may be
		// slightly off, and must not be shown as negative.
		g.jobsIn(Other, &rest)
	} else {
		g.jobs.DeletePartialMatch(prometheus.Labels{"queue": Other})
	}
	g.queues.Set(float64(totals.Queues))
	g.used.Set(float64(space.Used))
	g.stop.Set(orNoBound(space.Stop, space.Limit == 0))
	g.looked.Set(float64(now.UnixMilli()) / 1000)
	return nil
}

func orNoBound(n int64, none bool) float64 {
	if none {
		return math.Inf(1)
	}
	return float64(n)
}

func perSecond(r leaky.Rate) float64 {
	if r.Unlimited() {
		return math.Inf(1)
	}
	return r.PerSecond()
}
