package deferred

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Defaults and limits of Options.
const (
	DefaultPrefix   = "penstock"
	DefaultReplicas = 1
	DefaultMaxBytes = 10 << 30
	DefaultPatience = 800 * time.Millisecond
	MinMaxBytes     = 1 << 20

	maxPrefixBytes = 32
	maxReplicas    = 5 // of JetStream
)

// Options of a Stream. Zero fields mean the defaults named.
type Options struct {
	// Prefix begins the names of the streams, in capitals, and their subjects: 1 to 32 of
	// a-z 0-9 _ -; "penstock". Stores that share a NATS have one each.
	Prefix string
	// Replicas is on how many nodes of a JetStream cluster each job is kept; 1.
	// Streams with fewer are refused.
	Replicas int
	// MaxBytes is how much the stream of deferred jobs may hold when it is made;
	// 10 GiB. That of the dead letters is made to hold a tenth of it.
	MaxBytes int64
	// Patience is how long an engine may take to answer before a job that may wait goes without it; 800 ms.
	Patience time.Duration
	// Logger receives what no caller is told; nil discards it.
	Logger *slog.Logger
	// Observer is told what happens; nil is nobody.
	Observer Observer
}

func (o Options) withDefaults() (Options, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if len(o.Prefix) > maxPrefixBytes || strings.ContainsFunc(o.Prefix, notPrefix) {
		return o, fmt.Errorf("deferred: prefix %.40q: must be 1 to %d of a-z 0-9 _ -", o.Prefix, maxPrefixBytes)
	}
	if o.Replicas == 0 {
		o.Replicas = DefaultReplicas
	}
	if o.Replicas < 1 || o.Replicas > maxReplicas {
		return o, fmt.Errorf("deferred: replicas %d: must be from 1 to %d", o.Replicas, maxReplicas)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxBytes < MinMaxBytes {
		return o, fmt.Errorf("deferred: max bytes %d: must be at least %d", o.MaxBytes, MinMaxBytes)
	}
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	if o.Patience < 0 {
		return o, fmt.Errorf("deferred: patience %v: must not be negative", o.Patience)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = NoObserver{}
	}
	return o, nil
}

// notPrefix tells what would be another token, a wildcard, or no name of a stream.
func notPrefix(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-')
}
