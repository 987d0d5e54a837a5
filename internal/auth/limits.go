package auth

import (
	"fmt"
	"strconv"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

// HostOfTarget returns the pattern in an app's Hosts that permits a kind of target without a host, such as nats.
func HostOfTarget(kind string) string { return "target:" + kind }

// PermitTarget checks that a target names only hosts, secrets and senders that the app may use. Its error is an
// *invalid.Error.
func (a *App) PermitTarget(kind string, s setting.Setting) error {
	if a == nil {
		return nil
	}
	at := "deliver." + kind
	if hosted, ok := s.(setting.Hosted); ok {
		for _, host := range hosted.Hosts() {
			port := strconv.Itoa(int(host.Port))
			if !a.Hosts.Match(host.Name) && !a.Hosts.Match(host.Name+":"+port) {
				return a.mayNot(at+"."+host.Field, host.Name+":"+port, "hosts")
			}
		}
		for _, use := range hosted.Uses() {
			for _, name := range secrets.Names(use.Text) {
				if !a.Secrets.Match(name) {
					return a.mayNot(at+"."+use.Field, name, "secrets")
				}
			}
		}
	} else if host := HostOfTarget(kind); !a.Hosts.Match(host) {
		return a.mayNot(at, host, "hosts")
	}
	if sending, ok := s.(setting.Sending); ok {
		for _, sender := range sending.Senders() {
			if !a.Senders.Match(sender.Name) { // a star in a sender is matched only by a star
				return a.mayNot(at+"."+sender.Field, sender.Name, "senders")
			}
		}
	}
	return nil
}

func (a *App) mayNot(field, value, list string) error {
	return &invalid.Error{
		Field: field, Value: clip.Quote(value, 80),
		Reason: "is not among the " + list + " that the app " + a.Name + " may use; an operator can add it",
	}
}

// Usage is how much of its Limits an app uses.
type Usage struct {
	Queues, Rules int
	// Lanes is the maximum number of lanes. Each lane contains a job, so that is the sum of the capacities.
	Lanes int64
	// Bytes adds up what the app's queues may hold, the dead jobs of its deleted queues, and the part of each spec beyond
	// freeSpecBytes.
	Bytes unit.Bytes
}

// freeSpecBytes is the size up to which a spec does not count toward Usage.Bytes.
const freeSpecBytes = 4 << 10

// Add adds the usage of a queue.
func (u *Usage) Add(s *queue.Spec) {
	u.Queues++
	u.Lanes += s.Capacity
	u.Bytes += bytesOf(s)
}

// sub subtracts the usage of a queue.
func (u *Usage) sub(s *queue.Spec) {
	u.Queues--
	u.Lanes -= s.Capacity
	u.Bytes -= bytesOf(s)
}

func bytesOf(s *queue.Spec) unit.Bytes {
	text, _ := queue.EncodeSpec(*s) // the spec is valid
	return s.MaxBytes + s.Deferred.MaxBytes + max(0, unit.Bytes(len(text))-freeSpecBytes)
}

// PermitQueue checks that an app with a usage may put a queue in place of before, which is nil for a new queue. A
// change that uses no more is always permitted. Its error is an *invalid.Error.
func (l *Limits) PermitQueue(now Usage, before, s *queue.Spec) error {
	then := now
	if before != nil {
		then.sub(before)
	}
	then.Add(s)
	if l.Bytes > 0 && s.MaxBytes == 0 && (before == nil || before.MaxBytes != 0) {
		return &invalid.Error{
			Field: "max_bytes", Reason: "is required: the app may hold " + l.Bytes.String() + " in all its queues together",
		}
	}
	for _, of := range []struct {
		field, what       string
		now, then, limits int64
	}{
		{"name", "queues", int64(now.Queues), int64(then.Queues), int64(l.Queues)},
		{"capacity", "places for lanes (the sum of the capacities)", now.Lanes, then.Lanes, l.Lanes},
		{"max_bytes", "bytes", int64(now.Bytes), int64(then.Bytes), int64(l.Bytes)},
	} {
		if of.limits > 0 && of.then > of.limits && of.then > of.now {
			return overLimit(of.field, of.what, of.then, of.limits)
		}
	}
	return nil
}

// PermitRule checks that an app with a usage may have one more rule. Its error is an *invalid.Error.
func (l *Limits) PermitRule(now Usage) error {
	if l.Rules > 0 && now.Rules >= l.Rules {
		return overLimit("name", "rules", int64(now.Rules)+1, int64(l.Rules))
	}
	return nil
}

func overLimit(field, what string, then, limit int64) error {
	return &invalid.Error{
		Field: field, Reason: fmt.Sprintf("the app would have %d %s, its limit is %d", then, what, limit),
	}
}
