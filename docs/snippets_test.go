package docs

import (
	"context"
	"time"

	"github.com/hibiken/asynq"

	"github.com/penstock/penstock/deliver/asynqtarget"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// Go code on pages that is not part of a program in examples/, compiled as printed.
var _ = []any{enqueue, limit}

func enqueue(engine queue.Appender, task *asynq.Task) (*asynq.TaskInfo, error) {
	client := asynqtarget.NewClient(engine) // was: asynq.NewClient(redis)
	info, err := client.Enqueue(task, asynq.Queue("email"), asynq.ProcessIn(time.Hour))
	return info, err
}

func limit(ctx context.Context, redis asynq.RedisConnOpt, mux *asynq.ServeMux) (*asynq.Server, error) {
	engine, err := redisq.Open(ctx, "redis://127.0.0.1:6379", redisq.Options{})
	if err != nil {
		return nil, err
	}
	dispatcher := pull.New(engine, pull.Options{})    // run it: go dispatcher.Run(ctx)
	turns := pull.NewTurns(engine, dispatcher, "ses") // ses: {rate: 14/s, pull: true}

	config := asynq.Config{Concurrency: 10}
	limit := asynqtarget.Limit(&config) // before NewServer
	server := asynq.NewServer(redis, config)
	mux.Use(limit(turns)) // or of one handler: mux.Handle("email:send", limit(turns)(handler))
	return server, nil
}
