package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/replay"
	"github.com/penstock/penstock/leaky"
)

// Limits of a replay. Larger logs are replayed locally, with penstock replay.
const (
	maxReplayed      = 64 << 20 // bytes of the unpacked log
	maxReplayedLines = 1_000_000
	maxReplayMemory  = 48 << 20
	maxTried         = 8 // rules and queues together
	maxReplays       = 2 // computing at a time, one of each tenant
	replayPatience   = 2 * time.Minute
)

// replayLog answers what rules and queues would have done with the requests of a log, which is the body. The log is
// read as it arrives, and not kept.
func (h *handler) replayLog(w http.ResponseWriter, r *http.Request) {
	report, p := h.replay(w, r)
	if p != nil {
		httpio.LeaveUnread(w, r)
		p.Write(w)
		return
	}
	h.writeJSON(w, r, http.StatusOK, report)
}

func (h *handler) replay(w http.ResponseWriter, r *http.Request) (*replay.Report, *httpio.Problem) {
	if r.Header.Get("Content-Type") != httpio.MediaLog { // browsers let any web page send text
		return nil, httpio.BadMedia("must be " + httpio.MediaLog + ", whatever the format of the log")
	}
	o, p := h.replayOptions(r)
	if p != nil {
		return nil, p
	}
	leave, p := h.openStream(r, 0)
	if p != nil {
		return nil, p
	}
	defer leave()
	deadline := time.Now().Add(replayPatience)
	rc := http.NewResponseController(w)
	// Errors mean that there is no connection.
	_ = rc.SetReadDeadline(deadline)
	_ = rc.SetWriteDeadline(deadline.Add(h.o.AnswerTimeout))
	ctx, cancel := h.watched(r.Context())
	defer cancel()
	ctx, cancel = context.WithDeadline(ctx, deadline)
	defer cancel()
	ctx, cancel = h.untilStop(ctx)
	defer cancel()

	log := &received{r: r.Body, ctx: ctx, places: h.replays, tenant: h.tenant(r)}
	if err := log.enter(); err == nil {
		defer log.leave()
	}
	charged := httpio.NewCharge(h.account(r))
	defer charged.Free()
	o.Limits = replay.Limits{Bytes: maxReplayed, Lines: maxReplayedLines, Hold: func(n int64) error {
		if n > maxReplayMemory {
			return tooLong("has too many keys or waiting jobs for this server")
		}
		if p := charged.Raise(n); p != nil {
			return p
		}
		return nil
	}}
	o.Logs = []replay.Log{{Name: cmp.Or(r.URL.Query().Get("name"), "the log"), In: log}}
	report, err := replay.Run(ctx, o)
	if err == nil {
		return report, nil
	}
	return nil, h.notReplayed(ctx, w, log, err)
}

// notReplayed returns the problem for a log that could not be replayed.
func (h *handler) notReplayed(ctx context.Context, w http.ResponseWriter, log *received, err error) *httpio.Problem {
	var p *httpio.Problem
	var long *replay.TooLong
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &long):
		return tooLong(long.Error())
	case h.o.Stopping.Err() != nil:
		return &httpio.Problem{
			Reason: httpio.ReasonStopping, RetryAfter: httpio.RetryUnavailable, Detail: "this server is stopping; send it again",
		}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &httpio.Problem{
			Reason: httpio.ReasonBodyTimeout, Detail: "the replay took longer than " + replayPatience.String(),
		}
	case log.err != nil:
		return httpio.BodyProblem(log.err)
	}
	if p := lost(ctx, w); p != nil {
		return p
	}
	return &httpio.Problem{Reason: httpio.ReasonInvalidRequest, Detail: clip.Text(withoutFlags(err), 400)}
}

var flags = regexp.MustCompile(`--(time|cost|format|key|rule|queue)\b(?:-(format))?`)

// withoutFlags returns an error's text with the command's flags replaced by the parameters of the same name.
func withoutFlags(err error) string {
	return flags.ReplaceAllStringFunc(err.Error(), func(flag string) string {
		return strings.ReplaceAll(strings.TrimPrefix(flag, "--"), "-", "_")
	})
}

func tooLong(how string) *httpio.Problem {
	return &httpio.Problem{
		Reason: httpio.ReasonTooLarge, Limit: maxReplayed,
		Detail: "the log " + how + "; replay it locally with penstock replay --log FILE",
	}
}

