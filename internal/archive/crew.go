package archive

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/penstock/penstock/queue"
)

// crewBytes is about how much of the file is under way at once, however many work on it. It has room for more than a
// page and a line.
const crewBytes = 16 << 20

// crew does something with the lines of a file, those of different groups at the same time and those of one group in
// their order: a store that takes many calls at once puts them on disk together.
type crew struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	hands  []chan piece
	groups map[string]int // who of hands has which: the next in turn, as its first line comes
	work   sync.WaitGroup

	mu    sync.Mutex
	room  sync.Cond // its L is mu
	taken int       // bytes under way
}

// piece is a line on its way, with what it takes of the room.
type piece struct {
	n    int64
	text []byte
}

// doing does something with a line, and says how many bytes of the lines that it was given are done with.
type doing func(ctx context.Context, n int64, text []byte) (done int, err error)

// newCrew starts so many; each has a doing of its own.
func newCrew(ctx context.Context, many int, hand func() doing) *crew {
	c := &crew{hands: make([]chan piece, many), groups: map[string]int{}}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.room.L = &c.mu
	for i := range c.hands {
		c.hands[i] = make(chan piece, 4)
		do := hand()
		c.work.Go(func() {
			for p := range c.hands[i] {
				if c.ctx.Err() != nil {
					continue // the others are told to end too
				}
				done, err := do(c.ctx, p.n, p.text)
				if err != nil {
					c.fail(err)
				}
				c.free(done)
			}
		})
	}
	return c
}

func (c *crew) fail(err error) {
	c.cancel(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room.Broadcast()
}

func (c *crew) free(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken -= n
	c.room.Broadcast()
}

// give hands a line to whoever has its group, when there is room.
func (c *crew) give(group string, n int64, text []byte) error {
	c.mu.Lock()
	for c.taken > 0 && c.taken+len(text) > crewBytes && c.ctx.Err() == nil {
		c.room.Wait()
	}
	c.taken += len(text)
	c.mu.Unlock()
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	hand, known := c.groups[group]
	if !known {
		hand = len(c.groups) % len(c.hands)
		c.groups[group] = hand
	}
	c.hands[hand] <- piece{n, bytes.Clone(text)}
	return nil
}

// end waits until all is done.
func (c *crew) end() error {
	for _, hand := range c.hands {
		close(hand)
	}
	c.work.Wait()
	err := context.Cause(c.ctx)
	c.cancel(nil)
	return err
}

// together does something with the lines of a file, in the order of each group.
func (f *File) together(ctx context.Context, many int, which func(text []byte) bool, hand func() doing) error {
	c := newCrew(ctx, many, hand)
	stop := context.AfterFunc(ctx, func() { c.fail(ctx.Err()) })
	defer stop()
	group := ""
	err := f.raw(ctx, which, func(n int64, text []byte) error {
		name, begins, err := nameOf(text)
		if err != nil {
			return damaged(n, "%v", err)
		}
		if begins {
			group = queue.Group(name)
		}
		return c.give(group, n, text)
	})
	if ended := c.end(); err == nil {
		err = ended
	}
	return err
}

// What the lines of rules, queues and jobs begin with.
var (
	ruleBegins  = []byte(`{"rule":`)
	queueBegins = []byte(`{"queue":`)
	jobBegins   = []byte(`{"job":`)
)

// nameOf returns the name of the rule or queue that begins with a line, if one does. It reads no more than that.
func nameOf(text []byte) (name string, begins bool, err error) {
	var v struct {
		Rule struct {
			Name string `json:"name"`
		} `json:"rule"`
		Queue struct {
			Spec struct {
				Name string `json:"name"`
			} `json:"spec"`
		} `json:"queue"`
	}
	switch {
	case bytes.HasPrefix(text, ruleBegins):
		err = laxJSON(text, &v)
		return v.Rule.Name, true, err
	case bytes.HasPrefix(text, queueBegins):
		if err = laxJSON(text, &v); err == nil && v.Queue.Spec.Name == "" {
			err = fmt.Errorf("the queue has no name")
		}
		return v.Queue.Spec.Name, true, err
	}
	return "", false, nil
}
