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

// KindApp is the kind of document of an App.
const KindApp = "app"

// MaxNoteBytes is the length limit of a note of an app, a token or a subject.
const MaxNoteBytes = 256

// App is a tenant of the store: a team, a product. Names outside its prefixes do not exist for it.
type App struct {
	Name string `json:"name"` // like a queue's name, without a dot
	// Prefixes are the names of queues and rules that the app owns; see ValidatePrefix. No two apps share a name.
	Prefixes []string `json:"prefixes"`
	Limits   Limits   `json:"limits,omitzero"`
	// Secrets, Hosts and Senders are what the app's targets may name: patterns in which * stands for anything. An empty
	// list permits nothing.
	Secrets setting.Patterns `json:"secrets,omitempty"`
	Hosts   setting.Patterns `json:"hosts,omitempty"`
	Senders setting.Patterns `json:"senders,omitempty"`
	Note    string           `json:"note,omitempty"`
	// Created is set by PutApp. Tokens of a deleted app do not belong to a later app of the same name.
	Created time.Time `json:"created,omitzero"`
	// Gained is when the app got each prefix that it was not created with. It is set by PutApp.
	Gained map[string]time.Time `json:"gained,omitempty"`
	// Revision is the revision of the document. It is set when the document is read.
	Revision int64 `json:"-"`
	// New is set by PutApp if it created the app.
	New bool `json:"-"`
}

// Limits bound what an app may have and do. 0 is no limit.
type Limits struct {
	Queues int `json:"queues,omitzero"`
	Rules  int `json:"rules,omitzero"`
	// Lanes and Bytes are sums over the specs of all its queues.
	Lanes int64      `json:"lanes,omitzero"`
	Bytes unit.Bytes `json:"bytes,omitzero"`
	// Streams and Waits are the maximum numbers of open streams and waiting requests, at each ingress.
	Streams int `json:"streams,omitzero"`
	Waits   int `json:"waits,omitzero"`
	// Handlers is its share of the handlers of each drainer, at most 1.
	Handlers float64 `json:"handlers,omitzero"`
	// Rate is its maximum rate of requests. RateRule enforces it.
	Rate leaky.Rate `json:"rate,omitzero"`
}

// rateGroup is the group of the rules that enforce Limits.Rate. No app owns names in it.
const rateGroup = "app"

// RateRule returns the name of the rule that enforces an app's Limits.Rate.
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

// Validate checks an app on its own; PutApp checks its prefixes against other apps. Its error is an *invalid.Error.
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
				Reason: "has names of the group " + rateGroup + ", which is reserved for the rates of apps",
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
	if !(l.Handlers >= 0 && l.Handlers <= 1) { // excludes NaN too
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
			Reason: fmt.Sprintf("must be at most %d bytes of visible UTF-8 characters", MaxNoteBytes),
		}
	}
	return nil
}

// owns reports whether the app owns a name. A nil app stands for the operator, who owns all names.
func (a *App) owns(name string) bool { return a == nil || withinAny(a.Prefixes, name) }

// gained returns when the app got each of its prefixes. before is the app as it was before the present change, made at
// the instant at. Prefixes that the app was created with are left out.
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

// Gains returns the prefixes of an app with names that it did not own before.
func (a *App) Gains(before *App) (gained []string) {
	for _, p := range a.Prefixes {
		if !coveredByAny(before.Prefixes, p) {
			gained = append(gained, p)
		}
	}
	return gained
}

// OwnSince returns the instant since which the app owns a name, which it must own now.
func (a *App) OwnSince(name string) time.Time {
	since, later := a.since(name)
	if !later || since.Before(a.Created) {
		return a.Created
	}
	return since
}

// since returns when the app got all names of a prefix. later says whether that was after the app's creation.
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

// HadAt reports whether the app, which owns a name now, already owned it at an instant.
func (a *App) HadAt(name string, at time.Time) bool { return !at.Before(a.OwnSince(name)) }
