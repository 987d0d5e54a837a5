package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// redisLog passes on what the Redis client has to say. It says each failed dial
// of each connection; the engine tells the same once, so here it is for debugging.
type redisLog struct{ log *slog.Logger }

func (r redisLog) Printf(ctx context.Context, format string, v ...any) {
	r.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, v...))
}

// QuietRedis keeps the client from writing to standard error by itself. It is the
// process's: the client has one logger for all.
func QuietRedis(log *slog.Logger) { redis.SetLogger(redisLog{log}) }
