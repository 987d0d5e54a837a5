package archive

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// Store is a store that can be exported.
type Store interface {
	Target
	queue.Specs
	queue.Store
}

// Target is a store that a file can be imported into.
type Target interface {
	move.Mover
	queue.Rules
	List(ctx context.Context, after string, limit int) ([]queue.Info, error)
}

// ExportOptions are the options of Export, which fills in Format, At and Live of the Header.
type ExportOptions struct {
	Header Header
	// Live exports a store that may be in use.
	Live bool
	// Sign is the key to sign the file with; nil leaves it unsigned.
	Sign ed25519.PrivateKey
	// WithoutDeferred leaves out deferred jobs instead of refusing to export.
	WithoutDeferred bool
	Progress        func(jobs int64) // may be nil
	// Broken is called for each unreadable job, which is left out. It may be nil.
	Broken func(queue, id string)
}

// Exported sums up an export.
type Exported struct {
	Rules    int64 `json:"rules"`
	Queues   int64 `json:"queues"`
	Jobs     Jobs  `json:"jobs"`
	Deferred int64 `json:"deferred_left_behind"`
	Broken   int64 `json:"broken_left_out"`
}

// Refused is the reason why an export or an import did not begin.
type Refused struct{ Why string }

func (e *Refused) Error() string { return e.Why }

// errInUse means that the store changed during the export.
var errInUse = errors.New("the store changed during the export, so the file is incomplete and cannot be used: " +
	"stop all ingresses and drainers, or use --live")

const pageSize = 200 // queues or rules per request

// Export writes a store to w.
func Export(ctx context.Context, s Store, w io.Writer, o ExportOptions) (Exported, error) {
	e := &exporter{store: s, opts: o, out: bufio.NewWriterSize(w, 1<<16), sum: sha256.New(), rules: map[string]bool{}}
	if err := e.check(ctx); err != nil {
		return e.done, err
	}
	before, after := xxhash.New(), xxhash.New()
	o.Header.Format, o.Header.At, o.Header.Live = Format, time.Now().UTC().Truncate(time.Second), o.Live
	err := e.write(&line{Header: &o.Header})
	if err == nil {
		err = e.eachRule(ctx, func(i *rules.Info) error {
			traceRule(before, i)
			return e.rule(i)
		})
	}
	if err == nil {
		err = e.eachQueue(ctx, func(i *queue.Info) error { return e.queue(ctx, i.Spec.Name, before) })
	}
	if err == nil && !o.Live {
		err = e.eachRule(ctx, func(i *rules.Info) error {
			traceRule(after, i)
			return nil
		})
	}
	if err == nil && !o.Live {
		err = e.eachQueue(ctx, func(i *queue.Info) error {
			q, err := s.ExportQueue(ctx, i.Spec.Name)
			trace(after, &q)
			return err
		})
	}
	switch {
	case err != nil:
		return e.done, err
	case !o.Live && before.Sum64() != after.Sum64():
		return e.done, errInUse
	}
	t := &Trailer{
		Rules: e.done.Rules, Queues: e.done.Queues, Jobs: e.done.Jobs, Lines: e.lines,
		SHA256: hex.EncodeToString(e.sum.Sum(nil)),
	}
	if err := e.write(&line{Trailer: t}); err != nil {
		return e.done, err
	}
	if o.Sign != nil {
		if err := e.write(&line{Signature: sign(o.Sign, e.sum.Sum(nil))}); err != nil {
			return e.done, err
		}
	}
	return e.done, e.out.Flush()
}

type exporter struct {
	store Store
	opts  ExportOptions
	out   *bufio.Writer
	sum   hash.Hash
	lines int64
	rules map[string]bool // already written
	done  Exported
}

func (e *exporter) write(l *line) error {
	text, err := l.encode()
	if err != nil {
		return fmt.Errorf("encode a line: %w", err)
	}
	return e.writeText(text)
}

func (e *exporter) writeText(text []byte) error {
	e.lines++
	_, _ = e.sum.Write(text) // a hash never fails
	_, err := e.out.Write(text)
	return err
}

