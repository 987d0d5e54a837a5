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

// DefaultRefresh is the interval at which Gauges reads the queues.
const DefaultRefresh = 10 * time.Second

// Gauges exports the state of the queues as of the last look. The first queues by name have series of their own. So do
// other queues in trouble, which a Survey of all queues finds. The rest share one sum. A look reads only the queues
// with series and the totals, however many queues there are.
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

// NewGauges registers gauges for Run or Refresh to set.
func NewGauges(reg prometheus.Registerer, maxQueues int) (*Gauges, error) {
	if maxQueues <= 0 {
		maxQueues = DefaultMaxQueues
	}
	g := &Gauges{
		queueGauges: newQueueGauges(nil),
		most:        maxQueues,
		used: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_store_used_bytes", Help: "Bytes used in the store; with several Redis servers, in the fullest one.",
		}),
		stop: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_store_limit_bytes",
			Help: "Used bytes at which the store accepts no new jobs; +Inf if unknown. Deliveries continue.",
		}),
		queues: prometheus.NewGauge(prometheus.GaugeOpts{Name: "penstock_queues", Help: "Number of queues."}),
		unseen: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_queues_unseen",
			Help: "Number of queues in trouble without series of their own, because the limit is reached.",
		}),
		looked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_refreshed_timestamp_seconds", Help: "Time at which the queue gauges were last read from the store.",
		}),
		states: prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: "penstock_queues_in_state", Help: "Number of queues in each state."},
			[]string{"state"},
		),
		drainers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_drainers", Help: "Number of drainers that asked the store for jobs in the last 10 s.",
		}),
		audit: newAuditDrops(),
		ahead: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_store_clock_ahead_seconds",
			Help: "Seconds by which the clock that paces jobs is ahead of the store host's clock.",
		}),
		jumped: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "penstock_store_clock_jumped",
			Help: "1 for a minute after the store host's clock jumped by 5 s or more.",
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

// maxSurveyAge is the maximum age of a Survey. If it is older, the store has stopped answering.
const maxSurveyAge = 30 * time.Second

// measured is the part of an engine that Gauges reads.
type measured interface {
	queue.Watch
	queue.Store
	auditLog
}

// Run refreshes the gauges until ctx ends. The caller runs the Survey. every is the interval; 0 is the default.
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
		if err != nil && ctx.Err() == nil && !failing { // log only the first of several failures
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
	if s.Latest().At.IsZero() { // the survey has not read yet
		if err := s.Read(ctx); err != nil {
			return err
		}
	}
	if age := time.Since(s.Latest().At); age > maxSurveyAge {
		return fmt.Errorf("the queues were last read %v ago", age.Round(time.Second))
	}
	return g.Refresh(ctx, engine, s.Latest().Rows())
}

// Refresh sets the gauges once. rows are all queues, sorted by name. On an error the gauges keep their values.
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
	outlooks := make(map[string]*survey.Outlook, len(rows))
	for _, r := range rows {
		outlooks[r.Name] = r.Outlook
	}
	rest := totals
	present := make(map[string]bool, len(infos))
	for i := range infos {
		info := &infos[i]
		present[info.Spec.Name] = true
		g.set(info, now)
		g.outlook(info.Spec.Name, outlooks[info.Spec.Name], info.Now)
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
		// The totals are a little older than the list, so the difference may be slightly wrong, even negative;
		// jobsIn cuts it off at 0.
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
