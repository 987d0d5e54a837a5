package api

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/proxy"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/unit"
)

// proxyRoute is not in the table of routes, since both method and path of a call are the receiver's.
var proxyRoute = route{"callThrough", "", httpio.ProxyPath, flows, ofQueue(auth.Produce), (*handler).callThrough}

// maxCalls is the maximum number of open calls; one client may have half of them.
const maxCalls = 20_000

const (
	headerAuthorization = "Authorization"
	// passed keeps a caller's own Authorization while its token is read from another field.
	passed = "Penstock-Passed-Authorization"
)

// serveProxy finds the queue and the token of a call, and serves it.
func (h *handler) serveProxy(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), httpio.ProxyPath), "/")
	if h.o.Proxy == nil {
		notFound(w, r)
		return
	}
	if names.Validate(name) != nil {
		unescaped, _ := url.PathUnescape(name)
		refuseCall(w, r, httpio.UnknownQueue(unescaped))
		return
	}
	r.SetPathValue("queue", name)
	placeToken(r)
	h.serve(&proxyRoute, w, r)
}

// placeToken moves a call's token to Authorization, wherever the caller's library has put it, and a caller's Authorization
// for the receiver out of the way.
func placeToken(r *http.Request) {
	own := r.Header[headerAuthorization]
	delete(r.Header, passed)
	switch token := r.Header[proxy.HeaderAuthorization]; {
	case len(token) > 0:
		r.Header[headerAuthorization] = token
		if len(own) > 0 {
			r.Header[passed] = own
		}
	case len(own) == 0:
		if key := r.Header.Get("X-Api-Key"); strings.HasPrefix(key, auth.TokenPrefix) {
			r.Header.Set(headerAuthorization, "Bearer "+key)
		}
	case len(own) == 1:
		if scheme, text, _ := strings.Cut(own[0], " "); strings.EqualFold(scheme, "Basic") {
			both, err := base64.StdEncoding.DecodeString(text)
			if _, password, ok := strings.Cut(string(both), ":"); err == nil && ok && strings.HasPrefix(password, auth.TokenPrefix) {
				r.Header.Set(headerAuthorization, "Bearer "+password)
			}
		}
	}
}

// callThrough passes a call on to the receiver of a pull queue, in its turn.
func (h *handler) callThrough(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	if own := r.Header[passed]; len(own) > 0 {
		r.Header[headerAuthorization] = own
	} else {
		delete(r.Header, headerAuthorization)
	}
	c, p := readCall(r, name)
	if p != nil {
		refuseCall(w, r, p)
		return
	}
	c.App = appNameOf(r.Context())
	free, p := h.open.open(r.Context(), "waits", limitWaits)
	if p != nil {
		refuseCall(w, r, p)
		return
	}
	defer free()
	places := h.calls.Open(h.account(r).Client())
	defer places.Close()
	if err := places.Take(1); err != nil {
		p := httpio.OverBudget(err)
		p.Detail = "too many calls are open"
		refuseCall(w, r, p)
		return
	}
	defer places.Free(1)
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex() // a receiver may answer before it has read the body
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Now().Add(c.Within + h.o.AnswerTimeout))
	ctx, unwatch := h.watched(r.Context())
	defer unwatch()
	ctx, cancel := h.untilStop(ctx)
	defer cancel()
	begun := time.Now()
	err := h.o.Proxy.Serve(ctx, w, r, c)
	switch {
	case err == nil, r.Context().Err() != nil: // nobody reads the answer
		return
	case lost(ctx, w) != nil:
		p = lost(ctx, w)
	case ctx.Err() != nil:
		p = &httpio.Problem{
			Reason: httpio.ReasonStopping, RetryAfter: httpio.RetryUnavailable,
			Detail: "this server is stopping; your call was not sent",
		}
	default:
		p = callProblem(err, c)
		h.logInternal(p, err, name)
	}
	w.Header().Set(proxy.HeaderWaited, strconv.FormatInt(time.Since(begun).Milliseconds(), 10))
	refuseCall(w, r, p)
}

// refuseCall answers a call that was not passed on, in a form that clients of other APIs understand too.
func refuseCall(w http.ResponseWriter, r *http.Request, p *httpio.Problem) {
	p.Nested = true
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(httpio.CeilDiv(p.RetryAfter, time.Millisecond), 10))
	}
	httpio.LeaveUnread(w, r)
	p.Write(w)
}

// callProblem returns the problem of a call that got no answer.
func callProblem(err error, c *proxy.Call) *httpio.Problem {
	var later *pull.Later
	var failed *proxy.Error
	var body *proxy.BodyError
	switch {
	case errors.As(err, &later):
		return &httpio.Problem{
			Reason: httpio.ReasonNoTurn, RetryAfter: max(later.In, time.Millisecond),
			Detail: "the turn of your call would not come within " + c.Within.String() + "; it was not sent; come back after " +
				"Retry-After, or wait longer with " + headerWait,
		}
	case errors.Is(err, pull.ErrCrowded), errors.Is(err, pull.ErrOverloaded):
		return &httpio.Problem{
			Reason: httpio.ReasonCrowded, RetryAfter: httpio.RetryOverloaded, Detail: "too many calls wait for their turns",
		}
	case errors.As(err, &body):
		return &httpio.Problem{Reason: httpio.ReasonBodyBroken, Detail: body.Error() + "; your call was not sent"}
	case !errors.As(err, &failed):
		return httpio.ProblemOf(err)
	case failed.Slow:
		return &httpio.Problem{
			Reason: httpio.ReasonBodyTimeout, Detail: "the body of your call did not arrive in time; the receiver has its beginning",
		}
	case failed.Outcome == proxy.Unreachable:
		return &httpio.Problem{
			Reason: httpio.ReasonUnreachable, Detail: "your call was not sent: " + failed.Error(),
		}
	case failed.Timeout:
		return &httpio.Problem{
			Reason: httpio.ReasonReceiverSlow,
			Detail: "the receiver did not answer within the target's timeout, but may have your call",
		}
	}
	return &httpio.Problem{
		Reason: httpio.ReasonReceiverBroke, Detail: "the receiver may have your call, but did not answer it: " + failed.Error(),
	}
}

