package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
)

// need is the permission that an operation requires: one of some roles, for the operation's subject. The zero need
// requires nothing, not even authentication.
type need struct {
	of    whose
	roles []auth.Role
}

// whose is the subject for which a role is required.
type whose uint8

const (
	nobody     whose = iota // no authentication
	anybody                 // authentication, but no role
	theQueue                // the queue in the path
	theRule                 // the rule in the path
	anything                // any queue or rule: the answer is limited to those
	everything              // all queues and rules
)

func ofQueue(roles ...auth.Role) need      { return need{theQueue, roles} }
func ofRule(roles ...auth.Role) need       { return need{theRule, roles} }
func ofAnything(roles ...auth.Role) need   { return need{anything, roles} }
func ofEverything(roles ...auth.Role) need { return need{everything, roles} }

// serve authorizes and serves a request. An unauthorized request's body is not read.
func (h *handler) serve(rt *route, w http.ResponseWriter, r *http.Request) {
	id, p := h.authorize(rt, w, r)
	if l, ok := w.(*httpio.LoggedResponse); ok {
		if l.Operation = rt.operation; id != nil {
			l.Actor = id.Actor.Name
		}
	}
	if id != nil {
		r = r.WithContext(context.WithValue(r.Context(), identityKey{}, id))
		if p == nil {
			p = h.withinRate(r.Context(), id.App)
		}
	}
	if p != nil {
		h.noteRefusal(rt, w, r, p)
		if rt == &proxyRoute {
			refuseCall(w, r, p)
			return
		}
		httpio.LeaveUnread(w, r)
		p.Nested = rt.operation == proxyOperation
		p.Write(w)
		return
	}
	if rt.effect == changes {
		h.serveChange(rt, w, r)
		h.caches.forget()
		if h.o.Survey.Watching() > 0 {
			h.o.Survey.Hurry()
		}
		return
	}
	rt.serve(h, w, r)
}

// authorize identifies the caller and checks the route's need. The identity is nil without authentication.
func (h *handler) authorize(rt *route, w http.ResponseWriter, r *http.Request) (*auth.Identity, *httpio.Problem) {
	if h.o.Auth == nil || rt.need.of == nobody {
		return nil, nil
	}
	id, err := h.o.Auth.Identify(r)
	if err != nil {
		return nil, authProblem(w, err)
	}
	return id, rt.need.unmet(id, r)
}

// unmet returns the problem of a caller who lacks permission. Names of other apps get the same answer as unknown names,
// and the engine is not consulted.
func (n need) unmet(id *auth.Identity, r *http.Request) *httpio.Problem {
	var has func(auth.Role) bool
	what := "anything"
	switch n.of {
	case nobody, anybody:
		return nil
	case theQueue:
		name := r.PathValue("queue")
		if !id.Owns(name) {
			return httpio.UnknownQueue(name)
		}
		what = "the queue " + name
		has = func(role auth.Role) bool { return id.Can(role, name) }
	case theRule:
		name := r.PathValue("rule")
		if !id.Owns(name) {
			return httpio.UnknownRule(name)
		}
		what = "the rule " + name
		has = func(role auth.Role) bool { return id.Can(role, name) }
	case anything:
		has = id.Has
	case everything:
		what = "everything"
		has = id.Everything
	}
	for _, role := range n.roles {
		if has(role) {
			return nil
		}
	}
	return forbidden(what, n.roles...)
}

// forbidden returns the problem of a caller who has none of the roles. what names the object of the request, as in "the
// queue mail".
func forbidden(what string, roles ...auth.Role) *httpio.Problem {
	names := make([]string, len(roles))
	for i, role := range roles {
		names[i] = string(role)
	}
	return &httpio.Problem{
		Reason: httpio.ReasonForbidden,
		Detail: "you need the role " + strings.Join(names, " or ") + " for " + what +
			"; GET /v1/whoami shows your roles",
	}
}

// authProblem returns the problem for a refused authentication. A nil w gets no WWW-Authenticate header.
func authProblem(w http.ResponseWriter, err error) *httpio.Problem {
	var refusal *auth.Refusal
	if !errors.As(err, &refusal) {
		return httpio.ProblemOf(err)
	}
	if challenge := refusal.Challenge(); challenge != "" && w != nil {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	p := &httpio.Problem{Reason: httpio.ReasonNoIdentity, Detail: refusal.Error()}
	switch refusal.Code {
	case auth.Malformed:
		p.Reason, p.Field = httpio.ReasonInvalidRequest, "Authorization"
	case auth.InURL:
		p.Reason = httpio.ReasonTokenInURL
	case auth.Forbidden:
		p.Reason = httpio.ReasonForbidden
	case auth.Unavailable:
		p.Reason, p.RetryAfter = httpio.ReasonAuthAway, httpio.RetryUnavailable
	}
	return p
}

type identityKey struct{}

// caller returns the identity of a request's caller. It is nil without authentication: full access.
func caller(ctx context.Context) *auth.Identity {
	id, _ := ctx.Value(identityKey{}).(*auth.Identity)
	return id
}

// may reports whether the caller has a role for a queue or rule.
func may(ctx context.Context, role auth.Role, name string) bool {
	id := caller(ctx)
	return id == nil || id.Can(role, name)
}

// owns reports whether a queue or rule is visible to the caller at all.
func owns(ctx context.Context, name string) bool {
	id := caller(ctx)
	return id == nil || id.Owns(name)
}
