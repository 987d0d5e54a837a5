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
	"github.com/penstock/penstock/internal/virtualtime"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/redisq"
)

// FileName is the name of an embedded store's file in its directory.
const FileName = "penstock.db"

// TLSFiles are the TLS files of a Redis client.
type TLSFiles = redisq.TLSFiles

// Options are the settings of Open. Set either RedisURL or DataPath.
type Options struct {
	// RedisURL is redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://.
	RedisURL string
	// Init creates the store if the Redis is empty.
	Init bool
	// Partitions is the number of partitions of the store on Redis; 0 means as created, or redisq's default for a new
	// store.
	Partitions int
	// Prefix is the prefix of the keys; empty means redisq's default.
	Prefix string
	// Patience is how long a call waits for Redis; 0 means redisq's default.
	Patience time.Duration
	// KeepChanges is how long changes of queues and rules are kept; 0 leaves the store's setting unchanged.
	KeepChanges time.Duration
	// Hook sees every command to Redis; it may be nil.
	Hook redis.Hook

	// DataPath is the directory of an embedded store. It is created if missing.
	DataPath string
	// Memory is the maximum memory of this process, within which an embedded store stays; 0 means no limit.
	Memory int64
	// ReadOnly opens an existing embedded store without changing it.
	ReadOnly bool

	// Flag is the flag that errors name; empty means --redis or --data.
	Flag string

	Logger *slog.Logger // by default discards
}

// Open opens the store. Closing the engine also closes its connections.
func Open(ctx context.Context, o Options) (queue.Engine, error) {
	switch {
	case o.RedisURL != "" && o.DataPath != "":
		return nil, ops.Misuse(errors.New("--redis and --data: give only one; a store is on a Redis or in a directory"))
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

// Initialized is the result of Init.
type Initialized struct {
	Addr       string
	Partitions int
	Made       bool // created by this call
}

// Init creates a store on an empty Redis. An existing store is left unchanged; if it has other settings, Init returns
// an error.
func Init(ctx context.Context, o Options) (Initialized, error) {
	o.Init = true
	e, err := openRedis(ctx, o)
	if err != nil {
		return Initialized{}, err
	}
	options, err := redisq.ParseURL(o.RedisURL) // openRedis has parsed it, too
	if err != nil {
		return Initialized{}, errors.Join(err, e.Close())
	}
	return Initialized{Addr: strings.Join(options.Addrs, ","), Partitions: e.Partitions(), Made: e.Made()}, e.Close()
}

// OpenMemory opens an embedded store in memory, for tests. Its clock can be advanced.
func OpenMemory(ctx context.Context, o Options) (*virtualtime.Engine, error) {
	return virtualtime.Open(ctx, boltq.Options{Logger: o.Logger, Mask: masked, Memory: o.Memory})
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

// hint returns what to do about errors whose texts are Redis's own.
func hint(err error, flag string) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "NOAUTH"):
		return ": this Redis needs a password: " + flag + " redis://:PASSWORD@HOST:PORT"
	case strings.Contains(text, "WRONGPASS"), strings.Contains(text, "without any password configured"):
		return ": the user or password in " + flag + " is wrong"
	case strings.Contains(text, "NOPERM"):
		return ": the user in " + flag + " lacks a permission"
	case strings.Contains(text, "cluster support disabled"):
		return ": this is not a cluster: use redis:// instead of redis+cluster://"
	case strings.Contains(text, "MOVED "):
		return ": this is a cluster: use redis+cluster:// instead of redis://"
	}
	return ""
}
