package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// Imported sums up an import.
type Imported struct {
	Rules  int64 `json:"rules"`
	Queues int64 `json:"queues"`
	Jobs   Jobs  `json:"jobs"` // of the file: all that follow together
	// What became of them.
	Placed    int64 `json:"placed"`
	There     int64 `json:"there_already"`
	Forgotten int64 `json:"forgotten"`
	Clashes   int64 `json:"clashes"`
	Failed    int64 `json:"failed"`
}

// Whole reports whether all jobs that could matter are in.
func (i *Imported) Whole() bool { return i.Clashes+i.Failed == 0 }

// ImportOptions say how a file is imported.
type ImportOptions struct {
	// Together is how many queues are worked on at once; 0 is 16. An embedded store puts what comes together on disk in
	// one go, and takes some thousands. Progress and Left are called by one at a time.
	Together int
	Progress func(jobs int64) // nil is none
	// Left hears of jobs that are left out because another has their id, or their key is not ours.
	Left func(queue, id string, o move.Outcome)
}

// Standing is what there is in the store of a rule or a queue of the file.
type Standing struct {
	Rule  string `json:"rule,omitempty"`
	Queue string `json:"queue,omitempty"`
	// Jobs are those of the file, Present is how many are in the store, dead ones too.
	Jobs    int64 `json:"jobs"`
	Present int64 `json:"present"`
	// Is: new, ready, begun (this import was broken off), done (it was finished), or why it is in the way. A rule
	// is new, ready or in the way.
	Is   string `json:"is"`
	Bars bool   `json:"bars,omitzero"` // nothing can be imported for its sake
}

// Name is how it is called where both are told of.
func (s *Standing) Name() string {
	if s.Rule != "" {
		return "rule " + s.Rule
	}
	return s.Queue
}

// Compare says of each rule and queue of the file what there is in the store.
func (f *File) Compare(ctx context.Context, s Target, do func(Standing)) error {
	var now Standing
	return f.heads(ctx, func(_ int64, l *line) error {
		if l.End != nil {
			now.Jobs = l.End.Jobs.Sum()
			do(now)
			return nil
		}
		st, err := f.standing(ctx, s, l)
		if now = st; err == nil && l.Rule != nil {
			do(st)
		}
		return err
	})
}

func compareRule(ctx context.Context, s Target, text []byte) (Standing, error) {
	r, err := ruleOf(text)
	st := Standing{Rule: r.Name, Is: "ready"}
	if err != nil {
		return st, err
	}
	there, err := s.Rule(ctx, r.Name)
	if errors.Is(err, rules.ErrUnknown) {
		st.Is = "new"
		return st, nil
	}
	if err != nil {
		return st, err
	}
	same, err := sameRule(r, there.Rule)
	if !same {
		st.Is, st.Bars = "is there with other settings", true
	}
	return st, err
}

func sameRule(a, b rules.Rule) (bool, error) {
	x, err := rules.Encode(a)
	if err != nil {
		return false, err
	}
	y, err := rules.Encode(b)
	return bytes.Equal(x, y), err
}

func (f *File) compare(ctx context.Context, s Target, spec *queue.Spec) (Standing, error) {
	st := Standing{Queue: spec.Name}
	there, err := s.ExportQueue(ctx, spec.Name)
	if errors.Is(err, queue.ErrUnknownQueue) {
		st.Is = "new"
		return st, nil
	}
	if err != nil {
		return st, err
	}
	st.Present = there.Held + there.Deferred + there.Dead
	switch {
	case there.Import == f.Mark && there.Open:
		st.Is = "begun"
	case there.Import == f.Mark:
		st.Is = "done"
	case there.Open:
		st.Is, st.Bars = fmt.Sprintf("import %s into it is not finished", there.Import), true
	case st.Present > 0:
		st.Is, st.Bars = fmt.Sprintf("holds %d jobs", st.Present), true
	case !there.Spec.Equal(*spec):
		st.Is, st.Bars = "is there with other settings", true
	default:
		st.Is = "ready"
	}
	return st, nil
}

