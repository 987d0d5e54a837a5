package api

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/penstock/penstock/admission"
	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/proxy"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// Options are the settings of the API. Zero fields have the defaults named here. The API neither starts nor closes what
// the fields point to.
type Options struct {
	// Auth identifies callers. Nil disables authentication: anyone who can reach the API has full access.
	Auth *auth.Authority
	// Prefix is the path prefix that a proxy in front removes, such as /penstock. Default: none.
	Prefix string
	// Rule returns a rule as the engine applies it, and its revision. It may cache. Nil asks the engine each time.
	Rule func(ctx context.Context, name string) (rule rules.Rule, revision int64, err error)
	// EgressAllow lists the addresses that targets may have besides public ones. The API only shows it, with the store.
	EgressAllow []string
	// Overflow says that the engine has an overflow. Without an overflow, jobs and specs that ask for it are refused.
	Overflow bool
	// OverflowState reports the state of the overflow, for readiness. Nil: always available.
	OverflowState OverflowState
	// Pull hands out the jobs of pull queues. Nil: no pull queues.
	Pull *pull.Dispatcher
	// Turns lets requests wait for their turn in a pull queue. Nil: no turns.
	Turns *pull.QueueTurns
	// Proxy passes calls on to the receivers of pull queues. Nil: no calls.
	Proxy *proxy.Proxy
	// Waits lets takes wait while a rule refuses them. Nil: a new waiter over the engine.
	Waits TakeWaiter
	// Pace returns err if most pulled jobs are late, and lacks if more than 1% are released. Readiness shows both. Nil:
	// unknown.
	Pace func() (lacks, err error)
	// Survey reads all queues, for overviews and events. Nil: a new Survey, which reads once, on the first request.
	Survey *survey.Survey
	// ValidateTarget checks the deliver part of a queue's spec before it is stored. Nil accepts any.
	ValidateTarget func(queue string, target json.RawMessage) error
	// Metrics serves GET /metrics to callers who may see everything. Nil: no such page.
	Metrics http.Handler
	// OwnMetrics serves GET /metrics to all other callers: the queues and rules for which sees is true, with the label app
	// unless that is empty. It is required if Metrics is set.
	OwnMetrics func(app string, sees func(name string) bool) http.Handler
	// Draining is done before the server stops: /readyz then fails, so that load balancers send no more, but requests are
	// still served. Nil: never.
	Draining context.Context
	// Stopping ends streams and readiness when the server shuts down. Nil: never.
	Stopping context.Context
	// Clock advances the clock of a server for tests. Nil: the clock cannot be advanced.
	Clock func(ctx context.Context, by time.Duration) (now time.Time, err error)
	// Logger gets the errors that are not a client's fault. Nil discards them.
	Logger *slog.Logger
	// RequestLog gets a line for each request. Nil: not logged.
	RequestLog *slog.Logger
	// Decisions logs jobs that are refused or deferred. Nil: not logged.
	Decisions *ops.Decisions

	// BodyTimeout is how long a stream may go without a valid job. Default: 60 s.
	BodyTimeout time.Duration
	// AnswerTimeout is how long a client may take to read a part of the answer. Default: 30 s.
	AnswerTimeout time.Duration
	// CheckTimeout bounds the checks of /readyz. Default: 1 s.
	CheckTimeout time.Duration
	// MaxStreams is the maximum number of open streams. Default: 256.
	MaxStreams int
	// MaxWaits is the maximum number of waiting requests; one client may have half of them. Default: 4,096.
	MaxWaits int
	// Hanging returns an error if a receiver makes the drainer in this process hang. Nil: no such drainer.
	Hanging func() error
	// DrainerPace is Pace for the drainer in this process. Nil: no such drainer.
	DrainerPace func() (lacks, err error)
	// Memory pays for requests that have no account of their own; see ops.ClientOf. Nil: a new budget.
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

// handler is the state that all requests share.
type handler struct {
	engine   queue.Engine
	o        Options
	requests *httpio.RequestIDs
	streams  *ops.Budget
	waits    *ops.Budget
	calls    *ops.Budget
	warned   warnedQueues
	refusals *refusals
	puts     httpio.NameLocks // held by app; see lockLimits
	open     openCounts
	store    httpio.Shared[struct{}, wire.Store]
	ready    httpio.Shared[struct{}, wire.Readiness]
	findings lastFindings
	caches   caches
	replays  *replayPlaces
	tops     *tops
	receipts *receipts
}

// API serves requests. It is safe for use by many goroutines.
type API struct {
	http.Handler
	refusals   *refusals
	requestLog *slog.Logger
}

// Close records the remaining refusals. It waits at most as long as the store may take for one entry. Call it after the
// last request, before the engine is closed.
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
		engine: &counting{&changeLog{engine, o.Logger}, tops}, tops: tops, o: o, requests: httpio.NewRequestIDs(),
		streams: ops.NewBudget(int64(o.MaxStreams)), waits: ops.NewBudget(int64(o.MaxWaits)), calls: ops.NewBudget(maxCalls),
		replays: newReplayPlaces(maxReplays), receipts: newReceipts(time.Now),
	}
	h.refusals = &refusals{store: engine, logger: o.Logger}
	return &API{h.dispatch(), h.refusals, o.RequestLog}
}

// Beside returns a handler that serves only health and metrics, for a listener of its own.
func Beside(full http.Handler, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz"} {
		mux.Handle("GET "+path, full)
	}
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("/", notFound)
	return mux
}

// account returns the account that pays for a request.
func (h *handler) account(r *http.Request) *ops.Account {
	if a := ops.ClientOf(r.Context()); a != nil {
		return a
	}
	return h.o.Memory.Nobody()
}

// readJSON reads a small JSON body into v. An empty body leaves v unchanged.
func (h *handler) readJSON(r *http.Request, limit int, v any) *httpio.Problem {
	return httpio.ReadJSON(r, h.account(r), limit, v)
}

func (h *handler) writeJSON(w http.ResponseWriter, r *http.Request, status int, v any) {
	httpio.WriteJSON(w, r, status, v, httpio.NewCharge(h.account(r)))
}

// fail answers with an error about a queue, or about none if name is empty.
func (h *handler) fail(w http.ResponseWriter, err error, name string) {
	p := httpio.ProblemOf(err)
	if p.Reason == httpio.ReasonUnknownQueue {
		p = httpio.UnknownQueue(name)
	}
	h.logInternal(p, err, name)
	p.Write(w)
}

// logInternal logs the error behind an internal problem, since the answer does not show it.
func (h *handler) logInternal(p *httpio.Problem, err error, name string) {
	if p.Reason == httpio.ReasonInternal {
		h.o.Logger.Error("request failed", "queue", httpio.Shorten(name), "error", err)
	}
}
