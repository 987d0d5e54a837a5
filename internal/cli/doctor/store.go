package doctor

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/queue/redisq"
)

// store says whether jobs can be taken, by the readiness of who has the store.
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
		v.wrong("penstock doctor --redis URL", "no jobs are taken: %v", err)
	case err != nil:
		v.wrong("penstock whoami", "%v", err)
	case ready.Store == "full":
		v.wrong("penstock top", "%s", ready.Detail)
	case ready.Store == "filling":
		v.warn("penstock top", "%s", ready.Detail)
	case ready.Store == "unavailable", ready.Overflow == "unavailable":
		v.wrong("penstock doctor --redis URL --nats URL", "%s", ready.Detail)
	case ready.Overflow == "stuck":
		v.wrong("nats stream view PENSTOCK_DEAD", "%s", ready.Detail)
	case ready.Pull == "late":
		v.warn("penstock queue set NAME slack=20ms", "%s", ready.Detail)
	case ready.Drainers == "hanging":
		v.warn("penstock queue set NAME deliver.http.timeout=5s", "%s", ready.Detail)
	}
	if err == nil && ready.Auth == "off" && !v.Direct {
		v.warn("penstock up --help", "nobody is asked who he is: it was started with --no-auth")
	}
	if err == nil && v.err != nil {
		if errors.As(v.err, &refused) && refused.Status == http.StatusForbidden {
			v.warn("penstock token create --role view", "not all can be looked at with this token: %v", v.err)
		} else {
			v.wrong("penstock whoami", "what is in the store cannot be read: %v", v.err)
		}
	}
	if v.silent() {
		v.ok("it answers, and takes jobs")
	}
}

// redis says by what of its Redis a store could lose jobs.
func (v *visit) redis(ctx context.Context) {
	if v.Servers == nil {
		return
	}
	servers, err := v.Servers(ctx)
	if err != nil {
		v.wrong("redis-cli ping", "%v", err)
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
		v.ok("%s keep what they are given", count(len(servers), "server"))
	}
}

func redisCLI(s *redisq.Server) string {
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return "redis-cli"
	}
	return "redis-cli -h " + host + " -p " + port
}

// reading is one of another's clock, between two instants of this machine.
type reading struct{ time, before, after time.Time }

// ahead is by how much the other clock is ahead at least, negative if it is behind; 0 if it may be the same.
func (r reading) ahead() time.Duration {
	switch {
	case r.time.Before(r.before):
		return r.time.Sub(r.before)
	case r.time.After(r.after):
		return r.time.Sub(r.after)
	}
	return 0
}

const (
	// badSkew is by how much clocks differ that are not kept at all; warnSkew when the instants that people read and write
	// are not those that the store goes by.
	badSkew  = 10 * time.Second
	warnSkew = time.Second
)

// clock compares this machine's with the others. Those of drainers count for nothing: they measure how long ago they
// asked, and read no clock.
func (v *visit) clock(ctx context.Context) {
	n := 0
	compare := func(of string, r reading) {
		if r.time.IsZero() {
			return
		}
		n++
		ahead := r.ahead().Round(10 * time.Millisecond)
		how := "ahead of"
		if ahead < 0 {
			ahead, how = -ahead, "behind"
		}
		const do = "timedatectl set-ntp true"
		switch {
		case ahead >= badSkew:
			v.wrong(do, "the clock of %s is %v %s this machine's: schedules and expiries go by it", of, ahead, how)
		case ahead >= warnSkew:
			v.warn(do, "the clock of %s is %v %s this machine's: schedules and expiries go by it", of, ahead, how)
		}
	}
	compare("the store", v.asked)
	if v.Servers != nil {
		if servers, err := v.Servers(ctx); err == nil { // else redis has told
			for _, s := range servers {
				compare("redis "+s.Addr, reading{s.Time, s.Asked, s.Answered})
			}
		}
	}
	if v.Overflow != nil {
		if streams, err := v.Overflow(ctx); err == nil {
			for _, s := range streams[:min(1, len(streams))] {
				compare("nats", reading{s.Time, s.Asked, s.Answered})
			}
		}
	}
	if n > 0 && v.silent() {
		v.ok("this machine and %s agree within %v", count(n, "other clock"), warnSkew)
	}
}
