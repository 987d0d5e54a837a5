package auth

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
)

// Role is a kind of permission. Roles add up: a caller with two roles may do what either allows.
type Role string

// Roles of callers; see Role.Means.
const (
	Produce   Role = "produce"
	Consume   Role = "consume"
	View      Role = "view"
	Payloads  Role = "payloads"
	Operate   Role = "operate"
	Configure Role = "configure"
	Admin     Role = "admin"
)

// roles has a row for each role. Its index is its bit in a roleSet.
var roles = []struct {
	role  Role
	means string
}{
	{Produce, "append, get and cancel jobs, take from rules"},
	{Consume, "lease and settle jobs, wait for turns"},
	{View, "view queues, rules, jobs and statistics, without payloads"},
	{Payloads, "view payloads and headers of jobs"},
	{Operate, "pause, purge, replay, decide, refund, reset"},
	{Configure, "create, update and delete queues and rules, within the app's limits"},
	{Admin, "all roles, and the tokens and audit log of the app"},
}

// Roles returns all roles, in the order of the docs.
func Roles() []Role {
	all := make([]Role, len(roles))
	for i := range roles {
		all[i] = roles[i].role
	}
	return all
}

// Means returns what a role allows, for people, or "" for an unknown role.
func (r Role) Means() string {
	if i := r.index(); i >= 0 {
		return roles[i].means
	}
	return ""
}

func (r Role) index() int {
	for i := range roles {
		if roles[i].role == r {
			return i
		}
	}
	return -1
}

func (r Role) validate(field string) error {
	if r.index() >= 0 {
		return nil
	}
	names := make([]string, len(roles))
	for i := range roles {
		names[i] = string(roles[i].role)
	}
	slices.Sort(names)
	return &invalid.Error{
		Field: field, Value: clip.Quote(string(r), 40), Reason: "must be one of " + strings.Join(names, ", "),
	}
}

// roleSet is a set of roles.
type roleSet uint8

func setOf(r Role) roleSet {
	if i := r.index(); i >= 0 {
		return 1 << i
	}
	return 0
}

// has reports whether the set includes r. Admin includes every valid role.
func (s roleSet) has(r Role) bool {
	of := setOf(r)
	return of != 0 && s&(of|setOf(Admin)) != 0
}
