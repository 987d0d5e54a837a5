package api

import (
	"context"
	"io"
	"net/http"
)

// turns let so many replays compute at a time, and one of each tenant: who sends many waits for himself.
type turns struct {
	places chan struct{}
	own    nameLocks
}

func newTurns(most int) *turns { return &turns{places: make(chan struct{}, most)} }

// take waits for a place, until ctx ends. Who is nobody has as many as there are.
func (t *turns) take(ctx context.Context, who string) (leave func(), err error) {
	own := func() {}
	if who != "" {
		if own, err = t.own.lock(ctx, who); err != nil {
			return nil, err
		}
	}
	select {
	case t.places <- struct{}{}:
		return func() { <-t.places; own() }, nil
	case <-ctx.Done():
		own()
		return nil, ctx.Err()
	}
}

// tenant is the app that a request is made for, else the address that it comes from; empty for nobody's.
func (h *handler) tenant(r *http.Request) string {
	if app := appOfCaller(r.Context()); app != nil {
		return "app " + app.Name
	}
	return h.account(r).Client()
}

// received is a log that arrives. While it is waited for, another replay may compute.
type received struct {
	r     io.Reader
	ctx   context.Context
	turns *turns
	who   string
	give  func() // gives the place back; nil while it has none
	err   error  // why it broke off
}

func (b *received) enter() (err error) {
	b.give, err = b.turns.take(b.ctx, b.who)
	return err
}

func (b *received) leave() {
	if b.give != nil {
		b.give()
		b.give = nil
	}
}

func (b *received) Read(p []byte) (int, error) {
	b.leave()
	n, err := b.r.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	if err := b.enter(); err != nil {
		return n, err
	}
	return n, err
}
