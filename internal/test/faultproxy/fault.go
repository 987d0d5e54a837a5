package faultproxy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Action is what happens to a command.
type Action int

const (
	// SwallowReply lets Redis run the command, and then closes the connection instead of passing the reply on: the
	// client cannot know what happened.
	SwallowReply Action = iota + 1

	// LoseCommand closes the connection before the command reaches Redis: nothing happens, but it looks like
	// SwallowReply to the client.
	LoseCommand

	// DelayReply passes the reply on late. Later replies of the connection stay behind it, as on a slow line.
	DelayReply
)

// Fault describes what goes wrong.
type Fault struct {
	On    Match         // which commands it concerns
	Do    Action        // what happens to the commands
	By    time.Duration // how late DelayReply is
	Times int           // how often it happens; 0 means until it is removed
}

// Injected is a fault in force. It is safe for concurrent use.
type Injected struct {
	fault   Fault
	proxy   *Proxy
	removed chan struct{}
	spent   chan struct{}

	mu      sync.Mutex
	claimed int // commands it was applied to
	hits    int // commands to which it has happened
}

// Inject puts a fault in force. Each command gets the first matching fault, in order of injection, that is not used up.
func (p *Proxy) Inject(f Fault) *Injected {
	i := &Injected{fault: f, proxy: p, removed: make(chan struct{}), spent: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, i)
	return i
}

// SwallowNext swallows the reply to the next command that m matches.
func (p *Proxy) SwallowNext(m Match) *Injected {
	return p.Inject(Fault{On: m, Do: SwallowReply, Times: 1})
}

// LoseNext loses the next command that m matches.
func (p *Proxy) LoseNext(m Match) *Injected {
	return p.Inject(Fault{On: m, Do: LoseCommand, Times: 1})
}

// Delay delays the replies to all commands that m matches, until it is removed.
func (p *Proxy) Delay(m Match, by time.Duration) *Injected {
	return p.Inject(Fault{On: m, Do: DelayReply, By: by})
}

// Clear removes all faults, and admits connections again.
func (p *Proxy) Clear() {
	p.mu.Lock()
	faults := slices.Clone(p.faults)
	p.mu.Unlock()
	for _, f := range faults {
		f.Remove()
	}
	p.Admit()
}

// meet returns the fault of cmd, or nil.
func (p *Proxy) meet(cmd Command) *Injected {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if f.claim(cmd) {
			return f
		}
	}
	return nil
}

func (i *Injected) claim(cmd Command) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fault.Times > 0 && i.claimed == i.fault.Times || !i.fault.On(cmd) {
		return false
	}
	i.claimed++
	return true
}

// unclaim undoes a claim: the connection ended before Redis answered, or Redis did not run the command.
func (i *Injected) unclaim() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.claimed--
}

// hit counts an occurrence.
func (i *Injected) hit() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hits++
	if i.hits == i.fault.Times {
		close(i.spent)
	}
}

// Hits returns the number of occurrences. SwallowReply and DelayReply count once Redis has answered.
func (i *Injected) Hits() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.hits
}

// Await waits until the fault has occurred Times times. Its error is ctx's.
func (i *Injected) Await(ctx context.Context) error {
	if i.fault.Times == 0 {
		return fmt.Errorf("faultproxy: await a fault that has no Times and so never ends")
	}
	select {
	case <-i.spent:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("faultproxy: the fault happened %d of %d times: %w", i.Hits(), i.fault.Times, ctx.Err())
	}
}

// Remove removes the fault. Delayed replies are passed on at once. Calling it again does nothing.
func (i *Injected) Remove() {
	i.proxy.mu.Lock()
	defer i.proxy.mu.Unlock()
	if n := slices.Index(i.proxy.faults, i); n >= 0 {
		i.proxy.faults = slices.Delete(i.proxy.faults, n, n+1)
		close(i.removed)
	}
}
