package api

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// Options are the settings of the API. Zero fields mean what is said beside them.
type Options struct {
	// Auth says who asks, and is run by somebody else. Nil: nobody is asked, and everybody may do everything.
	Auth *auth.Authority
	// Prefix is what a proxy in front has before every path, such as /penstock. Empty is none.
	Prefix string
	// Rule tells a rule as the engine goes by it when it is asked, and its revision; one that remembers rules, say. Nil
	// asks the engine each time.
	Rule func(ctx context.Context, name string) (rule rules.Rule, revision int64, err error)
	// EgressAllow is where targets may be besides at public addresses, to be told with the store.
	EgressAllow []string
	// Overflow says that the engine puts jobs that may wait on an overflow. Without one,
	// jobs and specs that ask for it are refused.
	Overflow bool
	// OverflowState is asked for readiness. Nil: the overflow is always there.
	OverflowState OverflowState
	// Pull hands out the jobs of pull queues, and is run by somebody else. Nil: nobody can ask
	// for them.
	Pull *pull.Dispatcher
	// Turns lets requests wait for their turn in a pull queue, and is closed by somebody else. Nil: nobody can.
	Turns *pull.QueueTurns
	// Waits lets takes wait for what a rule refuses now. Nil is one over the engine.
	Waits TakeWaiter
	// Pace returns err if most of the jobs that are pulled are late, and lacks if more than 1% are released. Readiness
	// shows both. Nil: neither is known.
	Pace func() (lacks, err error)
	// Survey reads all queues for those who look at them, and is run by somebody else. Nil: they are read once, when
	// somebody asks first.
	Survey *survey.Survey
	// ValidateTarget checks the deliver part of a queue's spec before it is stored. Nil takes any.
	ValidateTarget func(queue string, target json.RawMessage) error
	// Metrics serves GET /metrics to callers who may see everything. Nil: there is no such page.
	Metrics http.Handler
	// OwnMetrics serves it to all others: the queues and rules that a caller sees, with the label app unless that is
	// empty. It goes with Metrics.
	OwnMetrics func(app string, sees func(name string) bool) http.Handler
	// Draining turns readiness off while requests are still served, so that no more are sent here. Nil: never.
	Draining context.Context
	// Stopping ends streams and turns readiness off while the server shuts down. Nil: never.
	Stopping context.Context
	// Logger is told of errors that are nobody's request's fault. Nil discards.
	Logger *slog.Logger

	// Access gets a record of each request. Nil: none is kept.
	Access *slog.Logger
	// Decisions is told of jobs that are refused or deferred. Nil: nobody is.
	Decisions *ops.Decisions

	// BodyTimeout is how long a stream may go without a job: silent, with a line that does not end, or with
	// lines that are none. 0 means 60 s.
	BodyTimeout time.Duration
	// AnswerTimeout is how long a client may take to read a piece of the answer. 0 means 30 s.
	AnswerTimeout time.Duration
	// CheckTimeout bounds what /readyz asks of the engine. 0 means 1 s.
	CheckTimeout time.Duration
	// MaxStreams is how many streams may be open at once. 0 means 256.
	MaxStreams int
	// MaxWaits is how many requests may wait at once, of which one client has at most half. 0 means 4,096.
	MaxWaits int
	// Hanging is which queue of a drainer in this process hangs, nil if none does. Nil: there is no such drainer.
	Hanging func() error
	// DrainerPace is Pace of a drainer in this process. Nil: there is no such drainer.
	DrainerPace func() (lacks, err error)
	// Memory is what requests are charged to that come without an account; see ops.ClientOf. Nil is one of its own.
	Memory *ops.Budget
}

func (o *Options) normalize() {
	o.BodyTimeout = cmp.Or(o.BodyTimeout, time.Minute)
	o.AnswerTimeout = cmp.Or(o.AnswerTimeout, 30*time.Second)
	o.CheckTimeout = cmp.Or(o.CheckTimeout, time.Second)
	o.MaxStreams = cmp.Or(o.MaxStreams, 256)
	o.MaxWaits = cmp.Or(o.MaxWaits, 4096)
	if o.Memory == nil {
		o.Memory = ops.NewBudget(ops.DefaultMemory)
	}
	if o.ValidateTarget == nil {
		o.ValidateTarget = func(string, json.RawMessage) error { return nil }
	}
	if o.Draining == nil {
		o.Draining = context.Background()
	}
	if o.Stopping == nil {
		o.Stopping = context.Background()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// handler holds what the requests share.
type handler struct {
	engine   queue.Engine
	o        Options
	requests *requestIDs
	streams  *ops.Budget
	waits    *ops.Budget
	noted    noted
	refusals *refusals
	puts     nameLocks // of who asks in the name of an app that has limits
	open     appPlaces
	store    shared[struct{}, wire.Store]
	looks    looks
	replays  *turns // those that compute
	tops     *tops
	receipts *receipts
}

// API serves requests. It is safe for use by many goroutines.
type API struct {
	http.Handler
	refusals *refusals
	access   *slog.Logger
}

// Close records what was refused and is not recorded yet, for as long as the store may take for one entry. It is called
// when the last request has ended, before the engine is closed.
func (a *API) Close() { a.refusals.stop() }

// New returns the API over an engine. It starts nothing and does not close the engine.
func New(engine queue.Engine, o Options) *API {
	o.normalize()
	if o.Rule == nil {
		o.Rule = func(ctx context.Context, name string) (rules.Rule, int64, error) {
			info, err := engine.Rule(ctx, name)
			return info.Rule, info.Revision, err
		}
	}
	if o.Waits == nil {
		o.Waits = admission.New(engine, admission.Options{Logger: o.Logger})
	}
	if o.Survey == nil {
		o.Survey = survey.New(engine, survey.Options{})
	}
	tops := &tops{rule: o.Rule, now: time.Now}
	h := &handler{
		engine: &counting{&recorded{engine, o.Logger}, tops}, tops: tops, o: o, requests: newRequestIDs(),
		streams: ops.NewBudget(int64(o.MaxStreams)), waits: ops.NewBudget(int64(o.MaxWaits)),
		replays: newTurns(maxReplays), receipts: newReceipts(time.Now),
	}
	h.refusals = &refusals{store: engine, logger: o.Logger}
	return &API{h.dispatch(), h.refusals, o.Access}
}

// Beside returns what of the API is served by a listener of its own: health and metrics, and nothing else.
func Beside(full http.Handler, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz"} {
		mux.Handle("GET "+path, full)
	}
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("/", notFound)
	return mux
}
