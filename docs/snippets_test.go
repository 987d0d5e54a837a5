package docs

import (
	"time"

	"github.com/hibiken/asynq"

	"github.com/penstock/penstock/deliver/asynqtarget"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
)

// What pages show of Go, and no program in examples/ has, so that it is compiled as printed.
var _ = []any{enqueue, limit}

func enqueue(engine queue.Appender, task *asynq.Task) (*asynq.TaskInfo, error) {
	client := asynqtarget.NewClient(engine) // was: asynq.NewClient(redis)
	info, err := client.Enqueue(task, asynq.Queue("email"), asynq.ProcessIn(time.Hour))
	return info, err
}

func limit(engine queue.Engine, redis asynq.RedisConnOpt, mux *asynq.ServeMux) *asynq.Server {
	dispatcher := pull.New(engine, pull.Options{})    // run it: go dispatcher.Run(ctx)
	turns := pull.NewTurns(engine, dispatcher, "ses") // ses: {rate: 14/s, pull: true}

	server := asynq.NewServer(redis, asynq.Config{
		IsFailure:      asynqtarget.IsFailure(nil),  // to wait is no failure
		RetryDelayFunc: asynqtarget.RetryDelay(nil), // come back when the turn could be
	})
	mux.Use(asynqtarget.Limit(turns, time.Second)) // wait so long in the worker's place
	return server
}
