package config

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/ruleset"
)

// Applied is the result of Apply.
type Applied struct{ Rules, Queues Found }

// Found compares the rules, or the queues, of a file with those of the engine.
type Found struct {
	Created []string
	Same    int
	// Drifted names the items that differ in the engine, with their differing fields. They are not changed.
	Drifted map[string][]string
}

// Apply creates missing rules and queues, and reports existing ones that differ without changing them. It begins with
// rules because queues refer to them. Several processes may apply the same file at the same time.
func Apply(ctx context.Context, engine queue.Engine, f File, log *slog.Logger) (a Applied, err error) {
	a.Rules, err = apply(ctx, kind[rules.Rule]{
		word: "rule", unknown: rules.ErrUnknown,
		name:   func(r *rules.Rule) string { return r.Name },
		encode: rules.Encode,
		put: func(ctx context.Context, r rules.Rule, expect int64) (queue.PutResult, error) {
			if _, err := engine.Rule(ctx, r.Name); errors.Is(err, rules.ErrUnknown) { // existing items are not changed
				if err := ruleset.CheckPlaces(ctx, engine, &r); err != nil {
					return queue.PutResult{}, err
				}
			}
			return engine.PutRule(ctx, r, expect)
		},
		get: func(ctx context.Context, name string) (rules.Rule, int64, error) {
			info, err := engine.Rule(ctx, name)
			return info.Rule, info.Revision, err
		},
	}, f.Rules, log)
	if err != nil {
		return a, err
	}
	a.Queues, err = apply(ctx, kind[queue.Spec]{
		word: "queue", unknown: queue.ErrUnknownQueue,
		name:   func(s *queue.Spec) string { return s.Name },
		encode: queue.EncodeSpec,
		put: func(ctx context.Context, s queue.Spec, expect int64) (queue.PutResult, error) {
			if _, err := engine.Get(ctx, s.Name); errors.Is(err, queue.ErrUnknownQueue) { // existing items are not changed
				if err := ruleset.CheckOthers(ctx, engine, &s); err != nil {
					return queue.PutResult{}, err
				}
			}
			return engine.Put(ctx, s, expect)
		},
		get: func(ctx context.Context, name string) (queue.Spec, int64, error) {
			info, err := engine.Get(ctx, name)
			return info.Spec, info.Revision, err
		},
	}, f.Queues, log)
	return a, err
}

// kind holds the functions that differ between rules and queues.
type kind[T any] struct {
	word    string
	unknown error
	name    func(*T) string
	encode  func(T) ([]byte, error)
	put     func(context.Context, T, int64) (queue.PutResult, error)
	get     func(ctx context.Context, name string) (T, int64, error)
}

func apply[T any](ctx context.Context, k kind[T], items []T, log *slog.Logger) (Found, error) {
	found := Found{Drifted: map[string][]string{}}
	for i := range items {
		name := k.name(&items[i])
		_, err := k.put(ctx, items[i], 0)
		if err == nil {
			found.Created = append(found.Created, name)
			log.Info("created from the file", k.word, name)
			continue
		}
		if !errors.Is(err, queue.ErrRevision) {
			return found, fmt.Errorf("creating %s %s: %w", k.word, name, err)
		}
		there, revision, err := k.get(ctx, name)
		if errors.Is(err, k.unknown) {
			continue // deleted just now, on purpose
		}
		var fields []string
		if err == nil {
			fields, err = differing(items[i], there, k.encode)
		}
		if err != nil {
			return found, fmt.Errorf("comparing %s %s: %w", k.word, name, err)
		}
		if len(fields) == 0 {
			found.Same++
			continue
		}
		found.Drifted[name] = fields
		log.Warn(
			"differs from the file; not changed", k.word, name, "fields", fields, "revision", revision, "to_change",
			"penstock "+k.word+" apply",
		)
	}
	return found, nil
}

// differing names the fields in which a and b differ.
func differing[T any](a, b T, encode func(T) ([]byte, error)) ([]string, error) {
	var fields [2]map[string]json.RawMessage
	for i, v := range []T{a, b} {
		raw, err := encode(v)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &fields[i]); err != nil {
			return nil, err
		}
	}
	var names []string
	for i := range fields {
		for name, value := range fields[i] {
			if !bytes.Equal(value, fields[1-i][name]) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}
