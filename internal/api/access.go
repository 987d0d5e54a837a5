package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/clip"
)

// need is what whoever asks for an operation must have been granted: one of some roles, for what the operation is
// about. The zero need asks nobody.
type need struct {
	of    whose
	roles []auth.Role
}

// whose says for what a role is needed.
type whose uint8

const (
	nobody     whose = iota // nobody is asked who he is
	anybody                 // for nothing: it is enough to be known
	theQueue                // for the queue in the path
	theRule                 // for the rule in the path
	anything                // for anything: the answer has no more than what it is for
	everything              // for all there is
)

func ofQueue(roles ...auth.Role) need      { return need{theQueue, roles} }
func ofRule(roles ...auth.Role) need       { return need{theRule, roles} }
func ofAnything(roles ...auth.Role) need   { return need{anything, roles} }
func ofEverything(roles ...auth.Role) need { return need{everything, roles} }

// serve serves a request, if whoever sent it may ask for that. Nothing of its body is read before.
func (h *handler) serve(rt *route, w http.ResponseWriter, r *http.Request) {
	id, p := h.admit(rt, w, r)
	rt.note(w, id)
	if id != nil {
		r = r.WithContext(context.WithValue(r.Context(), identityKey{}, id))
		if p == nil {
			p = h.withinRate(r.Context(), id.App)
		}
	}
	if p != nil {
		h.noteRefusal(rt, w, r, p)
		unread(w, r)
		p.write(w)
		return
	}
	if rt.effect == changes {
		h.change(rt, w, r)
		h.looks.forget()
		if h.o.Survey.Watching() > 0 {
			h.o.Survey.Hurry()
		}
		return
	}
	rt.serve(h, w, r)
}

// admit says who sent a request, or why he may not ask for that. It is nil where nobody is asked.
func (h *handler) admit(rt *route, w http.ResponseWriter, r *http.Request) (*auth.Identity, *Problem) {
	if h.o.Auth == nil || rt.need.of == nobody {
		return nil, nil
	}
	id, err := h.o.Auth.Identify(r)
	if err != nil {
		return nil, refusedAccess(w, err)
	}
	return id, rt.need.unmet(id, r)
}

// unmet says what whoever asks lacks. A foreign name is answered as one that there is not, and nobody is asked whether
// there is.
func (n need) unmet(id *auth.Identity, r *http.Request) *Problem {
	var has func(auth.Role) bool
	what := "anything"
	switch n.of {
	case nobody, anybody:
		return nil
	case theQueue:
		name := r.PathValue("queue")
		if !id.Owns(name) {
			return unknownQueue(name)
		}
		what = "the queue " + name
		has = func(role auth.Role) bool { return id.Can(role, name) }
	case theRule:
		name := r.PathValue("rule")
		if !id.Owns(name) {
			return unknownRule(name)
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

// forbidden is the refusal of somebody who has none of the roles that would do.
func forbidden(what string, roles ...auth.Role) *Problem {
	names := make([]string, len(roles))
	for i, role := range roles {
		names[i] = string(role)
	}
	return &Problem{
		Reason: ReasonForbidden,
		Detail: "this needs the role " + strings.Join(names, " or ") + " for " + what +
			"; GET /v1/whoami tells which roles you have",
	}
}

// refusedAccess is what is answered to somebody who is not let in. A w of nil has no more headers.
func refusedAccess(w http.ResponseWriter, err error) *Problem {
	var refusal *auth.Refusal
	if !errors.As(err, &refusal) {
		return refused(err)
	}
	if challenge := refusal.Challenge(); challenge != "" && w != nil {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	p := &Problem{Reason: ReasonNoIdentity, Detail: refusal.Error()}
	switch refusal.Code {
	case auth.Malformed:
		p.Reason, p.Field = ReasonInvalidRequest, "Authorization"
	case auth.InURL:
		p.Reason = ReasonTokenInURL
	case auth.Forbidden:
		p.Reason = ReasonForbidden
	case auth.Unavailable:
		p.Reason, p.RetryAfter = ReasonAuthAway, retryUnavailable
	}
	return p
}

// unread prepares the refusal of a request whose body nobody reads. Without it the server would read on before it
// sends the answer, for as long as a stream lasts.
func unread(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength < 0 {
		_ = http.NewResponseController(w).EnableFullDuplex() // or the answer comes later
		w.Header()["Connection"] = closing
	}
}

type identityKey struct{}

// caller is who makes a request, nil where nobody is asked: he may do everything then.
func caller(ctx context.Context) *auth.Identity {
	id, _ := ctx.Value(identityKey{}).(*auth.Identity)
	return id
}

// may reports whether a request may do more with a queue or rule than its operation needs.
func may(ctx context.Context, role auth.Role, name string) bool {
	id := caller(ctx)
	return id == nil || id.Can(role, name)
}

// owns reports whether a queue or rule exists for who makes a request.
func owns(ctx context.Context, name string) bool {
	id := caller(ctx)
	return id == nil || id.Owns(name)
}

func unknownRule(name string) *Problem {
	return &Problem{
		Reason: ReasonUnknownRule,
		Detail: "there is no rule " + clip.Quote(name, 80) + "; PUT /v1/rules/{rule} makes one",
	}
}
