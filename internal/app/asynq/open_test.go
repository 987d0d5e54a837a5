package asynq_test

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/asynq"
)

// Flags of TLS that are of no use, or that lack another, are refused at the start.
func TestPublishTLSFlags(t *testing.T) {
	for _, c := range []struct {
		f    app.PublishFlags
		want string
	}{
		{app.PublishFlags{PublishTLSCA: "ca.pem"}, "--publish-nats is missing"},
		{
			app.PublishFlags{PublishNATS: "tls://n:4222", PublishPrefix: "jobs", PublishTLSCert: "c.pem"},
			"--publish-tls-cert and --publish-tls-key need each other",
		},
		{app.PublishFlags{AsynqTLSCA: "ca.pem"}, "--asynq-redis is missing"},
		{app.PublishFlags{AsynqRedis: "redis://h:6379", AsynqPrefix: "*", AsynqTLSCA: "ca.pem"}, "need rediss://"},
		{
			app.PublishFlags{AsynqRedis: "rediss://h:6379", AsynqPrefix: "*", AsynqTLSCA: "/none.pem"},
			"--asynq-tls: ca: open /none.pem",
		},
		{
			app.PublishFlags{AsynqRedis: "rediss://h:6379", AsynqPrefix: "*", AsynqTLSCert: "c.pem"},
			"cert and key belong together",
		},
	} {
		c.f.OpenAsynq = asynq.Open
		if err := c.f.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v does not say %q", c.f, err, c.want)
		}
	}
}
