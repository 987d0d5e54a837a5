package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/replay"
	"github.com/penstock/penstock/leaky"
)

// What a replay takes at most. What is more is replayed where the log is, by penstock replay.
const (
	maxReplayed      = 64 << 20 // bytes of the log, unpacked
	maxReplayedLines = 1_000_000
	maxReplayMemory  = 48 << 20
	maxTried         = 8 // rules and queues
	maxReplays       = 2 // that compute at a time, one of each tenant
	replayPatience   = 2 * time.Minute
	mediaLog         = "application/octet-stream"
)

// replayLog tells what rules and queues would have done with the requests of a log, which is the body. It is read as it
// comes, and nothing of it is kept.
func (h *handler) replayLog(w http.ResponseWriter, r *http.Request) {
	report, p := h.replay(w, r)
	if p != nil {
		unread(w, r)
		p.write(w)
		return
	}
	h.writeJSON(w, r, http.StatusOK, report)
}

func (h *handler) replay(w http.ResponseWriter, r *http.Request) (*replay.Report, *Problem) {
	if r.Header.Get("Content-Type") != mediaLog { // a web page may send text without being asked for leave
		return nil, badMedia("must be " + mediaLog + ", whatever the format of the log")
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
	// errors: there is no connection to wait for
	_ = rc.SetReadDeadline(deadline)
	_ = rc.SetWriteDeadline(deadline.Add(h.o.AnswerTimeout))
	ctx, cancel := h.watched(r.Context())
	defer cancel()
	ctx, cancel = context.WithDeadline(ctx, deadline)
	defer cancel()
	ctx, cancel = h.untilStop(ctx)
	defer cancel()

	log := &received{r: r.Body, ctx: ctx, turns: h.replays, who: h.tenant(r)}
	if err := log.enter(); err == nil {
		defer log.leave()
	}
	charged := charge{account: h.account(r)}
	defer charged.free()
	o.Limits = replay.Limits{Bytes: maxReplayed, Lines: maxReplayedLines, Hold: func(n int64) error {
		if n > maxReplayMemory {
			return tooLong("has too many keys or waiting jobs to be replayed here")
		}
		if p := charged.take(n); p != nil {
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

// notReplayed says why a log was not.
func (h *handler) notReplayed(ctx context.Context, w http.ResponseWriter, log *received, err error) *Problem {
	var p *Problem
	var long *replay.TooLong
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &long):
		return tooLong(long.Error())
	case h.o.Stopping.Err() != nil:
		return &Problem{
			Reason: ReasonStopping, RetryAfter: retryUnavailable, Detail: "this server is stopping; send it again",
		}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &Problem{Reason: ReasonBodyTimeout, Detail: "the log was not replayed in " + replayPatience.String()}
	case log.err != nil:
		return bodyProblem(log.err)
	}
	if p := lost(ctx, w); p != nil {
		return p
	}
	return &Problem{Reason: ReasonInvalidRequest, Detail: clip.Text(withoutFlags(err), 400)}
}

var flags = regexp.MustCompile(`--(time|cost|format|key|rule|queue)\b(?:-(format))?`)

// withoutFlags is an error of a replay without the flags of the command: the parameters have their names.
func withoutFlags(err error) string {
	return flags.ReplaceAllStringFunc(err.Error(), func(flag string) string {
		return strings.ReplaceAll(strings.TrimPrefix(flag, "--"), "-", "_")
	})
}

func tooLong(how string) *Problem {
	return &Problem{
		Reason: ReasonTooLarge, Limit: maxReplayed,
		Detail: "the log " + how + "; replay it where it is: penstock replay --log FILE",
	}
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
				return badField("queue", withoutFlags(err))
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
