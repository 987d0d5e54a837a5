package redistest

import (
	"strconv"
	"time"
)

// Options are the settings of a redis-server. The zero value keeps everything in memory.
type Options struct {
	// AppendFsync enables the append-only file: "always", "everysec" or "no". Empty means no AOF, so that a restart
	// loses everything.
	AppendFsync string

	// MaxMemory is Redis's maxmemory, such as "64mb". Empty means no limit.
	MaxMemory string

	// MaxMemoryPolicy is Redis's maxmemory-policy. Empty means Redis's default, noeviction.
	MaxMemoryPolicy string

	// RequirePass is the password of the default user. Empty means none.
	RequirePass string

	// Cluster starts the server in cluster mode, where it serves nothing until it has slots; see StartCluster.
	Cluster bool

	// ClusterNodeTimeout is how long a node may be silent before the others consider it failed. Zero means 5 s, which
	// is enough on a loaded two-core machine.
	ClusterNodeTimeout time.Duration

	// Args are the last arguments on the command line and override all of the above, for example "--hz", "100".
	Args []string
}

const defaultNodeTimeout = 5 * time.Second

// commandLine returns the arguments of redis-server with these options, a port and a directory.
func (o Options) commandLine(port int, dir string) []string {
	args := []string{
		"--port", strconv.Itoa(port),
		"--bind", loopback,
		"--dir", dir,
		"--daemonize", "no",
		"--save", "",
		"--enable-debug-command", "local",
		// Otherwise a replica waits five seconds for others to join it before it is sent its first copy.
		"--repl-diskless-sync-delay", "0",
	}
	if o.AppendFsync != "" {
		args = append(args, "--appendonly", "yes", "--appendfsync", o.AppendFsync)
	}
	if o.MaxMemory != "" {
		args = append(args, "--maxmemory", o.MaxMemory)
	}
	if o.MaxMemoryPolicy != "" {
		args = append(args, "--maxmemory-policy", o.MaxMemoryPolicy)
	}
	if o.RequirePass != "" {
		args = append(args, "--requirepass", o.RequirePass, "--masterauth", o.RequirePass)
	}
	if o.Cluster {
		timeout := o.ClusterNodeTimeout
		if timeout == 0 {
			timeout = defaultNodeTimeout
		}
		args = append(args,
			"--cluster-enabled", "yes",
			"--cluster-config-file", "nodes.conf",
			"--cluster-node-timeout", strconv.FormatInt(timeout.Milliseconds(), 10),
			// Without it a node does not know its own address until another has met it.
			"--cluster-announce-ip", loopback,
		)
	}
	return append(args, o.Args...)
}