// Import puts the file into a store. It may be repeated: what is in is passed.
func (f *File) Import(ctx context.Context, s Target, o ImportOptions) (Imported, error) {
	bars, err := f.bars(ctx, s)
	if err == nil && len(bars) > 0 {
		err = &Refused{fmt.Sprintf("queues or rules are in the way: %s; remove them (penstock queue rm, rule rm), or "+
			"import into another store. Nothing was changed", some(bars))}
	}
	sum := &importing{store: s, specs: &f.specs, opts: o}
	sum.done.Jobs, sum.done.Queues, sum.done.Rules = f.Trailer.Jobs, f.Trailer.Queues, f.Trailer.Rules
	count := cmp.Or(o.Together, 16)
	if err == nil {
		err = f.inParallel(ctx, count, func([]byte) bool { return true }, func() lineFunc {
			i := &importer{importing: sum, mark: f.Mark}
			return i.take
		})
	}
	if err == nil {
		// Only now that all is in may anything leave.
		err = f.inParallel(ctx, count, isHead, func() lineFunc {
			i := &importer{importing: sum, mark: f.Mark}
			return i.close
		})
	}
	if d := sum.done; err == nil && d.Placed+d.There+d.Forgotten+d.Clashes+d.Failed != d.Jobs.Sum() {
		err = fmt.Errorf("the file has %d jobs, and %+v became of them", d.Jobs.Sum(), d)
	}
	return sum.done, err
}

// bars names what is in the way. Of a queue that is not there only the name is read.
func (f *File) bars(ctx context.Context, s Target) (bars []string, err error) {
	there := presence{store: s}
	err = f.raw(ctx, isHead, func(n int64, text []byte) error {
		name, begins, err := nameOf(text)
		if err != nil {
			return damaged(n, "%v", err)
		}
		if !begins {
			return nil
		}
		if bytes.HasPrefix(text, queueBegins) {
			if is, err := there.has(ctx, name); err != nil || !is {
				return err
			}
		}
		l, err := decode(text)
		if err != nil {
			return damaged(n, "%v", err)
		}
		st, err := f.standing(ctx, s, &l)
		if st.Bars {
			bars = append(bars, fmt.Sprintf("%s %s", st.Name(), st.Is))
		}
		return err
	})
	return bars, err
}

// presence knows which queues are in a store, a page of them at a time. A round trip for each queue of a file would
// take longer than to import it.
type presence struct {
	store Target
	page  []queue.Info // the queues behind some name, in order
	all   bool         // none comes behind them
}

// has reports whether there is a queue of that name. It is asked for names in order.
func (p *presence) has(ctx context.Context, name string) (bool, error) {
	for !p.all && (len(p.page) == 0 || p.page[len(p.page)-1].Spec.Name < name) {
		after := name[:len(name)-1] // little lies between that and the name
		if len(p.page) > 0 {
			after = max(after, p.page[len(p.page)-1].Spec.Name)
		}
		page, err := p.store.List(ctx, after, listed)
		if err != nil {
			return false, err
		}
		p.page, p.all = page, len(page) < listed
	}
	_, is := slices.BinarySearchFunc(p.page, name, func(i queue.Info, name string) int {
		return strings.Compare(i.Spec.Name, name)
	})
	return is, nil
}

// standing compares the line that begins a rule or a queue.
func (f *File) standing(ctx context.Context, s Target, l *line) (Standing, error) {
	if l.Rule != nil {
		return compareRule(ctx, s, l.Rule)
	}
	q, err := l.Queue.queue(&f.specs)
	if err != nil {
		return Standing{}, err
	}
	return f.compare(ctx, s, &q.Spec)
}

// importing is what all who import a file have in common.
type importing struct {
	store Target
	specs *queue.SpecParser
	opts  ImportOptions

	mu   sync.Mutex
	done Imported
}

