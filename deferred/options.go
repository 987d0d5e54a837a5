package deferred

import (
	"cmp"
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
	maxReplicas    = 5 // JetStream's maximum
)

// Options configures a Stream. Zero fields mean the defaults named.
type Options struct {
	// Prefix is the prefix of the names of the streams, in capitals, and of their subjects: 1 to 32 characters of a-z
	// 0-9 _ -. The default is "penstock". Stores that share a NATS need different prefixes.
	Prefix string
	// Replicas is the number of nodes of a JetStream cluster that store each job. The default is 1. Streams with fewer
	// are refused.
	Replicas int
	// MaxBytes is the limit of the stream of deferred jobs when it is created. The default is 10 GiB. The stream of
	// dead letters gets a tenth of it.
	MaxBytes int64
	// Patience is how long an engine may take to answer before deferrable jobs bypass it. The default is 800 ms.
	Patience time.Duration
	// Logger receives what no caller sees; nil discards it.
	Logger *slog.Logger
	// Observer observes the overflow; nil means none.
	Observer Observer
}

func (o Options) withDefaults() (Options, error) {
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	if len(o.Prefix) > maxPrefixBytes || strings.ContainsFunc(o.Prefix, notPrefix) {
		return o, fmt.Errorf("deferred: prefix %.40q: must be 1 to %d characters of a-z 0-9 _ -", o.Prefix, maxPrefixBytes)
	}
	o.Replicas = cmp.Or(o.Replicas, DefaultReplicas)
	if o.Replicas < 1 || o.Replicas > maxReplicas {
		return o, fmt.Errorf("deferred: replicas %d: must be from 1 to %d", o.Replicas, maxReplicas)
	}
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultMaxBytes)
	if o.MaxBytes < MinMaxBytes {
		return o, fmt.Errorf("deferred: max bytes %d: must be at least %d", o.MaxBytes, MinMaxBytes)
	}
	o.Patience = cmp.Or(o.Patience, DefaultPatience)
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

// notPrefix rejects characters that could form another token, a wildcard or an invalid stream name.
func notPrefix(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-')
}
