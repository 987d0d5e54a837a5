package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/redisq"
)

// Named is a store opened by OpenNamed.
type Named struct {
	queue.Engine
	Kind   string // embedded or redis
	Schema int
}

// OpenNamed opens a store by name: the URL of a Redis, or the directory of an embedded store, with or without file://.
// Either is created only with Init.
func OpenNamed(ctx context.Context, name string, o Options) (*Named, error) {
	dir, isFile := strings.CutPrefix(name, "file://")
	if !isFile && strings.Contains(name, "://") {
		o.RedisURL = name
		engine, err := Open(ctx, o)
		return &Named{engine, "redis", redisq.Schema}, err
	}
	if dir == "" {
		return nil, fmt.Errorf(
			"%s is empty: give the URL of a Redis, such as redis://localhost:6379, or the directory of an embedded store",
			o.Flag,
		)
	}
	if _, err := os.Stat(filepath.Join(dir, FileName)); errors.Is(err, os.ErrNotExist) && !o.Init {
		return nil, fmt.Errorf(
			"%s %s: there is no embedded store (%s) in this directory; import --init creates one", o.Flag, dir, FileName,
		)
	}
	o.DataPath = dir
	engine, err := Open(ctx, o)
	return &Named{engine, "embedded", boltq.Schema}, err
}
