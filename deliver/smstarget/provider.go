package smstarget

import (
	"context"
	"time"

	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/drain"
)

// Provider sends texts by a company's API.
type Provider interface {
	// Send waits in the gate and sends a text once. Its error is for a drain.Handler to return: drain.Unknown if the
	// text may have been sent. id is the provider's ID of the text.
	Send(ctx context.Context, gate drain.Gate, m Message) (id string, err error)
}

// Finder is a Provider that can find out whether a text was sent.
type Finder interface {
	Provider
	// Find looks in the provider's list for a text that Send began to send at since and that got no answer. It calls take
	// with the ID of each text that matches, until take accepts one: texts that take rejects belong, or may belong, to
	// other jobs. listed reports whether a text was accepted. An error means that Find could not find out.
	Find(ctx context.Context, m Message, since time.Time, take func(id string) bool) (id string, listed bool, err error)
}

// providers has the constructors of providers by name. They get a setting with resolved secrets.
var providers = map[string]func(*Setting, *httptarget.Client) (Provider, error){
	"twilio": newTwilio,
}

// open is a gate that is always open, for requests that are not departures.
type open struct{ until time.Time }

func (o open) Wait(ctx context.Context) error { return context.Cause(ctx) }
func (o open) Closes() time.Time              { return o.until }
