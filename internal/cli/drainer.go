package cli

import (
	"errors"
	"log/slog"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/version"
)

// drainerCmd is one of the processes that prove starts. It runs what
// cmd/drainer runs, and ends when the prove that started it does.
type drainerCmd struct {
	Redis       string `required:""`
	Concurrency int    `default:"0"`
}

func (c *drainerCmd) Run(r *run) error {
	ctx, cancel := tethered(r.ctx, r.In)
	defer cancel()
	log := logger(r.Err, slog.LevelInfo)
	engine, err := store.Open(ctx, store.Options{RedisURL: c.Redis, Logger: log})
	if err != nil {
		return err
	}
	router := deliver.New(deliver.Options{Concurrency: c.Concurrency, Logger: log})
	err = drain.Run(ctx, engine, router, drain.Options{Concurrency: c.Concurrency, Version: version.Version, Logger: log})
	return errors.Join(err, router.Close(), engine.Close())
}
