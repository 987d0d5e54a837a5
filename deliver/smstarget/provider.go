package smstarget

import (
	"context"
	"time"

	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/drain"
)

// Provider sends texts by the API of a company.
type Provider interface {
	// Send waits in the gate and sends a text, once. What became of it its error says, as that of a
	// drain.Handler does: drain.Unknown if it may have been sent. id is what the provider calls the text.
	Send(ctx context.Context, gate drain.Gate, m Message) (id string, err error)
}

// Finder is a Provider that can be asked whether a text was sent.
type Finder interface {
	Provider
	// Find looks for a text that Send began to send at an instant, and had no answer to. It asks take for each that it
	// could be: the first that is taken is it; the others are, or may be, those of other jobs. An error means that it
	// cannot be said.
	Find(ctx context.Context, m Message, since time.Time, take func(id string) bool) (id string, listed bool, err error)
}

// providers are by their names in a setting. Their constructors get a setting whose secrets are in place.
var providers = map[string]func(*Setting, *httptarget.Client) (Provider, error){
	"twilio": newTwilio,
}

// open is the gate of what is not a departure.
type open struct{ until time.Time }

func (o open) Wait(ctx context.Context) error { return context.Cause(ctx) }
func (o open) Closes() time.Time              { return o.until }