// importer fills queues, one after the other.
type importer struct {
	*importing
	mark  string
	at    move.Queue // that is being filled
	over  bool       // it was finished before
	jobs  []move.Job
	bytes int // of their records
	held  int // bytes of the lines that are not done with
}

// take imports a line. Those of jobs are done with when a page of them is in.
func (i *importer) take(ctx context.Context, n int64, text []byte) (done int, err error) {
	i.held += len(text)
	l, err := decode(text)
	if err != nil {
		return 0, damaged(n, "%v", err)
	}
	if err := i.line(ctx, &l); err != nil {
		return 0, err
	}
	if len(i.jobs) > 0 {
		return 0, nil
	}
	done, i.held = i.held, 0
	return done, nil
}

func (i *importer) line(ctx context.Context, l *line) (err error) {
	switch {
	case l.Rule != nil:
		return i.rule(ctx, l.Rule)
	case l.Queue != nil:
		if i.at, err = l.Queue.queue(i.specs); err == nil {
			i.over, err = i.store.OpenImport(ctx, i.at, i.mark)
		}
		return err
	case l.End != nil:
		return i.flush(ctx)
	case i.over:
		i.mu.Lock()
		defer i.mu.Unlock()
		i.done.There++
		return nil
	}
	m, err := l.Job.job(i.at.Spec.Name)
	if err != nil {
		return err
	}
	i.jobs, i.bytes = append(i.jobs, m), i.bytes+len(m.Record)
	if i.bytes >= move.MaxPageBytes || len(i.jobs) == queue.MaxPage {
		return i.flush(ctx)
	}
	return nil
}

// flush puts in the jobs that were read.
func (i *importer) flush(ctx context.Context) error {
	if len(i.jobs) == 0 {
		return nil
	}
	name := i.at.Spec.Name
	out, err := i.store.ImportJobs(ctx, name, i.mark, i.jobs)
	if err != nil {
		return fmt.Errorf("queue %s: %w", name, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for k, o := range out {
		switch o {
		case move.Placed:
			i.done.Placed++
		case move.There:
			i.done.There++
		case move.Forgotten:
			i.done.Forgotten++
		case move.Clashes:
			i.done.Clashes++
		default:
			i.done.Failed++
		}
		if (o == move.Clashes || o == move.Failed) && i.opts.Left != nil {
			i.opts.Left(name, i.jobs[k].ID, o)
		}
	}
	i.jobs, i.bytes = i.jobs[:0], 0
	if d := i.done; i.opts.Progress != nil {
		i.opts.Progress(d.Placed + d.There + d.Forgotten + d.Clashes + d.Failed)
	}
	return nil
}

// rule makes a rule. One that is there by now must be the same: the queues were asked by this one.
func (i *importer) rule(ctx context.Context, text []byte) error {
	r, err := ruleOf(text)
	if err != nil {
		return err
	}
	_, err = i.store.PutRule(ctx, r, 0)
	if !errors.Is(err, queue.ErrRevision) {
		return err
	}
	st, err := compareRule(ctx, i.store, text)
	if err == nil && st.Is != "ready" {
		err = fmt.Errorf("rule %s was changed meanwhile: repeat the import", r.Name)
	}
	return err
}

// close lets the queue of a line go on, at its end.
func (i *importer) close(ctx context.Context, n int64, text []byte) (done int, err error) {
	l, err := decode(text)
	switch {
	case err != nil:
		return 0, damaged(n, "%v", err)
	case l.Queue != nil: // the spec is in
		if i.at, err = l.Queue.rest(); err == nil {
			i.at.Spec.Name, _, err = nameOf(text)
		}
	case l.End != nil:
		i.at.Held, i.at.Counts, i.at.Errors = l.End.Held, l.End.Counts, l.End.Errors
		err = i.store.CloseImport(ctx, i.at, i.mark)
	}
	return len(text), err
}
