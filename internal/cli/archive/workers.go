package archive

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/penstock/penstock/queue/names"
)

// workersBytes is roughly how many bytes of the file all workers together hold. It is more than a page and a line.
const workersBytes = 16 << 20

// workers process the lines of a file: different groups concurrently, the lines of a group in order. A store writes
// concurrent calls to disk together.
type workers struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	lines  []chan queuedLine
	groups map[string]int // worker of each group, assigned in turn at its first line
	work   sync.WaitGroup

	mu    sync.Mutex
	room  sync.Cond // its L is mu
	taken int       // bytes held
}

// queuedLine is a line on its way to a worker.
type queuedLine struct {
	n    int64
	text []byte
}

// lineFunc processes a line. It may finish lines later: done is how many bytes of this and earlier lines are finished
// now.
type lineFunc func(ctx context.Context, n int64, text []byte) (done int, err error)

// newWorkers starts count workers, each with its own lineFunc.
func newWorkers(ctx context.Context, count int, worker func() lineFunc) *workers {
	c := &workers{lines: make([]chan queuedLine, count), groups: map[string]int{}}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.room.L = &c.mu
	for i := range c.lines {
		c.lines[i] = make(chan queuedLine, 4)
		do := worker()
		c.work.Go(func() {
			for p := range c.lines[i] {
				if c.ctx.Err() != nil {
					continue // drain the channel
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

func (c *workers) fail(err error) {
	c.cancel(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room.Broadcast()
}

func (c *workers) free(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken -= n
	c.room.Broadcast()
}

// hand gives a line to the worker of its group, when there is room.
func (c *workers) hand(group string, n int64, text []byte) error {
	c.mu.Lock()
	for c.taken > 0 && c.taken+len(text) > workersBytes && c.ctx.Err() == nil {
		c.room.Wait()
	}
	c.taken += len(text)
	c.mu.Unlock()
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	worker, known := c.groups[group]
	if !known {
		worker = len(c.groups) % len(c.lines)
		c.groups[group] = worker
	}
	c.lines[worker] <- queuedLine{n, bytes.Clone(text)}
	return nil
}

// end waits for the workers.
func (c *workers) end() error {
	for _, worker := range c.lines {
		close(worker)
	}
	c.work.Wait()
	err := context.Cause(c.ctx)
	c.cancel(nil)
	return err
}

// inParallel processes the lines that which selects, in the order of each group.
func (f *File) inParallel(ctx context.Context, count int, which func(text []byte) bool, worker func() lineFunc) error {
	c := newWorkers(ctx, count, worker)
	stop := context.AfterFunc(ctx, func() { c.fail(ctx.Err()) })
	defer stop()
	group := ""
	err := f.raw(ctx, which, func(n int64, text []byte) error {
		name, begins, err := nameOf(text)
		if err != nil {
			return damaged(n, "%v", err)
		}
		if begins {
			group = names.Group(name)
		}
		return c.hand(group, n, text)
	})
	if ended := c.end(); err == nil {
		err = ended
	}
	return err
}

// Beginnings of the lines of rules, queues and jobs.
var (
	ruleBegins  = []byte(`{"rule":`)
	queueBegins = []byte(`{"queue":`)
	jobBegins   = []byte(`{"job":`)
	specBegins  = []byte(`{"queue":{"spec":{"name":"`)
)

// nameOf returns the name of a rule or queue from its first line. begins is false for other lines.
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
	if after, ok := bytes.CutPrefix(text, specBegins); ok { // the fast path: as penstock writes it
		if before, _, ok := bytes.Cut(after, []byte{'"'}); ok && names.Validate(string(before)) == nil {
			return string(before), true, nil
		}
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
