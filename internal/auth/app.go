package auth

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/unit"
)

// KindApp is the kind of document that an App is, by its name.
const KindApp = "app"

// MaxNoteBytes is the longest note of an app, a token or a subject.
const MaxNoteBytes = 256

// App is who shares the store with others: a team, a product. What is outside its prefixes does not exist for it.
type App struct {
	Name string `json:"name"` // as a queue's, without a dot
	// Prefixes are the names of queues and rules that are its own, see ValidatePrefix. No two apps share one.
	Prefixes []string `json:"prefixes"`
	Limits   Limits   `json:"limits,omitzero"`
	// Secrets, Hosts and Senders are what its targets may name: patterns in which each * stands for anything. None is
	// none.
	Secrets setting.Patterns `json:"secrets,omitempty"`
	Hosts   setting.Patterns `json:"hosts,omitempty"`
	Senders setting.Patterns `json:"senders,omitempty"`
	Note    string           `json:"note,omitempty"`
	// Created is set when it is made: tokens of an app that was deleted are none of a later one of its name.
	Created time.Time `json:"created,omitzero"`
	// Gained is when it was given those of its prefixes that it was not made with, set by PutApp.
	Gained map[string]time.Time `json:"gained,omitempty"`
	// Revision is that of its document, set by what reads it.
	Revision int64 `json:"-"`
	// New is whether PutApp made it, set by that.
	New bool `json:"-"`
}

// Limits are how much an app may have and do. 0 is no limit.
type Limits struct {
	Queues int `json:"queues,omitzero"`
	Rules  int `json:"rules,omitzero"`
	// Lanes and Bytes are of all its queues together: the sums of what their specs allow.
	Lanes int64      `json:"lanes,omitzero"`
	Bytes unit.Bytes `json:"bytes,omitzero"`
	// Streams and Waits are how many it may have open at a time, at each ingress.
	Streams int `json:"streams,omitzero"`
	Waits   int `json:"waits,omitzero"`
	// Handlers is its share of the handlers of each drainer, up to 1.
	Handlers float64 `json:"handlers,omitzero"`
	// Rate is how many requests it may make; RateRule is the rule that holds it to that.
	Rate leaky.Rate `json:"rate,omitzero"`
}

// rateGroup is the group of the rules that hold apps to their rates. No app owns names in it.
const rateGroup = "app"

// RateRule is the name of the rule that holds an app to Limits.Rate.
func RateRule(app string) string { return rateGroup + "." + app }

// ValidateAppName checks the name of an app. Its error is an *invalid.Error.
func ValidateAppName(field, name string) error {
	if names.Validate(name) == nil && !strings.Contains(name, ".") {
		return nil
	}
	return &invalid.Error{
		Field: field, Value: clip.Quote(name, 80),
		Reason: "an app's name is 1 to 64 of a-z 0-9 _ -, beginning with a letter or digit",
	}
}

// Validate checks an app by itself; whether its prefixes are another's PutApp looks. Its error is an *invalid.Error.
func (a *App) Validate() error {
	if err := ValidateAppName("name", a.Name); err != nil {
		return err
	}
	if n := len(a.Prefixes); n == 0 || n > MaxPrefixes {
		return &invalid.Error{Field: "prefixes", Reason: fmt.Sprintf("are %d, must be 1 to %d", n, MaxPrefixes)}
	}
	for i, p := range a.Prefixes {
		field := fmt.Sprintf("prefixes[%d]", i)
		if err := ValidatePrefix(field, p); err != nil {
			return err
		}
		if overlap(p, rateGroup) {
			return &invalid.Error{
				Field: field, Value: clip.Quote(p, 80),
				Reason: "has names of the group " + rateGroup + ", which is kept for the rates of apps",
			}
		}
	}
	for _, of := range []struct {
		field    string
		patterns setting.Patterns
	}{{"secrets", a.Secrets}, {"hosts", a.Hosts}, {"senders", a.Senders}} {
		if err := of.patterns.Check(of.field, nil); err != nil {
			return err
		}
	}
	if err := a.Limits.validate(); err != nil {
		return err
	}
	return validateNote(a.Note)
}

func (l *Limits) validate() error {
	for _, of := range []struct {
		field string
		value int64
	}{
		{"queues", int64(l.Queues)},
		{"rules", int64(l.Rules)},
		{"lanes", l.Lanes},
		{"bytes", int64(l.Bytes)},
		{"streams", int64(l.Streams)},
		{"waits", int64(l.Waits)},
	} {
		if of.value < 0 {
			return &invalid.Error{
				Field: "limits." + of.field, Value: fmt.Sprint(of.value), Reason: "must not be negative; 0 is no limit",
			}
		}
	}
	if !(l.Handlers >= 0 && l.Handlers <= 1) { // neither is NaN
		return &invalid.Error{
			Field: "limits.handlers", Value: fmt.Sprint(l.Handlers),
			Reason: "is a share of the handlers, from 0 to 1 such as 0.25; 0 is no limit",
		}
	}
	return nil
}

func validateNote(note string) error {
	unseen := func(c rune) bool { return unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
	if len(note) > MaxNoteBytes || !utf8.ValidString(note) || strings.ContainsFunc(note, unseen) {
		return &invalid.Error{
			Field: "note", Value: clip.Quote(note, 40),
			Reason: fmt.Sprintf("must be at most %d bytes of UTF-8 that are all seen", MaxNoteBytes),
		}
	}
	return nil
}

// owns reports whether a name is one of the app's; the operator, nil, owns all.
func (a *App) owns(name string) bool { return a == nil || withinAny(a.Prefixes, name) }

// gained is when each prefix was given to an app that was another before; nil if all are as old as it.
func (a *App) gained(before *App, at time.Time) map[string]time.Time {
	since := map[string]time.Time{}
	for _, p := range a.Prefixes {
		if coveredByAny(before.Prefixes, p) {
			at, later := before.since(p)
			if later {
				since[p] = at
			}
			continue
		}
		since[p] = at
	}
	if len(since) == 0 {
		return nil
	}
	return since
}

// Gains are the prefixes of an app that have names which were not its own before.
func (a *App) Gains(before *App) (gained []string) {
	for _, p := range a.Prefixes {
		if !coveredByAny(before.Prefixes, p) {
			gained = append(gained, p)
		}
	}
	return gained
}

// OwnSince is since when a name has been the app's.
func (a *App) OwnSince(name string) time.Time {
	since, later := a.since(name)
	if !later || since.Before(a.Created) {
		return a.Created
	}
	return since
}

// since is when an app got all names of a prefix; later says that it was made before that.
func (a *App) since(prefix string) (at time.Time, later bool) {
	for _, p := range a.Prefixes {
		if !covers(p, prefix) {
			continue
		}
		got, later := a.Gained[p]
		if !later {
			return a.Created, false
		}
		if at.IsZero() || got.Before(at) {
			at = got
		}
	}
	return at, true
}

// HadAt reports whether a name was the app's at an instant, as far as it is its own now.
func (a *App) HadAt(name string, at time.Time) bool { return !at.Before(a.OwnSince(name)) }
