package auth

import (
	"time"

	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/invalid"
)

// Identity is who a request comes from. It does not change: what was taken away from him meanwhile Watch tells.
type Identity struct {
	// Actor has his name, his app, and his token if he came with one. The rest is the request's.
	Actor audit.Actor
	// App is the one that he acts for, nil of the operator. It must not be changed.
	App *App

	grants grants
	// subject is the one that says what he may do, unless it is a token.
	subject string
	// session is the token that stands for the one, or for the subject, that he signed in with; empty if he shows that.
	session string
	expires time.Time // when what he has proven himself with does; zero is never
}

// Operator is somebody who may do everything, under a name: whoever has the store itself, or the machine.
func Operator(name string) *Identity {
	return &Identity{Actor: audit.Actor{Name: name}, grants: grants{{"", setOf(Admin)}}}
}

// Owns reports whether a queue or rule is his app's. What is not does not exist for him. The operator owns all.
func (i *Identity) Owns(name string) bool { return i.App.owns(name) }

// Can reports whether he has a role for a queue or rule. What he does not own he has none for.
func (i *Identity) Can(r Role, name string) bool { return i.grants.allow(r, name) && i.Owns(name) }

// Has reports whether he has a role for anything, as who asks for a list must.
func (i *Identity) Has(r Role) bool { return i.grants.has(r) }

// Everything reports whether he has a role for all there is, as only the operator can.
func (i *Identity) Everything(r Role) bool { return i.App == nil && i.grants.cover(r, "") }

// Prefixes are those within which he has a role, in no order: those of his grants that are within his app's, and his
// app's for a grant of all. Of the operator it may be Everything. Lists walk them.
func (i *Identity) Prefixes(r Role) (all []string) {
	for _, g := range i.grants {
		switch {
		case !g.roles.has(r):
		case g.prefix == "" && i.App == nil:
			all = append(all, Everything)
		case g.prefix == "":
			all = append(all, i.App.Prefixes...)
		case i.App == nil || coveredByAny(i.App.Prefixes, g.prefix):
			all = append(all, g.prefix)
		}
	}
	return widest(all)
}

// widest leaves out the prefixes that others cover.
func widest(all []string) (kept []string) {
next:
	for n, p := range all {
		for m, q := range all {
			if covers(q, p) && (!covers(p, q) || m < n) {
				continue next
			}
		}
		kept = append(kept, p)
	}
	return kept
}

// bound is when something ends that he makes and that is to end at an instant, zero of which is never: with what he has
// proven himself with, at the latest.
func (i *Identity) bound(at time.Time) time.Time {
	if i.expires.IsZero() || !at.IsZero() && at.Before(i.expires) {
		return at
	}
	return i.expires
}

// ending is when something ends that he makes and that he asked to end at an instant. He is not given more time than he
// has himself: to ask for it is an error, an *invalid.Error.
func (i *Identity) ending(at time.Time) (time.Time, error) {
	ends := i.bound(at)
	if !at.IsZero() && ends.Before(at) {
		return at, &invalid.Error{
			Field: "expires", Value: at.UTC().Format(time.RFC3339), Reason: "is later than who makes it ends himself, at " +
				ends.UTC().Format(time.RFC3339) + ": ask for less, or leave it out for that",
		}
	}
	if ends.IsZero() {
		return ends, nil
	}
	return ends.UTC().Truncate(time.Microsecond), nil
}

// Session is the id of his session, see OpenSession; empty if he has none.
func (i *Identity) Session() string { return i.session }

// Grants are what he may do.
func (i *Identity) Grants() []Grant { return i.grants.list() }
