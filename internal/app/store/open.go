package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/redisq"
)

// FileName is the embedded store's in its directory.
const FileName = "penstock.db"

// TLSFiles are the TLS files of a Redis client, as the URL of a store names them.
type TLSFiles = redisq.TLSFiles

// Options say which store, and how. Either RedisURL or DataPath.
type Options struct {
	// RedisURL is redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://.
	RedisURL string
	// Init makes a store of an empty Redis.
	Init bool
	// Partitions of the store on Redis; 0 is as many as it was made with, redisq's default for one that is made.
	Partitions int
	// Prefix of its keys; empty is redisq's default.
	Prefix string
	// Patience is how long a call waits for Redis; 0 is redisq's default.
	Patience time.Duration
	// KeepChanges is how long changes of queues and rules are kept; 0 leaves it as the store has it.
	KeepChanges time.Duration
	// Hook sees every command to Redis; nil is none.
	Hook redis.Hook

	// DataPath is the directory of an embedded store. It is made if it is not there.
	DataPath string
	// Memory is what this process may take; 0 bounds nothing. An embedded store stays within it.
	Memory int64
	// ReadOnly is for who only looks at it: it must be there, and is left as it is.
	ReadOnly bool

	// Flag is what errors call the flag that named the store; empty is --redis or --data.
	Flag string

	Logger *slog.Logger // discards
}

// Open opens the store. Closing the engine closes its connections too.
func Open(ctx context.Context, o Options) (queue.Engine, error) {
	switch {
	case o.RedisURL != "" && o.DataPath != "":
		return nil, ops.Misuse(errors.New("--redis and --data: give one of them; a store is on a Redis or in a directory"))
	case o.RedisURL != "":
		c, err := openRedis(ctx, o)
		if err != nil {
			return nil, err
		}
		return c, nil
	case o.DataPath != "":
		return openFile(ctx, o)
	}
	return nil, ops.Misuse(errors.New("--redis is missing: give the URL of a Redis, such as redis://localhost:6379"))
}

// Initialized is what Init found or made.
type Initialized struct {
	Addr       string
	Partitions int
	Made       bool // by this call
}

// Init makes a store of an empty Redis. A store that exists is left as it is; one with other settings is an error.
func Init(ctx context.Context, o Options) (Initialized, error) {
	o.Init = true
	e, err := openRedis(ctx, o)
	if err != nil {
		return Initialized{}, err
	}
	options, err := redisq.ParseURL(o.RedisURL) // which openRedis could read
	if err != nil {
		return Initialized{}, errors.Join(err, e.Close())
	}
	return Initialized{Addr: strings.Join(options.Addrs, ","), Partitions: e.Partitions(), Made: e.Made()}, e.Close()
}

func openFile(ctx context.Context, o Options) (queue.Engine, error) {
	flag := cmp.Or(o.Flag, "--data")
	if !o.ReadOnly {
		if err := os.MkdirAll(o.DataPath, 0o700); err != nil {
			return nil, fmt.Errorf("%s %s: %w", flag, o.DataPath, err)
		}
	}
	engine, err := boltq.Open(
		ctx, filepath.Join(o.DataPath, FileName),
		boltq.Options{
			Logger: o.Logger, KeepChanges: o.KeepChanges, Mask: masked, ReadOnly: o.ReadOnly,
			Memory: o.Memory,
		},
	)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, o.DataPath, err)
	}
	return engine, nil
}

func openRedis(ctx context.Context, o Options) (*redisq.Engine, error) {
	flag := cmp.Or(o.Flag, "--redis")
	options, err := redisq.ParseURL(o.RedisURL)
	if err != nil {
		return nil, ops.Misuse(fmt.Errorf("%s: %w", flag, err))
	}
	engine, err := redisq.Open(ctx, o.RedisURL, redisq.Options{
		Init: o.Init, Partitions: o.Partitions, Prefix: o.Prefix, Patience: o.Patience, KeepChanges: o.KeepChanges,
		Mask: masked, Hook: o.Hook, Logger: o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w%s", flag, strings.Join(options.Addrs, ","), err, hint(err, flag))
	}
	return engine, nil
}

// hint names what to do about the errors that Redis words for itself.
func hint(err error, flag string) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "NOAUTH"):
		return ": this Redis needs a password: " + flag + " redis://:PASSWORD@HOST:PORT"
	case strings.Contains(text, "WRONGPASS"), strings.Contains(text, "without any password configured"):
		return ": the user or password in " + flag + " is not right"
	case strings.Contains(text, "NOPERM"):
		return ": the user in " + flag + " may not do what is needed"
	case strings.Contains(text, "cluster support disabled"):
		return ": this is not a cluster: say redis:// instead of redis+cluster://"
	case strings.Contains(text, "MOVED "):
		return ": this is a cluster: say redis+cluster:// instead of redis://"
	}
	return ""
}
