package app

import (
	"time"

	"github.com/penstock/penstock/internal/ops"
)

const healthFlag = "--health-listen"

// HealthFlags are those of a process whose API may leave health and metrics to a listener of their own.
type HealthFlags struct {
	HealthListen string `placeholder:"HOST:PORT"`
}

// LongHelp is the help that is too long for the tags.
func (HealthFlags) LongHelp() map[string]string {
	return map[string]string{
		"health-listen": "A listener of its own for health and metrics, such as 127.0.0.1:8082; the API then has no " +
			"/metrics. It answers also when the API takes no more connections, and asks nobody for a " +
			"certificate. Beyond loopback only with TLS or --insecure.",
	}
}

// Beside is that listener, protected as the API's is, but for certificates of clients: probes have none.
func (f *HealthFlags) Beside(l ops.Listen) ops.Listen {
	l.Addr, l.TLSClientCA = f.HealthListen, ""
	return l
}

// healthServer are the limits of a listener for health and metrics: small ones of its own, so that it answers whatever
// the API is busy with.
func healthServer(o ops.ServerOptions) ops.ServerOptions {
	return ops.ServerOptions{
		ReadTimeout: 10 * time.Second, MaxConnections: 64, Memory: ops.NewBudget(16 << 20), Grace: o.Grace,
		Logger: o.Logger,
	}
}
