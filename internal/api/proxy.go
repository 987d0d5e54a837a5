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
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// proxyRoute is not in the table of routes, since both method and path of a call are the receiver's.
var proxyRoute = route{proxyOperation, "", httpio.ProxyPath, flows, ofQueue(auth.Produce), (*handler).callThrough}

const proxyOperation = "callThrough"

// maxCalls is the maximum number of open calls; one client may have half of them.
const maxCalls = 20_000

const (
	headerAuthorization = "Authorization"
	headerAPIKey        = "X-Api-Key"
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

// placeToken moves a call's token to Authorization, wherever the caller's library has put it, and a caller's
// Authorization for the receiver out of the way.
//
// No token is left for the receiver, not even one that a caller sent twice.
func placeToken(r *http.Request) {
	own, keys := r.Header[headerAuthorization], r.Header[headerAPIKey]
	delete(r.Header, passed)
	if others := slices.DeleteFunc(slices.Clone(keys), isToken); len(others) < len(keys) {
		r.Header[headerAPIKey] = others
	}
	switch token := r.Header[proxy.HeaderAuthorization]; {
	case len(token) > 0:
		r.Header[headerAuthorization] = token
		if others := slices.DeleteFunc(slices.Clone(own), bearsToken); len(others) > 0 {
			r.Header[passed] = others
		}
	case len(own) == 0:
		if len(keys) > 0 && isToken(keys[0]) {
			r.Header.Set(headerAuthorization, "Bearer "+keys[0])
		}
	case len(own) == 1:
		if password := basicPassword(own[0]); isToken(password) {
			r.Header.Set(headerAuthorization, "Bearer "+password)
		}
	}
}

func isToken(text string) bool { return strings.HasPrefix(text, auth.TokenPrefix) }

// bearsToken reports whether an Authorization has a token of Penstock.
func bearsToken(authorization string) bool {
	_, proof, _ := strings.Cut(authorization, " ")
	return isToken(strings.TrimLeft(proof, " ")) || isToken(basicPassword(authorization))
}

// basicPassword returns the password of an Authorization with the scheme Basic; else an empty text.
func basicPassword(authorization string) string {
	scheme, text, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return ""
	}
	both, err := base64.StdEncoding.DecodeString(strings.TrimLeft(text, " "))
	if err != nil {
		return ""
	}
	_, password, _ := strings.Cut(string(both), ":")
	return password
}

// callThrough passes a call on to the receiver of a pull queue, in its turn.
func (h *handler) callThrough(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("queue")
	if own := r.Header[passed]; len(own) > 0 {
		r.Header[headerAuthorization] = own
	} else {
		delete(r.Header, headerAuthorization)
	}
	delete(r.Header, passed)
	c, p := h.readCall(r, name)
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
	account := h.account(r)
	places := h.calls.Open(account.Client())
	defer places.Close()
	if err := places.Take(1); err != nil {
		p := httpio.OverBudget(err)
		p.Detail = "too many calls are open"
		refuseCall(w, r, p)
		return
	}
	defer places.Free(1)
	if n := proxy.EarlyBody(r.ContentLength, c.Retry); n > 0 {
		if err := account.Take(n); err != nil {
			refuseCall(w, r, httpio.OverBudget(err))
			return
		}
		defer account.Free(n)
	}
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex() // a receiver may answer before it has read the body
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Time{})
	ctx, unwatch := h.watched(r.Context())
	defer unwatch()
	begun := time.Now()
	err := h.o.Proxy.Serve(ctx, w, r, c)
	_ = rc.SetWriteDeadline(time.Now().Add(h.o.AnswerTimeout))
	switch {
	case err == nil:
		return
	case lost(ctx, w) != nil:
		p = lost(ctx, w)
	case errors.Is(err, proxy.ErrStopping):
		p = &httpio.Problem{
			Reason: httpio.ReasonStopping, RetryAfter: httpio.RetryUnavailable,
			Detail: "this server is stopping; your call was not sent",
		}
	case r.Context().Err() != nil && !proxy.Unread(err):
		panic(http.ErrAbortHandler) // or a caller that only ended its side of the connection would get an empty 200
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
	var field *invalid.Error
	switch {
	case errors.As(err, &field) && strings.HasPrefix(field.Field, "costs."):
		return httpio.BadField(headerCosts, strings.TrimPrefix(field.Field, "costs.")+" "+field.Reason)
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
		p := httpio.BodyProblem(body.Err)
		p.Detail += "; your call was not sent"
		return p
	case errors.Is(err, queue.ErrUnknownQueue):
		return httpio.UnknownQueue(c.Queue)
	case errors.Is(err, proxy.ErrLoop):
		return &httpio.Problem{
			Reason: httpio.ReasonLoop,
			Detail: "the target of " + c.Queue + " leads back to this proxy; correct deliver.http.url",
		}
	case errors.Is(err, auth.ErrOwnersUnread):
		return &httpio.Problem{
			Reason: httpio.ReasonNotReady, RetryAfter: httpio.RetryUnavailable,
			Detail: "this server has only just started: " + err.Error() + "; your call was not sent",
		}
	case !errors.As(err, &failed):
		return httpio.ProblemOf(err)
	case failed.Slow:
		return slowProblem(failed.Body)
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
		Reason: httpio.ReasonReceiverBroke,
		Detail: "the receiver may have your call, but did not answer it: " + failed.Error(),
	}
}