func (e *exporter) eachRule(ctx context.Context, do func(*rules.Info) error) error {
	for after := ""; ; {
		page, err := e.store.ListRules(ctx, after, pageSize)
		if err != nil {
			return err
		}
		for i := range page {
			if err := do(&page[i]); err != nil {
				return fmt.Errorf("rule %s: %w", page[i].Name, err)
			}
		}
		if len(page) < pageSize {
			return nil
		}
		after = page[len(page)-1].Name
	}
}

// rule writes a rule. It refuses a rule that an import would refuse, because before the export the rule can still be
// changed.
func (e *exporter) rule(i *rules.Info) error {
	text, err := rules.Encode(i.Rule)
	if err == nil {
		_, err = ruleOf(text)
	}
	if err != nil {
		return err
	}
	e.rules[i.Name] = true
	e.done.Rules++
	return e.write(&line{Rule: text})
}

// missingRules writes the rules of its group that a queue uses and that were created after the rules were read. Rules
// of another group may be missing.
func (e *exporter) missingRules(ctx context.Context, s *queue.Spec) error {
	for _, name := range ruleset.Names(s.Name, nil, s.Rules) {
		if e.rules[name] {
			continue
		}
		i, err := e.store.Rule(ctx, name)
		if err == nil {
			err = e.rule(&i)
		}
		if err != nil {
			return fmt.Errorf("rule %s: %w", name, err)
		}
	}
	return nil
}

func (e *exporter) eachQueue(ctx context.Context, do func(*queue.Info) error) error {
	for after := ""; ; {
		page, err := e.store.List(ctx, after, pageSize)
		if err != nil {
			return err
		}
		for i := range page {
			if err := do(&page[i]); err != nil {
				return fmt.Errorf("queue %s: %w", page[i].Spec.Name, err)
			}
		}
		if len(page) < pageSize {
			return nil
		}
		after = page[len(page)-1].Spec.Name
	}
}

// check refuses a store that is in use or has deferred jobs.
func (e *exporter) check(ctx context.Context) error {
	if !e.opts.Live {
		drainers, err := e.store.Drainers(ctx)
		if err != nil {
			return err
		}
		if len(drainers.Seen) > 0 {
			names := make([]string, len(drainers.Seen))
			for i, d := range drainers.Seen {
				names[i] = d.Name
			}
			return &Refused{fmt.Sprintf("drainers are running: %s; stop them and all ingresses, or use --live",
				firstNames(names))}
		}
	}
	var deferring, leasing []string
	err := e.eachQueue(ctx, func(i *queue.Info) error {
		if i.Deferred > 0 {
			deferring = append(deferring, fmt.Sprintf("%s (%d)", i.Spec.Name, i.Deferred))
			e.done.Deferred += i.Deferred
		}
		if i.Leased == 0 || e.opts.Live {
			return nil
		}
		n, err := e.leases(ctx, i.Spec.Name)
		if n > 0 {
			leasing = append(leasing, fmt.Sprintf("%s (%d)", i.Spec.Name, n))
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case len(leasing) > 0:
		return &Refused{fmt.Sprintf("jobs are leased to drainers: %s; stop the drainers and wait until the leases "+
			"expire, or use --live, which exports these jobs as waiting, or as held or dead by on_unknown", firstNames(leasing))}
	case len(deferring) > 0 && !e.opts.WithoutDeferred:
		return &Refused{fmt.Sprintf("jobs are deferred on NATS, not in the store: %s; run ingresses and drainers until "+
			"none are deferred (more capacity or a higher rate helps), or leave them out with --without-deferred",
			firstNames(deferring))}
	}
	return nil
}

// leases returns the number of valid leases of a queue.
func (e *exporter) leases(ctx context.Context, name string) (n int64, err error) {
	err = e.pages(ctx, name, queue.Leased, func(m *move.Job) error {
		if m.Lease == move.LeaseHeld {
			n++
		}
		return nil
	})
	return n, err
}

func (e *exporter) pages(ctx context.Context, name string, s queue.State, do func(*move.Job) error) error {
	for r := (move.ExportRequest{Queue: name, State: s}); ; {
		page, err := e.store.ExportJobs(ctx, r)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			if err := do(&page.Jobs[i]); err != nil {
				return err
			}
		}
		if r.After = page.Next; r.After == "" {
			return nil
		}
	}
}

// firstNames lists the first names, and how many more there are.
func firstNames(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