// replayOptions reads the parameters of a replay.
func (h *handler) replayOptions(r *http.Request) (o replay.Options, p *httpio.Problem) {
	q := r.URL.Query()
	if p := httpio.Once(q, "name", "key", "cost", "format", "time", "time_format", "timezone", "spread"); p != nil {
		return o, p
	}
	if n := len(q["rule"]) + len(q["queue"]); n == 0 || n > maxTried {
		return o, httpio.BadField("rule", fmt.Sprintf("%d rules and queues are given; give 1 to %d", n, maxTried))
	}
	o = replay.Options{
		Format: q.Get("format"), Time: q.Get("time"), TimeFormat: q.Get("time_format"), Cost: q.Get("cost"),
	}
	if f := o.Format; f != "" && !slices.Contains([]string{replay.Combined, replay.NDJSON, replay.CSV}, f) {
		return o, httpio.BadField("format", httpio.Shorten(f)+" must be combined, ndjson or csv")
	}
	if o.Spread, p = httpio.Bool(q, "spread"); p != nil {
		return o, p
	}
	var err error
	if o.Zone, err = time.LoadLocation(q.Get("timezone")); err != nil {
		return o, httpio.BadField(
			"timezone", httpio.Shorten(q.Get("timezone"))+" is not a time zone of the IANA database, such as Europe/Berlin",
		)
	}
	if p := h.triedRules(r.Context(), q, &o); p != nil {
		return o, p
	}
	return o, h.triedQueues(r.Context(), q["queue"], &o)
}

// triedRules reads the rules to try: existing ones by name, and definitions.
func (h *handler) triedRules(ctx context.Context, q url.Values, o *replay.Options) *httpio.Problem {
	var key *string
	if q.Has("key") {
		text := q.Get("key")
		key = &text
	}
	for _, text := range q["rule"] {
		if replay.IsRule(text) {
			rule, err := replay.ReadRule(text, key)
			if err != nil {
				return httpio.BadField("rule", httpio.Shorten(text)+": "+err.Error())
			}
			o.Rules = append(o.Rules, rule)
			continue
		}
		if !may(ctx, auth.View, text) {
			return httpio.UnknownRule(text)
		}
		info, err := h.engine.Rule(ctx, text)
		if err != nil {
			p := ruleProblem(err, text)
			h.logInternal(p, err, text)
			return p
		}
		rule, keyed := replay.Try(info.Rule, text, key)
		if !keyed {
			return httpio.BadField("key", "is missing: the rule "+text+" counts by "+httpio.Shorten(info.Key)+
				", a field of jobs; name a field of the log, such as remote_addr")
		}
		o.Rules = append(o.Rules, rule)
	}
	return nil
}

// triedQueues reads the queues to try: existing ones by name, and definitions.
func (h *handler) triedQueues(ctx context.Context, texts []string, o *replay.Options) *httpio.Problem {
	for _, text := range texts {
		if strings.Contains(text, "=") { // names contain no =
			q, err := replay.ReadQueue(text)
			if err != nil {
				return httpio.BadField("queue", withoutFlags(err))
			}
			o.Queues = append(o.Queues, q)
			continue
		}
		if !may(ctx, auth.View, text) {
			return httpio.UnknownQueue(text)
		}
		info, err := h.engine.Get(ctx, text)
		if err != nil {
			p := httpio.ProblemOf(err)
			if p.Reason == httpio.ReasonUnknownQueue {
				p = httpio.UnknownQueue(text)
			}
			h.logInternal(p, err, text)
			return p
		}
		if info.Spec.Rate == leaky.Unlimited {
			return httpio.BadField("queue", text+" has no rate, so nothing waits in it; try one such as rate=14/s capacity=1000")
		}
		o.Queues = append(o.Queues, replay.Queue{Spec: info.Spec, Label: text})
	}
	return nil
}

// replayPlaces limits how many replays compute at a time: each tenant has at most one.
type replayPlaces struct {
	places chan struct{}
	own    httpio.NameLocks
}

func newReplayPlaces(most int) *replayPlaces { return &replayPlaces{places: make(chan struct{}, most)} }

// enter waits for a place, until ctx ends. An empty tenant is not limited to one.
func (p *replayPlaces) enter(ctx context.Context, tenant string) (leave func(), err error) {
	own := func() {}
	if tenant != "" {
		if own, err = p.own.Lock(ctx, tenant); err != nil {
			return nil, err
		}
	}
	select {
	case p.places <- struct{}{}:
		return func() { <-p.places; own() }, nil
	case <-ctx.Done():
		own()
		return nil, ctx.Err()
	}
}

// tenant returns the app of a request, or its address without an app. It is empty for requests without an account.
func (h *handler) tenant(r *http.Request) string {
	if app := appOfCaller(r.Context()); app != nil {
		return "app " + app.Name
	}
	return h.account(r).Client()
}

// received is a log that is being received. While it waits for the client, another replay may compute.
type received struct {
	r      io.Reader
	ctx    context.Context
	places *replayPlaces
	tenant string
	give   func() // gives the place back; nil without a place
	err    error  // why the log broke off
}

func (b *received) enter() (err error) {
	b.give, err = b.places.enter(b.ctx, b.tenant)
	return err
}

func (b *received) leave() {
	if b.give != nil {
		b.give()
		b.give = nil
	}
}

func (b *received) Read(p []byte) (int, error) {
	b.leave()
	n, err := b.r.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	if err := b.enter(); err != nil {
		return n, err
	}
	return n, err
}