// slowProblem returns the problem of a call that was sent without the end of its body. err is that of reading it, if
// any.
func slowProblem(err error) *httpio.Problem {
	const sent = "; the receiver has its beginning"
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return &httpio.Problem{
			Reason: httpio.ReasonBodyTimeout, Detail: "the body of your call did not arrive in time" + sent,
		}
	case errors.As(err, &large):
		p := httpio.TooLarge("", "the body", proxy.MaxBody)
		p.Detail += sent
		return p
	}
	p := httpio.BodyProblem(err)
	p.Detail += sent
	return p
}

var callMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodOptions,
}

// readCall reads a call's method, path and fields.
func (h *handler) readCall(r *http.Request, name string) (*proxy.Call, *httpio.Problem) {
	c := &proxy.Call{
		Queue: name, Query: r.URL.RawQuery, BodyWithin: h.o.BodyTimeout, Below: h.o.Prefix + httpio.ProxyPath + name,
		Stopping: h.o.Stopping,
	}
	c.Within = defaultTurnWait
	switch {
	case !slices.Contains(callMethods, r.Method):
		return nil, &httpio.Problem{
			Reason: httpio.ReasonMethod, Detail: "calls are passed on with " + strings.Join(callMethods, ", "),
		}
	case changesProtocol(r.Header["Upgrade"]):
		return nil, &httpio.Problem{
			Reason: httpio.ReasonUpgrade,
			Detail: "calls through the proxy cannot change the protocol, as WebSocket does; connect to the receiver itself",
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

// changesProtocol reports whether an Upgrade is more than an offer that a server may ignore. Some libraries offer
// HTTP/2 with every request.
func changesProtocol(upgrade []string) bool {
	return slices.ContainsFunc(upgrade, func(value string) bool { return !strings.EqualFold(value, "h2c") })
}

// callPath returns the path below the target's URL. It must not lead out of it.
func callPath(r *http.Request, name string) (string, *httpio.Problem) {
	path := strings.TrimPrefix(r.URL.EscapedPath(), httpio.ProxyPath+name)
	for segment := range strings.SplitSeq(path, "/") {
		plain, err := url.PathUnescape(segment)
		plain = strings.ReplaceAll(plain, `\`, "/") // some receivers take one for the other
		if err != nil || slices.ContainsFunc(strings.Split(plain, "/"), leads) {
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

// leads reports whether a segment of a path leads elsewhere. Some receivers drop what is behind a semicolon.
func leads(segment string) bool {
	segment, _, _ = strings.Cut(segment, ";")
	return segment == "." || segment == ".."
}
