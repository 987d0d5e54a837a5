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
)

// Applied is what Apply found and did.
type Applied struct {
	Created []string
	Same    int
	// Drifted are the queues that the engine has otherwise than the file, with
	// the fields that differ. They were left alone.
	Drifted map[string][]string
}

// Apply makes the queues that are missing and reports those that differ; it
// changes none. Two processes that start with the same file do not get in each
// other's way.
func Apply(ctx context.Context, engine queue.Specs, specs []queue.Spec, log *slog.Logger) (Applied, error) {
	a := Applied{Drifted: map[string][]string{}}
	for _, spec := range specs {
		_, err := engine.Put(ctx, spec, 0)
		if err == nil {
			a.Created = append(a.Created, spec.Name)
			log.Info("queue created from the file", "queue", spec.Name, "rate", spec.Rate.String())
			continue
		}
		if !errors.Is(err, queue.ErrRevision) {
			return a, fmt.Errorf("creating queue %s: %w", spec.Name, err)
		}
		info, err := engine.Get(ctx, spec.Name)
		if errors.Is(err, queue.ErrUnknownQueue) {
			continue // deleted just now, by somebody who meant it
		}
		if err != nil {
			return a, fmt.Errorf("comparing queue %s: %w", spec.Name, err)
		}
		fields, err := differing(spec, info.Spec)
		if err != nil {
			return a, fmt.Errorf("comparing queue %s: %w", spec.Name, err)
		}
		if len(fields) == 0 {
			a.Same++
			continue
		}
		a.Drifted[spec.Name] = fields
		log.Warn("queue differs from the file and was left as it is; penstock queue apply changes it", "queue", spec.Name, "fields", fields, "revision", info.Revision)
	}
	return a, nil
}

// differing names the fields in which two specs differ.
func differing(a, b queue.Spec) ([]string, error) {
	var fields [2]map[string]json.RawMessage
	for i, s := range []queue.Spec{a, b} {
		raw, err := queue.EncodeSpec(s)
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
