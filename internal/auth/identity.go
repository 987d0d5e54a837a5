package auth

import (
	"time"

	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/invalid"
)

// Identity is an authenticated caller. It does not change: Watch reports permissions that were revoked meanwhile.
type Identity struct {
	// Actor has the caller's name, app and token id. The request adds the rest.
	Actor audit.Actor
	// App is the caller's app, nil for operators. It must not be modified.
	App *App

	grants grants
	// subject is the caller's subject; empty for a token.
	subject string
	// session is the id of the caller's session; empty without a session.
	session string
	expires time.Time // when the credentials expire; zero means never
}

// Operator returns an identity with full access, for processes that have the store or the machine itself.
func Operator(name string) *Identity {
	return &Identity{Actor: audit.Actor{Name: name}, grants: grants{{"", setOf(Admin)}}}
}

// Owns reports whether the caller's app owns a queue or rule. Other names do not exist for the caller. Operators own
// all names.
func (i *Identity) Owns(name string) bool { return i.App.owns(name) }

// Can reports whether the caller has a role for a queue or rule that it owns.
func (i *Identity) Can(r Role, name string) bool { return i.grants.allow(r, name) && i.Owns(name) }

// Has reports whether the caller has a role for any name, as lists require.
func (i *Identity) Has(r Role) bool { return i.grants.has(r) }

// Everything reports whether the caller has a role for all names, which only operators can.
func (i *Identity) Everything(r Role) bool { return i.App == nil && i.grants.cover(r, "") }

// Prefixes returns the prefixes for which the caller has a role, in no order, without those that others cover. A
// permission for all names yields the app's prefixes, or Everything for an operator.
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

// widest removes prefixes that others cover.
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

// bound returns the expiry of something that the caller creates with the given expiry: no later than the caller's
// credentials. Zero means never.
func (i *Identity) bound(at time.Time) time.Time {
	if i.expires.IsZero() || !at.IsZero() && at.Before(i.expires) {
		return at
	}
	return i.expires
}

// ending is bound for an expiry that the caller asked for. A later expiry than the caller's own is an *invalid.Error.
func (i *Identity) ending(at time.Time) (time.Time, error) {
	ends := i.bound(at)
	if !at.IsZero() && ends.Before(at) {
		return at, &invalid.Error{
			Field: "expires", Value: at.UTC().Format(time.RFC3339), Reason: "is later than your own credentials expire, at " +
				ends.UTC().Format(time.RFC3339) + ": ask for less, or omit it for that time",
		}
	}
	if ends.IsZero() {
		return ends, nil
	}
	return ends.UTC().Truncate(time.Microsecond), nil
}

// Session returns the id of the caller's session, see OpenSession. It is empty without a session.
func (i *Identity) Session() string { return i.session }

// Grants returns the caller's permissions.
func (i *Identity) Grants() []Grant { return i.grants.list() }
