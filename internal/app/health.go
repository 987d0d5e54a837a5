package app

import (
	"time"

	"github.com/penstock/penstock/internal/ops"
)

const healthFlag = "--health-listen"

// HealthFlags set a separate listener for health and metrics.
type HealthFlags struct {
	HealthListen string `placeholder:"HOST:PORT"`
}

// LongHelp implements longHelper.
func (HealthFlags) LongHelp() map[string]string {
	return map[string]string{
		"health-listen": "Separate address for health and metrics, such as 127.0.0.1:8082; the API then has no /metrics. " +
			"It answers even when the API accepts no more connections, and needs no client certificate. Beyond loopback " +
			"only with TLS or --insecure.",
	}
}

// Beside returns the listener of health and metrics. It is protected like l, the listener of the API, but takes clients
// without a certificate, because probes have none.
func (f *HealthFlags) Beside(l ops.Listen) ops.Listen {
	l.Addr, l.TLSClientCA = f.HealthListen, ""
	return l
}

// healthServer returns the limits of a listener for health and metrics. They are its own, so that it answers even when
// the API is busy.
func healthServer(o ops.ServerOptions) ops.ServerOptions {
	return ops.ServerOptions{
		ReadTimeout: 10 * time.Second, MaxConnections: 64, Memory: ops.NewBudget(16 << 20), Grace: o.Grace,
		Logger: o.Logger,
	}
}
