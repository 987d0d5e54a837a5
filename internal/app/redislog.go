package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// redisLog logs the messages of the Redis client at debug level. The client reports every failed dial of every
// connection, which the engine reports once.
type redisLog struct{ log *slog.Logger }

func (r redisLog) Printf(ctx context.Context, format string, v ...any) {
	r.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, v...))
}

// QuietRedis redirects the messages of Redis clients from standard error to log, for the whole process: all clients
// share one logger.
func QuietRedis(log *slog.Logger) { redis.SetLogger(redisLog{log}) }
