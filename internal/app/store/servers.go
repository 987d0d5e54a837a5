package store

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/queue/redisq"
)

// Servers describes each Redis server that a URL names, with or without a store on it. It changes nothing.
func Servers(ctx context.Context, o Options) ([]redisq.Server, error) {
	flag := cmp.Or(o.Flag, "--redis")
	options, err := redisq.ParseURL(o.RedisURL)
	if err != nil {
		return nil, ops.Misuse(fmt.Errorf("%s: %w", flag, err))
	}
	client := redisq.NewClient(options)
	defer func() { _ = client.Close() }() // after reads only
	servers, err := redisq.Servers(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w%s", flag, strings.Join(options.Addrs, ","), err, hint(err, flag))
	}
	return servers, nil
}
