package redisq

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/queue"
)

// Schema is the version of the keys' layout that this package reads and writes.
const Schema = 1

const (
	// makingTime is how long another process may take to make a store.
	makingTime  = 3 * time.Second
	makingPause = 10 * time.Millisecond
)

// partitionsOf returns the number of partitions of the store, or the default if that cannot be read: then opening the
// store says why, or makes one.
func partitionsOf(ctx context.Context, client redis.UniversalClient, prefix string) int {
	if n, err := client.HGet(ctx, prefix+"{0}", "partitions").Int(); err == nil && n > 0 {
		return n
	}
	return DefaultPartitions
}

// openStore refuses servers that cannot keep a store, and makes one if asked.
func (e *Engine) openStore(ctx context.Context, makeIt bool) error {
	if err := checkServers(ctx, e.client); err != nil {
		return err
	}
	missing, err := e.checkPartitions(ctx)
	for begin := time.Now(); makeIt && err == nil && len(missing) > 0 && len(missing) < len(e.keys) &&
		time.Since(begin) < makingTime; {
		// Another process with --init may be making it at this moment.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(makingPause):
		}
		missing, err = e.checkPartitions(ctx)
	}
	if err != nil || len(missing) == 0 {
		return err
	}
	if len(missing) < len(e.keys) {
		return fmt.Errorf("%w: %d of %d partitions are gone (the first is %s): a server of this store was flushed or "+
			"replaced; restore it from its backup",
			queue.ErrNoStore, len(missing), len(e.keys), missing[0])
	}
	if !makeIt {
		return fmt.Errorf("%w: this redis is empty of penstock (prefix %q); to make a store of it run "+
			"penstock init, or start once with --init, and if it should hold one, it was flushed: do not",
			queue.ErrNoStore, e.prefix)
	}
	// If several processes make it at once, the first to make a partition names the store for all.
	id := randomID()
	for p := range e.keys {
		v, err := e.repeat(ctx, initScript, p, e.instant(), Schema, id, len(e.keys))
		if err != nil {
			return fmt.Errorf("making the store: %w", err)
		}
		made := list(v)
		made.text() // the schema, which is checked below
		if id = made.text(); made.err != nil {
			return made.err
		}
	}
	e.made = true
	if missing, err = e.checkPartitions(ctx); err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: %s vanished while the store was made", queue.ErrNoStore, missing[0])
	}
	return err
}

// Check implements queue.Engine.
func (e *Engine) Check(ctx context.Context) error {
	missing, err := e.checkPartitions(ctx)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %d of %d partitions are gone (the first is %s): redis was flushed or replaced; "+
			"restore it from its backup",
			queue.ErrNoStore, len(missing), len(e.keys), missing[0])
	}
	return nil
}

// checkPartitions returns the keys of missing partitions.
func (e *Engine) checkPartitions(ctx context.Context) (missing []string, err error) {
	cmds := make([]*redis.SliceCmd, len(e.keys))
	_, err = e.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for p, key := range e.keys {
			cmds[p] = pipe.HMGet(ctx, key, "schema", "store", "partitions")
		}
		return nil
	})
	if err != nil {
		err, _ = classify(err)
		return nil, unanswered(err)
	}
	store := ""
	for p, cmd := range cmds {
		v := cmd.Val()
		schema, _ := v[0].(string)
		id, _ := v[1].(string)
		partitions, _ := v[2].(string)
		if schema == "" {
			missing = append(missing, e.keys[p])
			continue
		}
		if n, err := strconv.Atoi(schema); err != nil || n > Schema {
			return nil, fmt.Errorf("%w: the store has schema %s, this binary knows up to %d: use a newer penstock",
				queue.ErrNoStore, schema, Schema)
		} else if n < Schema {
			return nil, fmt.Errorf("%w: the store has schema %s, which no penstock writes, and this binary needs %d",
				queue.ErrNoStore, schema, Schema)
		}
		if partitions != strconv.Itoa(len(e.keys)) {
			return nil, fmt.Errorf("%w: the store was made with %s partitions, not %d, and that is fixed: start with "+
				"--partitions %s", queue.ErrNoStore, partitions, len(e.keys), partitions)
		}
		if store != "" && id != store {
			return nil, fmt.Errorf("%w: partitions of two stores, %s and %s, are mixed", queue.ErrNoStore, store, id)
		}
		store = id
	}
	if len(missing) > 0 {
		return missing, nil
	}
	if e.store == "" {
		e.store = store
	}
	if store != e.store {
		return nil, fmt.Errorf("%w: it is store %s now and was %s when this process started: redis was flushed and "+
			"made anew; restart this process if that was meant", queue.ErrNoStore, store, e.store)
	}
	return nil, nil
}
