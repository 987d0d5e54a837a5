package doctor

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/penstock/penstock/internal/attention"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/queue/redisq"
)

// store checks that the store takes jobs.
func (v *visit) store(ctx context.Context) {
	if v.API == nil {
		v.wrong(v.Reach, "%v", v.Unreached)
		return
	}
	ready, err := v.API.Readiness(ctx)
	var refused *client.Problem
	var away *client.Unreachable
	switch {
	case errors.As(err, &away):
		v.wrong(v.Reach, "%v", err)
	case errors.As(err, &refused) && refused.Reason == "not_ready":
		v.wrong("penstock doctor --redis URL", "jobs are refused: %v", err)
	case err != nil:
		v.wrong("penstock whoami", "%v", err)
	default:
		if t := attention.Store(&ready); t != nil {
			v.trouble(t)
		}
	}
	if err == nil && ready.Auth == "off" && !v.Direct {
		v.warn("penstock up --help", "authentication is disabled (--no-auth)")
	}
	if err == nil && v.err != nil {
		if errors.As(v.err, &refused) && refused.Status == http.StatusForbidden {
			v.warn("penstock token create --grant view", "this token cannot read everything: %v", v.err)
		} else {
			v.wrong("penstock whoami", "the store cannot be read: %v", v.err)
		}
	}
	if v.silent() {
		v.ok("it answers and takes jobs")
	}
}

// redis checks that the Redis of the store loses no jobs.
func (v *visit) redis(ctx context.Context) {
	if v.Servers == nil {
		return
	}
	servers, err := v.Servers(ctx)
	if err != nil {
		v.wrong(v.Reach, "%v", err)
		return
	}
	for _, s := range servers {
		for _, f := range s.Faults {
			do := "redis-cli info"
			if f.Mend != "" {
				do = redisCLI(&s) + " " + f.Mend
			}
			if f.Now {
				v.wrong(do, "%s: %s", s.Addr, f.Text)
			} else {
				v.warn(do, "%s: %s", s.Addr, f.Text)
			}
		}
	}
	if v.silent() {
		v.ok("%s, safe settings", show.Count(int64(len(servers)), "server"))
	}
}

func redisCLI(s *redisq.Server) string {
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return "redis-cli"
	}
	return "redis-cli -h " + host + " -p " + port
}
