package archive

import (
	"bytes"
	"context"

	"github.com/penstock/penstock/internal/move"
)

// emptyWorkers is how many workers import rules, and queues without jobs. An engine imports many such queues in a step,
// so few workers suffice.
const emptyWorkers = 4

// importEmpty imports the rules and the queues without jobs, and notes which queues are left.
func (f *File) importEmpty(ctx context.Context, sum *importing) error {
	var all []*importer
	err := f.inParallel(ctx, emptyWorkers, isHead, func() lineFunc {
		i := &importer{importing: sum, mark: f.Mark}
		all = append(all, i)
		return i.empty
	})
	for _, i := range all {
		if err == nil {
			err = i.flushEmpty(ctx)
		}
	}
	return err
}

// leftLines selects those lines of the queues that are left which which selects.
func (s *importing) leftLines(which func(text []byte) bool) func(text []byte) bool {
	left := false
	return func(text []byte) bool {
		if name, begins, err := nameOf(text); err != nil || begins {
			left = s.left[name] && !bytes.HasPrefix(text, ruleBegins)
		}
		return left && which(text)
	}
}

// maxEmpty is how many queues without jobs an importer collects. The store divides them by partition.
const maxEmpty = 64 * move.MaxStep

// empty imports rules, and collects queues without jobs.
func (i *importer) empty(ctx context.Context, n int64, text []byte) (done int, err error) {
	l, err := decode(text)
	switch {
	case err != nil:
		return 0, damaged(n, "%v", err)
	case l.Rule != nil:
		err = i.rule(ctx, l.Rule)
	case l.Queue != nil:
		i.at, err = l.Queue.queue(i.specs)
	case l.End != nil && l.End.Jobs.Sum() > 0:
		i.leave(i.at.Spec.Name)
	case l.End != nil:
		i.at.Held, i.at.Counts, i.at.Errors = l.End.Held, l.End.Counts, l.End.Errors
		if i.some = append(i.some, i.at); len(i.some) == maxEmpty {
			err = i.flushEmpty(ctx)
		}
	}
	return len(text), err
}

// flushEmpty imports the queues without jobs that were collected. Queues that exist are left.
func (i *importer) flushEmpty(ctx context.Context) error {
	if len(i.some) == 0 {
		return nil
	}
	done, err := i.store.ImportQueues(ctx, i.some, i.mark)
	if err != nil {
		return err
	}
	for k, is := range done {
		if !is {
			i.leave(i.some[k].Spec.Name)
		}
	}
	i.some = i.some[:0]
	return nil
}

func (i *importer) leave(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.left[name] = true
}