// The fields by which a caller says how its call waits.
const (
	headerLane     = "Penstock-Lane"
	headerCost     = "Penstock-Cost"
	headerPriority = "Penstock-Priority"
	headerWait     = "Penstock-Wait"
	headerRetry    = "Penstock-Retry"
)

var callFields = []string{
	headerLane, headerCost, headerPriority, headerWait, headerRetry, proxy.HeaderAuthorization, passed,
}

var callMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodOptions,
}

// readCall reads a call's method, path and fields.
func readCall(r *http.Request, name string) (*proxy.Call, *httpio.Problem) {
	c := &proxy.Call{Queue: name, Query: r.URL.RawQuery}
	c.Within = defaultTurnWait
	switch {
	case !slices.Contains(callMethods, r.Method):
		return nil, &httpio.Problem{
			Reason: httpio.ReasonMethod, Detail: "calls are passed on with " + strings.Join(callMethods, ", "),
		}
	case r.Header.Get("Upgrade") != "":
		return nil, &httpio.Problem{
			Reason: httpio.ReasonUpgrade,
			Detail: "calls through the proxy cannot change the protocol, as WebSocket does; connect to the receiver itself",
		}
	case proxy.Loops(r, name):
		return nil, &httpio.Problem{
			Reason: httpio.ReasonLoop, Detail: "the target of " + name + " leads back to this proxy; correct deliver.http.url",
		}
	case r.ContentLength > proxy.MaxBody:
		return nil, httpio.TooLarge("", "the body", proxy.MaxBody)
	}
	var p *httpio.Problem
	if c.Path, p = callPath(r, name); p != nil {
		return nil, p
	}
	return c, readFields(r, c)
}

// callPath returns the path below the target's URL. It must not lead out of it.
func callPath(r *http.Request, name string) (string, *httpio.Problem) {
	path := strings.TrimPrefix(r.URL.EscapedPath(), httpio.ProxyPath+name)
	for segment := range strings.SplitSeq(path, "/") {
		plain, err := url.PathUnescape(segment)
		plain = strings.ReplaceAll(plain, `\`, "/") // some receivers take one for the other
		if err != nil || slices.ContainsFunc(strings.Split(plain, "/"), func(s string) bool { return s == "." || s == ".." }) {
			return "", &httpio.Problem{
				Reason: httpio.ReasonInvalidRequest, Detail: "the path of a call must not contain . or .. as a segment",
			}
		}
	}
	if strings.IndexFunc(r.URL.RawQuery, func(c rune) bool { return c <= ' ' || c > '~' }) >= 0 {
		return "", &httpio.Problem{
			Reason: httpio.ReasonInvalidRequest, Detail: "the query of a call must be visible ASCII; percent-encode the rest",
		}
	}
	return path, nil
}

// readFields reads the fields of a call that begin with Penstock-.
func readFields(r *http.Request, c *proxy.Call) *httpio.Problem {
	for field, values := range r.Header {
		if !strings.HasPrefix(field, "Penstock-") {
			continue
		}
		if !slices.Contains(callFields, field) {
			return httpio.BadField(field, "is not a field of calls; they are "+strings.Join(callFields[:6], ", "))
		}
		if len(values) > 1 {
			return httpio.BadField(field, "is given more than once")
		}
		if p := readField(c, field, values[0]); p != nil {
			return p
		}
	}
	return nil
}

func readField(c *proxy.Call, field, value string) *httpio.Problem {
	shown := httpio.Shorten(value)
	switch field {
	case headerLane:
		if err := queue.ValidateLane(value); err != nil {
			p := httpio.ProblemOf(err)
			p.Field = field
			return p
		}
		c.Lane = value
	case headerCost:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1 || n > leaky.MaxCost {
			return httpio.BadField(field, shown+" must be from 1 to "+strconv.Itoa(leaky.MaxCost))
		}
		c.Cost = n
	case headerPriority:
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > queue.MaxPriority {
			return httpio.BadField(field, shown+" must be from 0 to "+strconv.Itoa(queue.MaxPriority))
		}
		c.Priority = n
	case headerWait:
		var d unit.Duration
		if err := d.UnmarshalText([]byte(value)); err != nil {
			return httpio.BadField(field, shown+" must be a duration such as 30s")
		}
		if d.D() < minTurnWait || d.D() > maxCallWait {
			return httpio.BadField(field, "is "+d.String()+", must be from "+minTurnWait.String()+" to "+maxCallWait.String())
		}
		c.Within = d.D()
	case headerRetry:
		if value != "throttled" {
			return httpio.BadField(field, shown+" must be throttled, or left out")
		}
		c.Retry = true
	}
	return nil
}

// maxCallWait is the longest wait of a call. Callers that set it have no proxy in front that would give up.
const maxCallWait = 10 * time.Minute
