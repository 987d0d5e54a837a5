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
	Rules     int64 `json:"rules"`
	Queues    int64 `json:"queues"`
	Jobs      Jobs  `json:"jobs"` // in the file: the sum of the fields below
	Placed    int64 `json:"placed"`
	There     int64 `json:"there_already"`
	Forgotten int64 `json:"forgotten"`
	Clashes   int64 `json:"clashes"`
	Failed    int64 `json:"failed"`
}

// Whole reports whether no job was left out.
func (i *Imported) Whole() bool { return i.Clashes+i.Failed == 0 }

// ImportOptions are the options of Import.
type ImportOptions struct {
	// Together is the number of queues to import concurrently; 0 means 16. An embedded store writes concurrent imports in
	// one commit, so use some thousands for it. Progress and Left are called by one goroutine at a time.
	Together int
	Progress func(jobs int64) // may be nil
	// Left is called for each job that is left out, because another job has its id, or because its key in the store holds
	// something else.
	Left func(queue, id string, o move.Outcome)
}

// Standing compares a rule or a queue of the file with the store.
type Standing struct {
	Rule  string `json:"rule,omitempty"`
	Queue string `json:"queue,omitempty"`
	// Jobs is the number of jobs in the file, Present the number in the store, dead ones included.
	Jobs    int64 `json:"jobs"`
	Present int64 `json:"present"`
	// Is is new, ready, begun (an interrupted import of this file), done (a complete one), or a conflict. For a rule it
	// is new, ready or a conflict.
	Is   string `json:"is"`
	Bars bool   `json:"bars,omitzero"` // it is a conflict, so nothing can be imported
}

// Name returns the name of the queue or rule. The name of a rule has "rule" before it.
func (s *Standing) Name() string {
	if s.Rule != "" {
		return "rule " + s.Rule
	}
	return s.Queue
}

// Compare compares each rule and queue of the file with the store.
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
		st.Is, st.Bars = "exists with other settings", true
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
		st.Is, st.Bars = fmt.Sprintf("has an unfinished import %s", there.Import), true
	case st.Present > 0:
		st.Is, st.Bars = fmt.Sprintf("holds %d jobs", st.Present), true
	case !there.Spec.Equal(*spec):
		st.Is, st.Bars = "exists with other settings", true
	default:
		st.Is = "ready"
	}
	return st, nil
}

// Import imports the file into a store. It may be repeated, and skips what is already imported.
func (f *File) Import(ctx context.Context, s Target, o ImportOptions) (Imported, error) {
	conflicts, err := f.conflicts(ctx, s)
	if err == nil && len(conflicts) > 0 {
		err = &Refused{fmt.Sprintf("queues or rules are in the way: %s; delete them (penstock queue rm, rule rm) or "+
			"import into another store. Nothing was changed", firstNames(conflicts))}
	}
	sum := &importing{store: s, specs: &f.specs, opts: o, left: map[string]bool{}}
	sum.done.Jobs, sum.done.Queues, sum.done.Rules = f.Trailer.Jobs, f.Trailer.Queues, f.Trailer.Rules
	if err == nil {
		err = f.importEmpty(ctx, sum)
	}
	count := cmp.Or(o.Together, 16)
	if err == nil && len(sum.left) > 0 {
		err = f.inParallel(ctx, count, sum.leftLines(func([]byte) bool { return true }), func() lineFunc {
			i := &importer{importing: sum, mark: f.Mark}
			return i.take
		})
	}
	if err == nil && len(sum.left) > 0 {
		// Jobs may leave only now that all are in.
		err = f.inParallel(ctx, count, sum.leftLines(isHead), func() lineFunc {
			i := &importer{importing: sum, mark: f.Mark}
			return i.close
		})
	}
	if d := sum.done; err == nil && d.Placed+d.There+d.Forgotten+d.Clashes+d.Failed != d.Jobs.Sum() {
		err = fmt.Errorf("the file has %d jobs, but the outcomes are %+v", d.Jobs.Sum(), d)
	}
	return sum.done, err
}

// conflicts returns the rules and queues that are in the way. It decodes only queues that exist.
func (f *File) conflicts(ctx context.Context, s Target) (conflicts []string, err error) {
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
			conflicts = append(conflicts, fmt.Sprintf("%s %s", st.Name(), st.Is))
		}
		return err
	})
	return conflicts, err
}

// presence knows which queues exist, a page at a time. A round trip for each queue would take longer than its import.
type presence struct {
	store Target
	page  []queue.Info // queues in order of name
	all   bool         // no queue follows them
}

// has reports whether a queue exists. Call it with names in order.
func (p *presence) has(ctx context.Context, name string) (bool, error) {
	for !p.all && (len(p.page) == 0 || p.page[len(p.page)-1].Spec.Name < name) {
		after := name[:len(name)-1] // few names lie between
		if len(p.page) > 0 {
			after = max(after, p.page[len(p.page)-1].Spec.Name)
		}
		page, err := p.store.List(ctx, after, pageSize)
		if err != nil {
			return false, err
		}
		p.page, p.all = page, len(page) < pageSize
	}
	_, is := slices.BinarySearchFunc(p.page, name, func(i queue.Info, name string) int {
		return strings.Compare(i.Spec.Name, name)
	})
	return is, nil
}

// standing compares the first line of a rule or a queue with the store.
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

// importing is shared by all importers of a file.
type importing struct {
	store Target
	specs *queue.SpecParser
	opts  ImportOptions

	mu   sync.Mutex
	done Imported
	left map[string]bool // queues that are not imported yet, after those without jobs
}

// importer imports rules and queues, one after the other.
type importer struct {
	*importing
	mark  string
	at    move.Queue   // the present one
	some  []move.Queue // without jobs, to be imported together
	over  bool         // already imported
	jobs  []move.Job
	bytes int // of their records
	held  int // bytes of unfinished lines
}

// take imports a line. Lines of jobs are finished when a page of them is in the store.
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

// flush imports the jobs that were read.
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

// rule creates a rule. If it exists by now it must be the same, because the queues were checked against it.
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

// close resumes a queue at its last line.
func (i *importer) close(ctx context.Context, n int64, text []byte) (done int, err error) {
	l, err := decode(text)
	switch {
	case err != nil:
		return 0, damaged(n, "%v", err)
	case l.Queue != nil: // the spec is already in the store
		if i.at, err = l.Queue.rest(); err == nil {
			i.at.Spec.Name, _, err = nameOf(text)
		}
	case l.End != nil:
		i.at.Held, i.at.Counts, i.at.Errors = l.End.Held, l.End.Counts, l.End.Errors
		err = i.store.CloseImport(ctx, i.at, i.mark)
	}
	return len(text), err
}
