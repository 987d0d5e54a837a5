// Package redisq is the engine on Redis: one server, Sentinel or Cluster, Redis 7.0 or newer.
//
// It keeps the contract of package queue for any number of processes on one store. Every operation is one Lua script
// that touches one slot, and decides by the server's clock alone. A call whose reply was lost is repeated under the
// same name and gets the same answer.
//
// Acknowledged changes survive the death of any client. They survive the death of Redis as far as Redis itself is
// durable: with appendfsync always, all of them do.
//
// It refuses a server that may evict keys, an empty server unless asked to make a store, and a store of a newer schema
// or of another number of partitions.
package redisq

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/coalesce"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
)

// Defaults of Options.
const (
	DefaultPartitions = 16
	DefaultPrefix     = "ps"
	DefaultPatience   = 3 * time.Second

	// tries is how many tries a call has time for if none is answered.
	tries = 3

	// lanes is how many batches of a partition may be under way.
	lanes = 2
)

// Options of Open and OpenClient. Zero fields mean the defaults named.
type Options struct {
	// Init makes a store if Redis is empty. Without it an empty Redis is ErrNoStore.
	Init bool
	// Partitions is the number of partitions, which is fixed when the store is made. The default is 16, or the number
	// that an existing store has.
	Partitions int
	// Prefix begins every key. The default is "ps".
	Prefix string
	Logger *slog.Logger // the default discards everything
	// Patience is the maximum time for which a call waits for Redis, a third of it for each try. The default is 3 s; a
	// slow link needs more. With OpenClient, the client's ReadTimeout (by default 3 s) must leave time for a try too.
	Patience time.Duration
	// KeepChanges is how long changes of queues and rules are kept. The store keeps this setting for all processes. 0
	// leaves it unchanged; initially it is queue.KeepChanges.
	KeepChanges time.Duration
	// Mask returns the text of a queue, a rule or a document that the audit log may show: JSON on one line in which
	// secrets are masked. kind is "queue", "rule", or the document's kind. Nil masks nothing.
	Mask func(kind string, text []byte) []byte
	// Hook sees every command to Redis. Only Open uses it.
	Hook redis.Hook
	// Now replaces the server's clock, for simulation and tests.
	Now func() leaky.Instant
}

// Engine is a queue.Engine on Redis.
type Engine struct {
	client     redis.UniversalClient
	owned      redis.UniversalClient // the client if Close closes it
	made       bool                  // whether Open made the store
	log        *slog.Logger
	now        func() leaky.Instant
	patience   time.Duration
	prefix     string
	mask       func(kind string, text []byte) []byte
	store      string   // its id, as it was at Open
	keys       []string // of the partitions' hashes
	clocks     []shownClock
	appends    []*coalesce.Coalescer[pendingJob, queue.Appended]
	settles    []*coalesce.Coalescer[queue.Settlement, queue.Settled]
	takes      []*coalesce.Coalescer[takeItem, rules.Taken]
	rules      cache[rule]       // rules that were asked
	rulesets   cache[queueRules] // rulesets of queues
	stampSeed  [4]byte
	stampCount atomic.Uint32
	reloaded   atomic.Pointer[time.Time] // when a cluster's masters were last reloaded

	closing context.Context
	close   context.CancelFunc
	wakers  sync.WaitGroup
	closed  sync.Once
}

var (
	_ queue.Engine = (*Engine)(nil)
	_ move.Mover   = (*Engine)(nil)
)

// Open connects to the Redis of a URL, checks its store and returns an Engine on it. See ParseURL for the URL. Close
// also closes the connections.
func Open(ctx context.Context, url string, o Options) (*Engine, error) {
	options, err := ParseURL(url)
	if err != nil {
		return nil, invalid.Errorf("url", "", "%v", err)
	}
	options.ReadTimeout, options.WriteTimeout = max(options.ReadTimeout, o.Patience), max(options.WriteTimeout, o.Patience)
	client := NewClient(options)
	if o.Hook != nil {
		client.AddHook(o.Hook)
	}
	e, err := OpenClient(ctx, client, o)
	if err != nil {
		_ = client.Close() // the other error matters
		return nil, err
	}
	e.owned = client
	return e, nil
}

