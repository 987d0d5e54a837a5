package prove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// Store is the part of an installation that a run uses.
type Store interface {
	// Make makes a queue that must not exist.
	Make(ctx context.Context, spec queue.Spec) error
	// Append appends small jobs. ok says for each whether it was accepted. After an error the state is unknown, and the
	// same jobs may be appended again.
	Append(ctx context.Context, name string, list []NewJob) (ok []bool, err error)
	// Drains reports whether a process of this machine has recently reserved jobs as a drainer.
	Drains(ctx context.Context, pid int) (bool, error)
	// Look returns the queue's statistics.
	Look(ctx context.Context, name string) (Stats, error)
	// Remove removes the queue and its jobs.
	Remove(ctx context.Context, name string) error
}

// NewJob is a job to append.
type NewJob struct {
	ID, Lane string
	Costs    map[string]int64
}

// Stats has the statistics of a queue that a run uses.
type Stats struct {
	Held, Dead              int64
	Lost, Released, Expired int64
}

// payload is every job's payload, of the size of a short message.
var payload = []byte(`{"to":"prove@example.com","subject":"a job of penstock prove","text":"` +
	`This is one of many equal messages that measure the pace of a queue. ` +
	`Each is as long as a short mail or text message, and has no other meaning."}`)

// Installation is a Store that also keeps rules.
type Installation interface {
	Store
	RuleStore
}

// Engine returns an Installation on an engine.
func Engine(e queue.Engine) Installation { return engineStore{e} }

type engineStore struct{ queue.Engine }

func (s engineStore) Make(ctx context.Context, spec queue.Spec) error {
	_, err := s.Put(ctx, spec, 0)
	return err
}

func (s engineStore) Append(ctx context.Context, name string, list []NewJob) ([]bool, error) {
	jobs := make([]queue.Job, len(list))
	for i, j := range list {
		jobs[i] = queue.Job{Queue: name, ID: j.ID, Lane: j.Lane, Costs: j.Costs, Payload: payload}
		jobs[i].Normalize()
	}
	answers, err := s.Engine.Append(ctx, jobs)
	if err != nil {
		return nil, err
	}
	ok := make([]bool, len(list))
	for i := range answers {
		switch answers[i].Outcome {
		case queue.Accepted, queue.Duplicate:
			ok[i] = true
		case queue.Full:
		default:
			return nil, fmt.Errorf("append: %v: %w", answers[i].Outcome, answers[i].Err)
		}
	}
	return ok, nil
}

func (s engineStore) Drains(ctx context.Context, pid int) (bool, error) {
	drainers, err := s.Drainers(ctx)
	name := departure.NameOf(pid)
	return slices.ContainsFunc(drainers.Seen, func(d queue.Drainer) bool { return d.Name == name }), err
}

func (s engineStore) Look(ctx context.Context, name string) (Stats, error) {
	i, err := s.Get(ctx, name)
	if err != nil {
		return Stats{}, err
	}
	return Stats{Held: i.Size(), Dead: i.Dead, Lost: i.Lost, Released: i.Released, Expired: i.Expired}, nil
}

func (s engineStore) Remove(ctx context.Context, name string) error {
	err := s.Delete(ctx, name, queue.AnyRevision, true)
	if errors.Is(err, queue.ErrUnknownQueue) {
		return nil
	}
	if err != nil {
		return err
	}
	// What remains of the queue is freed in bounded parts by any client, here by this process. Other clients may be
	// sweeping too.
	for p := range s.Partitions() {
		for more := true; more; {
			if more, err = s.Sweep(ctx, p); err != nil {
				return fmt.Errorf("sweep partition %d: %w", p, err)
			}
		}
	}
	return nil
}

func (s engineStore) MakeRule(ctx context.Context, rule rules.Rule) error {
	_, err := s.PutRule(ctx, rule, 0)
	return err
}

func (s engineStore) RemoveRule(ctx context.Context, name string) error {
	err := s.DeleteRule(ctx, name, queue.AnyRevision)
	if errors.Is(err, rules.ErrUnknown) {
		return nil
	}
	return err
}

// Ingress returns the Installation behind an ingress.
func Ingress(c *client.Client) Installation { return ingressStore{c} }

type ingressStore struct{ c *client.Client }

func (s ingressStore) Make(ctx context.Context, spec queue.Spec) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("write the spec as JSON: %w", err)
	}
	_, err = s.c.Put(ctx, spec.Name, text, client.Absent)
	return err
}

func (s ingressStore) Append(ctx context.Context, name string, list []NewJob) ([]bool, error) {
	jobs := make([][]byte, len(list))
	for i, j := range list {
		lane := ""
		if j.Lane != "" {
			lane = fmt.Sprintf(`"lane":%q,`, j.Lane)
		}
		for unit, cost := range j.Costs {
			lane += fmt.Sprintf(`"costs":{%q:%d},`, unit, cost)
		}
		jobs[i] = fmt.Appendf(nil, `{"id":%q,%s"payload":%s}`, j.ID, lane, payload)
	}
	answers, err := s.c.Append(ctx, name, jobs)
	if err != nil {
		return nil, err
	}
	ok := make([]bool, len(list))
	for i := range answers {
		a := &answers[i]
		switch {
		case a.Accepted(), a.Duplicate():
			ok[i] = true
		case a.Again(): // no room, or not decided: it will be sent again
		default:
			return nil, fmt.Errorf("append: %s", a.Why())
		}
	}
	return ok, nil
}

func (s ingressStore) Drains(ctx context.Context, pid int) (bool, error) {
	answer, err := s.c.Drainers(ctx)
	name := departure.NameOf(pid)
	return slices.ContainsFunc(answer.Drainers, func(d wire.Drainer) bool { return d.Name == name }), err
}

func (s ingressStore) Look(ctx context.Context, name string) (Stats, error) {
	q, err := s.c.Queue(ctx, name)
	if err != nil {
		return Stats{}, err
	}
	t := &q.Stats
	return Stats{Held: t.Size(), Dead: t.Dead, Lost: t.Lost, Released: t.Released, Expired: t.Expired}, nil
}

func (s ingressStore) Remove(ctx context.Context, name string) error {
	err := s.c.Delete(ctx, name, client.Always, true)
	var refused *client.Problem
	if errors.As(err, &refused) && refused.Reason == "unknown_queue" {
		return nil
	}
	return err
}

func (s ingressStore) MakeRule(ctx context.Context, rule rules.Rule) error {
	text, err := rules.Encode(rule)
	if err != nil {
		return fmt.Errorf("write the rule as JSON: %w", err)
	}
	_, err = s.c.PutRule(ctx, rule.Name, text, client.Absent)
	return err
}

func (s ingressStore) RemoveRule(ctx context.Context, name string) error {
	err := s.c.DeleteRule(ctx, name, client.Always, false)
	var refused *client.Problem
	if errors.As(err, &refused) && refused.Reason == "unknown_rule" {
		return nil
	}
	return err
}
