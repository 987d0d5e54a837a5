package redistest

import (
	"strconv"
	"time"
)

// Options says what kind of redis-server to start. The zero value is one that keeps everything in memory.
type Options struct {
	// AppendFsync switches the append-only file on: "always", "everysec" or "no". Empty means no AOF, so that a
	// restart loses everything.
	AppendFsync string

	// MaxMemory is Redis's maxmemory, such as "64mb". Empty is no limit.
	MaxMemory string

	// MaxMemoryPolicy is what Redis does at that limit. Empty is Redis's own default, noeviction.
	MaxMemoryPolicy string

	// RequirePass is the password of the default user. Empty is none.
	RequirePass string

	// Cluster starts the server in cluster mode, where it serves nothing until it has slots: StartCluster does that.
	Cluster bool

	// ClusterNodeTimeout is how long a node may be silent before the others call it failed. Zero is 5 s, which a
	// loaded two-core machine can hold without calling healthy nodes failed.
	ClusterNodeTimeout time.Duration

	// Args go last on the command line and so win over all of the above, for example "--hz", "100".
	Args []string
}

const defaultNodeTimeout = 5 * time.Second

// commandLine is redis-server's for a server of these options at port, with its files in dir.
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