// OpenClient is Open for a client that the caller made. The client must have MaxRetries -1, because an engine repeats
// calls in its own way, and ContextTimeoutEnabled; NewClient makes one. The caller closes it after the engine. The
// engine makes a cluster client reload its masters after a call without an answer.
func OpenClient(ctx context.Context, client redis.UniversalClient, o Options) (*Engine, error) {
	if err := checkClient(client); err != nil {
		return nil, err
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if !validPrefix(o.Prefix) {
		return nil, fmt.Errorf("prefix %s: must be 1 to 16 of a-z 0-9 _ -", clip.Quote(o.Prefix, 40))
	}
	if o.Partitions == 0 {
		o.Partitions = partitionsOf(ctx, client, o.Prefix)
	}
	if o.Partitions < 1 || o.Partitions > 4096 {
		return nil, fmt.Errorf("partitions %d: must be from 1 to 4096", o.Partitions)
	}
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	if o.Patience < 0 {
		return nil, fmt.Errorf("patience %v: must not be negative", o.Patience)
	}
	if err := queue.ValidateKeepChanges(o.KeepChanges); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Engine{client: client, log: o.Logger, now: o.Now, patience: o.Patience, prefix: o.Prefix, mask: o.Mask}
	_, _ = rand.Read(e.stampSeed[:])
	e.closing, e.close = context.WithCancel(context.Background())
	e.clocks = make([]shownClock, o.Partitions)
	for p := range o.Partitions {
		e.keys = append(e.keys, fmt.Sprintf("%s{%d}", o.Prefix, p))
		e.appends = append(e.appends, coalesce.New(lanes, o.Patience, pendingJob.size,
			func(ctx context.Context, items []pendingJob) ([]queue.Appended, error) {
				return e.sendAppend(ctx, p, items)
			}, failedAppend))
		e.settles = append(e.settles, coalesce.New(lanes, o.Patience,
			func(s queue.Settlement) int { return 64 + len(s.Reason) },
			func(ctx context.Context, s []queue.Settlement) ([]queue.Settled, error) {
				return e.sendSettle(ctx, p, s)
			}, failedSettle))
		e.takes = append(e.takes, coalesce.New(lanes, o.Patience, takeItem.size,
			func(ctx context.Context, items []takeItem) ([]rules.Taken, error) {
				return e.sendTake(ctx, p, items)
			},
			func(_ takeItem, err error) rules.Taken { return rules.Taken{Err: err} }))
	}
	if err := e.openStore(ctx, o.Init); err != nil {
		return nil, err
	}
	if err := e.keepChanges(ctx, o.KeepChanges); err != nil {
		return nil, err
	}
	return e, nil
}

// checkClient returns an error if the client would repeat calls by itself, or outlast a call's deadline.
func checkClient(client redis.UniversalClient) error {
	retries, heeds := 0, true
	switch c := client.(type) { // in their options a MaxRetries of -1 has become 0
	case *redis.Client:
		retries, heeds = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		retries, heeds = max(0, c.Options().MaxRetries), c.Options().ContextTimeoutEnabled
	}
	if retries > 0 {
		return invalid.Errorf("client.MaxRetries", "", "is %d, must be -1: the client would repeat a call whose answer was "+
			"lost, and an engine repeats calls in its own way; set it, or call Open with a URL", retries)
	}
	if !heeds {
		return invalid.Errorf("client.ContextTimeoutEnabled", "", "is false, must be true: the client would wait longer "+
			"than a call may take; set it, or call Open with a URL")
	}
	return nil
}

func validPrefix(s string) bool {
	if len(s) > 16 {
		return false
	}
	for _, c := range s {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return s != ""
}

// Made reports whether Open made the store.
func (e *Engine) Made() bool { return e.made }

// Partitions implements queue.Outflow.
func (e *Engine) Partitions() int { return len(e.keys) }

// Partition returns the partition of a queue.
func (e *Engine) Partition(name string) int {
	return int(xxhash.Sum64String(names.Group(name)) % uint64(len(e.keys)))
}

// Close ends calls that are under way, and closes the connections that Open made.
func (e *Engine) Close() (err error) {
	e.closed.Do(func() {
		e.close()
		for p := range e.keys {
			e.appends[p].Close()
			e.settles[p].Close()
			e.takes[p].Close()
		}
		e.wakers.Wait()
		if e.owned != nil {
			err = e.owned.Close()
		}
	})
	return err
}

// instant returns ARGV[1] of every script.
func (e *Engine) instant() any {
	if e.now == nil {
		return ""
	}
	return int64(e.now())
}

// stamps returns the 6 bytes that name one append call; the index of the job follows. By its stamp the script
// recognizes a job whose call is repeated.
func (e *Engine) stamps() [6]byte {
	n := e.stampCount.Add(1)
	return [6]byte{e.stampSeed[0], e.stampSeed[1], e.stampSeed[2], e.stampSeed[3] ^ byte(n>>16), byte(n >> 8), byte(n)}
}

// randomID names a store, or a call that must be recognized when it is repeated.
func randomID() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
