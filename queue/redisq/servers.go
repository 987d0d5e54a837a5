package redisq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is the state of one Redis of a store, which is a master.
type Server struct {
	Addr string
	// Time is its clock; Asked and Answered are the instants of this machine between which it was read.
	Time, Asked, Answered time.Time
	// Faults lists settings and states by which jobs could be lost.
	Faults []Fault
}

// Fault is a setting or state of a Redis by which jobs could be lost.
type Fault struct {
	// Refused says that no store is opened on such a Redis.
	Refused bool
	// Now says that jobs are lost when the process or the machine ends. Otherwise some may be lost in a short time, or
	// later.
	Now bool
	// Text describes the fault. Mend is the redis-cli command that fixes it, if there is any.
	Text, Mend string
}

// server is settings and state by their names in INFO, and in CONFIG GET, which a user may not be allowed to call.
type server map[string]string

// faults are the checks. A check returns a description, empty if there is no fault.
var faults = []struct {
	refused, now bool
	check        func(s server) (text string)
	mend         string
}{
	{refused: true, check: func(s server) string {
		major, _, _ := strings.Cut(s["redis_version"], ".")
		if n, err := strconv.Atoi(major); err == nil && n < 7 {
			return fmt.Sprintf("redis %s is too old: 7.0 or newer is needed", s["redis_version"])
		}
		return ""
	}},
	{
		refused: true, now: true, mend: "config set maxmemory-policy noeviction",
		check: func(s server) string {
			if policy := s["maxmemory_policy"]; policy != "" && policy != "noeviction" {
				return fmt.Sprintf("redis has maxmemory-policy %s and would drop jobs when memory runs short: set it to "+
					"noeviction (CONFIG SET maxmemory-policy noeviction, and in redis.conf)", policy)
			}
			return ""
		},
	},
	{
		now: true, mend: "info replication",
		check: is("role", "slave", "this is a replica, which does not keep writes: use the address of its master"),
	},
	{
		now: true, mend: "config set appendonly yes",
		check: is("aof_enabled", "0", "appendonly is no: a restart of Redis loses all since its last snapshot"),
	},
	{
		now: true, mend: "config set appendfsync always",
		check: is("appendfsync", "no", "appendfsync is no: a power cut loses up to half a minute of jobs"),
	},
	{
		mend:  "config set appendfsync always",
		check: is("appendfsync", "everysec", "appendfsync is everysec: a power cut loses up to two seconds of jobs"),
	},
	{
		now: true, mend: "bgrewriteaof",
		check: is("aof_last_write_status", "err", "the append-only file could not be written: see the disk of Redis"),
	},
	{
		mend:  "bgrewriteaof",
		check: is("aof_last_bgrewrite_status", "err", "the append-only file could not be rewritten, and grows: see its disk"),
	},
	{
		mend: "info memory",
		check: is("maxmemory", "0", "maxmemory is not set: when memory runs out the machine ends Redis, "+
			"and no job is refused; set it above used_memory and below the memory of the machine"),
	},
	{mend: "config set min-replicas-to-write 1", check: func(s server) string {
		if replicas, _ := strconv.Atoi(s["connected_slaves"]); replicas > 0 && s["min-replicas-to-write"] == "0" {
			return "min-replicas-to-write is 0: an isolated master keeps accepting writes, and a failover loses them"
		}
		return ""
	}},
}

// is returns a check that returns text if a setting has a value.
func is(name, value, text string) func(server) string {
	return func(s server) string {
		if s[name] == value {
			return text
		}
		return ""
	}
}

// Servers checks each Redis of a store, even if no store could be opened on it. It changes nothing.
func Servers(ctx context.Context, client redis.UniversalClient) (all []Server, err error) {
	var mu sync.Mutex // of a cluster several are asked at once
	err = eachServer(ctx, client, func(ctx context.Context, c redis.Cmdable, addr string) error {
		one := Server{Addr: addr, Asked: time.Now()}
		at, err := c.Time(ctx).Result()
		if err != nil {
			err, _ = classify(err)
			return unanswered(err)
		}
		one.Time, one.Answered = at, time.Now()
		said, err := info(ctx, c)
		if err != nil {
			return err
		}
		// A user that may not read the configuration gets what INFO has.
		for _, name := range []string{"appendfsync", "min-replicas-to-write"} {
			if config, err := c.ConfigGet(ctx, name).Result(); err == nil {
				maps.Copy(said, config)
			}
		}
		for n := range faults {
			f := &faults[n]
			if text := f.check(said); text != "" {
				one.Faults = append(one.Faults, Fault{Refused: f.refused, Now: f.now || f.refused, Text: text, Mend: f.mend})
			}
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, one)
		return nil
	})
	return all, err
}

// checkServers returns an error if a server cannot keep a store.
func checkServers(ctx context.Context, client redis.UniversalClient) error {
	return eachServer(ctx, client, func(ctx context.Context, c redis.Cmdable, _ string) error {
		said, err := info(ctx, c)
		if err != nil {
			return err
		}
		for n := range faults {
			if text := faults[n].check(said); faults[n].refused && text != "" {
				return errors.New(text)
			}
		}
		return nil
	})
}

// eachServer calls do for every master; for several masters of a cluster concurrently.
func eachServer(
	ctx context.Context, client redis.UniversalClient, do func(ctx context.Context, c redis.Cmdable, addr string) error,
) error {
	switch c := client.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, func(ctx context.Context, m *redis.Client) error { return do(ctx, m, m.Options().Addr) })
	case *redis.Client:
		return do(ctx, c, c.Options().Addr)
	}
	return do(ctx, client, "")
}

// info reads the sections of INFO that faults need.
func info(ctx context.Context, c redis.Cmdable) (server, error) {
	said := server{}
	for _, section := range []string{"server", "memory", "persistence", "replication"} {
		text, err := c.Info(ctx, section).Result()
		if err != nil {
			err, _ = classify(err)
			return nil, fmt.Errorf("reading how redis is set up: %w", unanswered(err))
		}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				said[name] = value
			}
		}
	}
	return said, nil
}

// field reads one value of an INFO section.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
