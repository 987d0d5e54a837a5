package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/replay"
	"github.com/penstock/penstock/leaky"
)

// What a replay takes at most. What is longer is replayed where the log is, by penstock replay.
const (
	maxReplayed      = 64 << 20 // bytes of the log, unpacked
	maxReplayedLines = 1_000_000
	maxTried         = 8 // rules and queues
	maxReplays       = 2 // at a time: they are nothing but arithmetic
	replayPatience   = 2 * time.Minute
	mediaLog         = "application/octet-stream"
	replayPath       = "/v1/replay"
)

// replayLog tells what rules and queues would have done with the requests of a log, which is the body. It is read as it
// comes, and nothing of it is kept.
func (h *handler) replayLog(w http.ResponseWriter, r *http.Request) {
	p := requireLog(r)
	var o replay.Options
	if p == nil {
		o, p = h.replayOptions(r)
	}
	if p != nil {
		unread(w, r)
		p.write(w)
		return
	}
	leave, p := h.openStream(r, 0)
	if p != nil {
		unread(w, r)
		p.write(w)
		return
	}
	defer leave()
	deadline := time.Now().Add(replayPatience)
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(deadline) // of what has none there is nobody to wait for
	_ = rc.SetWriteDeadline(deadline.Add(h.o.AnswerTimeout))
	ctx, cancel := context.WithDeadline(r.Context(), deadline)
	defer cancel()
	ctx, cancel = h.untilStop(ctx)
	defer cancel()
	select {
	case h.replays <- struct{}{}:
		defer func() { <-h.replays }()
	case <-ctx.Done():
	}
	body, charged := &received{r: r.Body}, charge{account: h.account(r)}
	defer charged.free()
	var over *Problem
	o.Limits = replay.Limits{Bytes: maxReplayed, Lines: maxReplayedLines, Hold: func(n int64) error {
		if over = charged.take(n); over != nil {
			return over
		}
		return nil
	}}
	o.Logs = []replay.Log{{Name: r.URL.Query().Get("name"), In: body}}
	report, err := replay.Run(ctx, o)
	switch long := (*replay.TooLong)(nil); {
	case err == nil:
		h.writeJSON(w, r, http.StatusOK, report)
		return
	case over != nil:
		p = over
	case errors.As(err, &long):
		p = &Problem{
			Reason: ReasonTooLarge, Limit: maxReplayed,
			Detail: "the log " + long.Error() + "; replay it where it is: penstock replay --log FILE",
		}
	case h.o.Stopping.Err() != nil:
		p = &Problem{Reason: ReasonStopping, RetryAfter: retryUnavailable, Detail: "this server is stopping; send it again"}
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && r.Context().Err() == nil:
		p = &Problem{Reason: ReasonBodyTimeout, Detail: "the log was not replayed in " + replayPatience.String()}
	case body.err != nil:
		p = bodyProblem(body.err)
	default:
		p = &Problem{Reason: ReasonInvalidRequest, Detail: queueShorten(err.Error())}
	}
	unread(w, r)
	p.write(w)
}

// requireLog refuses a body that is not said to be bytes: a web page may send text without being asked for leave.
func requireLog(r *http.Request) *Problem {
	if r.Header.Get("Content-Type") != mediaLog {
		return badMedia("must be " + mediaLog + ", whatever the format of the log")
	}
	return nil
}

// received is a body that remembers why it broke off.
type received struct {
	r   io.Reader
	err error
}

func (b *received) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// replayOptions reads what is to be tried, and how.
func (h *handler) replayOptions(r *http.Request) (o replay.Options, p *Problem) {
	q := r.URL.Query()
	for _, field := range []string{"name", "key", "cost", "format", "time", "time_format", "timezone", "spread"} {
		if len(q[field]) > 1 {
			return o, &Problem{Reason: ReasonDuplicateField, Field: field, Detail: "is given twice"}
		}
	}
	if n := len(q["rule"]) + len(q["queue"]); n == 0 || n > maxTried {
		return o, badField("rule", fmt.Sprintf("%d rules and queues are to be tried; name 1 to %d", n, maxTried))
	}
	o = replay.Options{
		Format: q.Get("format"), Time: q.Get("time"), TimeFormat: q.Get("time_format"), Cost: q.Get("cost"),
	}
	if f := o.Format; f != "" && !slices.Contains([]string{replay.Combined, replay.NDJSON, replay.CSV}, f) {
		return o, badField("format", shorten(f)+" must be combined, ndjson or csv")
	}
	var err error
	if spread := q.Get("spread"); spread != "" {
		if o.Spread, err = strconv.ParseBool(spread); err != nil {
			return o, badField("spread", shorten(spread)+" must be true or false")
		}
	}
	if o.Zone, err = time.LoadLocation(q.Get("timezone")); err != nil {
		return o, badField("timezone", shorten(q.Get("timezone"))+" is no zone of the IANA database, such as Europe/Berlin")
	}
	if p := h.triedRules(r.Context(), q, &o); p != nil {
		return o, p
	}
	return o, h.triedQueues(r.Context(), q["queue"], &o)
}

// triedRules are those that are named, and those that are written out.
func (h *handler) triedRules(ctx context.Context, q url.Values, o *replay.Options) *Problem {
	var key *string
	if q.Has("key") {
		text := q.Get("key")
		key = &text
	}
	for _, text := range q["rule"] {
		if replay.IsRule(text) {
			rule, err := replay.ReadRule(text, key)
			if err != nil {
				return badField("rule", shorten(text)+": "+err.Error())
			}
			o.Rules = append(o.Rules, rule)
			continue
		}
		if !may(ctx, auth.View, text) {
			return unknownRule(text)
		}
		info, err := h.engine.Rule(ctx, text)
		if err != nil {
			p := refusedRule(err, text)
			h.logInternal(p, err, text)
			return p
		}
		rule, keyed := replay.Try(info.Rule, text, key)
		if !keyed {
			return badField("key", "is missing: the rule "+text+" counts by "+shorten(info.Key)+
				", which is of jobs; say by what of the log, such as remote_addr")
		}
		o.Rules = append(o.Rules, rule)
	}
	return nil
}

// triedQueues are those that are named, and those that are written out.
func (h *handler) triedQueues(ctx context.Context, texts []string, o *replay.Options) *Problem {
	for _, text := range texts {
		if strings.Contains(text, "=") { // which no name has
			q, err := replay.ReadQueue(text)
			if err != nil {
				return badField("queue", strings.TrimPrefix(err.Error(), "--queue "))
			}
			o.Queues = append(o.Queues, q)
			continue
		}
		if !may(ctx, auth.View, text) {
			return unknownQueue(text)
		}
		info, err := h.engine.Get(ctx, text)
		if err != nil {
			p := refused(err)
			if p.Reason == ReasonUnknownQueue {
				p = unknownQueue(text)
			}
			h.logInternal(p, err, text)
			return p
		}
		if info.Spec.Rate == leaky.Unlimited {
			return badField("queue", text+" has no rate, so nothing waits in it; try one such as rate=14/s capacity=1000")
		}
		o.Queues = append(o.Queues, replay.Queue{Spec: info.Spec, Label: text})
	}
	return nil
}
