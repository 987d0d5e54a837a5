// Package asynq opens the asynq that a drainer's flags name. It is separate from package app so that an ingress does
// not link it.
package asynq

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/hibiken/asynq"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/asynqtarget"
	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
)

// Open is the app.OpenAsynq of programs that deliver. Redis may be away.
func Open(f *app.PublishFlags) (func(concurrency int) deliver.Sender, error) {
	files := store.TLSFiles{CA: f.AsynqTLSCA, Cert: f.AsynqTLSCert, Key: f.AsynqTLSKey}
	if f.AsynqRedis == "" {
		if files != (store.TLSFiles{}) {
			return nil, errors.New("--asynq-redis is missing: the --asynq-tls flags need it")
		}
		return nil, nil
	}
	redis, err := asynq.ParseRedisURI(f.AsynqRedis)
	if err != nil { // not wrapped: it may quote a password
		return nil, errors.New("--asynq-redis: must be a URL such as redis://127.0.0.1:6379/1, rediss://..., " +
			"redis-socket:///path or redis-sentinel://a:26379?master=NAME")
	}
	if f.AsynqPrefix == "" {
		return nil, errors.New("--asynq-prefix is missing: give the prefix of the types of all tasks, such as email:, or " +
			"* for any; without it, anyone who may create queues could release any task")
	}
	prefix := strings.TrimSuffix(f.AsynqPrefix, "*")
	if files == (store.TLSFiles{}) {
		return asynqtarget.Options{Redis: redis, Prefix: prefix}.Sender, nil
	}
	var config *tls.Config
	switch o := redis.(type) {
	case asynq.RedisClientOpt:
		config = o.TLSConfig
	case asynq.RedisFailoverClientOpt:
		config = o.TLSConfig
	}
	if config == nil {
		return nil, errors.New("--asynq-redis does not use TLS: the --asynq-tls flags need rediss://")
	}
	if err := files.Apply(config); err != nil {
		return nil, fmt.Errorf("--asynq-tls: %w", err)
	}
	return asynqtarget.Options{Redis: redis, Prefix: prefix}.Sender, nil
}
