package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const sentinelTimeout = 60 * time.Second

// SentinelOptions are the settings of an installation with Sentinels: a master, a replica and three Sentinels. Two of
// the Sentinels must agree that the master is down.
type SentinelOptions struct {
	// MasterName is the Sentinels' name for the master. Empty means "penstock".
	MasterName string

	// DownAfter is how long the master may be silent before a Sentinel considers it down. Zero means 1 s.
	DownAfter time.Duration

	// Node has the settings of the master and the replica.
	Node Options
}

// Sentinel is a master and its replica, which a failover exchanges, and the Sentinels that watch them.
type Sentinel struct {
	MasterName string
	Nodes      []*Server // at first the master, then the replica
	Sentinels  []*Server

	password string
	clients  clients
}

const quorum = 2

// StartSentinel starts an installation, and returns when each Sentinel knows the replica and the other Sentinels, so
// that a failover can succeed. The caller calls Close. ctx limits only the start.
func StartSentinel(ctx context.Context, o SentinelOptions) (*Sentinel, error) {
	if o.MasterName == "" {
		o.MasterName = "penstock"
	}
	if o.DownAfter == 0 {
		o.DownAfter = time.Second
	}
	s := &Sentinel{MasterName: o.MasterName, password: o.Node.RequirePass}
	if err := s.open(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Sentinel) open(ctx context.Context, o SentinelOptions) error {
	for range 2 {
		node, err := Start(ctx, o.Node)
		if err != nil {
			return err
		}
		s.Nodes = append(s.Nodes, node)
	}
	if err := s.replicate(ctx); err != nil {
		return err
	}
	// Only now, because a Sentinel asks a master for its replicas as it starts, and then not for ten seconds.
	for range 3 {
		sentinel, err := start(ctx, "", s.commandLine(o))
		if err != nil {
			return err
		}
		s.Sentinels = append(s.Sentinels, sentinel)
	}
	return s.poll(ctx, func(ctx context.Context) error { return s.ready(ctx) })
}

// replicate makes the second node a replica of the first, and waits for its copy.
func (s *Sentinel) replicate(ctx context.Context) error {
	host, port, err := net.SplitHostPort(s.Nodes[0].Addr())
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	replica := s.Nodes[1].Client()
	if err := replica.ReplicaOf(ctx, host, port).Err(); err != nil {
		return fmt.Errorf("redistest: make %s a replica: %w", s.Nodes[1].Addr(), err)
	}
	return s.poll(ctx, func(ctx context.Context) error { return checkReplication(ctx, replica, copied) })
}

// Lines of INFO replication.
const (
	copied   = "master_link_status:up" // of a replica that has a copy of its master
	isMaster = "role:master"
)

// checkReplication returns an error unless a line is in the server's INFO replication.
func checkReplication(ctx context.Context, client *redis.Client, line string) error {
	info, err := client.Info(ctx, "replication").Result()
	if err == nil && !strings.Contains(info, line) {
		err = fmt.Errorf("INFO replication of %s has no %s", client.Options().Addr, line)
	}
	return err
}

// commandLine writes the file in which a Sentinel keeps its state, at its first start, and returns its arguments.
func (s *Sentinel) commandLine(o SentinelOptions) func(int, string) []string {
	host, port, _ := net.SplitHostPort(s.Nodes[0].Addr())
	return func(own int, dir string) []string {
		path := filepath.Join(dir, "sentinel.conf")
		lines := []string{
			"port " + strconv.Itoa(own),
			"bind " + loopback,
			"dir " + dir,
			fmt.Sprintf("sentinel monitor %s %s %s %d", o.MasterName, host, port, quorum),
			fmt.Sprintf("sentinel down-after-milliseconds %s %d", o.MasterName, o.DownAfter.Milliseconds()),
			fmt.Sprintf("sentinel failover-timeout %s %d", o.MasterName, (5 * time.Second).Milliseconds()),
		}
		if s.password != "" {
			lines = append(lines, fmt.Sprintf("sentinel auth-pass %s %s", o.MasterName, s.password))
		}
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			// A failure shows at once: the Sentinel does not start without the file, and says so.
			_ = os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
		}
		return []string{path, "--sentinel"}
	}
}

// ready returns an error if a Sentinel does not know everything yet.
func (s *Sentinel) ready(ctx context.Context) error {
	replicas, others := len(s.Nodes)-1, len(s.Sentinels)-1
	return s.each(func(client *redis.SentinelClient) error {
		m, err := client.Master(ctx, s.MasterName).Result()
		if err != nil {
			return err
		}
		if m["flags"] != "master" || m["num-slaves"] != strconv.Itoa(replicas) ||
			m["num-other-sentinels"] != strconv.Itoa(others) {
			return fmt.Errorf("knows %s replicas of %d, %s other Sentinels of %d, and calls the master %q",
				m["num-slaves"], replicas, m["num-other-sentinels"], others, m["flags"])
		}
		return nil
	})
}

// each calls every running Sentinel, up to the first error.
func (s *Sentinel) each(ask func(*redis.SentinelClient) error) error {
	asked := 0
	for _, sentinel := range s.Sentinels {
		if !sentinel.Running() {
			continue
		}
		asked++
		client := redis.NewSentinelClient(&redis.Options{
			Addr: sentinel.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		})
		if err := errors.Join(ask(client), client.Close()); err != nil {
			return fmt.Errorf("Sentinel %s: %w", sentinel.Addr(), err)
		}
	}
	if asked == 0 {
		return errors.New("no Sentinel runs")
	}
	return nil
}

// poll waits for check, and includes the logs in its error.
func (s *Sentinel) poll(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, sentinelTimeout)
	defer cancel()
	if err := poll(ctx, 20*time.Millisecond, func() error { return check(ctx) }); err != nil {
		err = fmt.Errorf("redistest: %w", err)
		for _, server := range slices.Concat(s.Nodes, s.Sentinels) {
			err = fmt.Errorf("%w\nthe log of %s ends:\n%s", err, server.Addr(), server.LogTail())
		}
		return err
	}
	return nil
}

// Addrs returns the Sentinels' addresses, which clients need.
func (s *Sentinel) Addrs() []string {
	addrs := make([]string, len(s.Sentinels))
	for i, sentinel := range s.Sentinels {
		addrs[i] = sentinel.Addr()
	}
	return addrs
}

// Client returns a new client that follows the master, which Close closes. It never sends a command twice.
func (s *Sentinel) Client() *redis.Client {
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:            s.MasterName,
		SentinelAddrs:         s.Addrs(),
		Password:              s.password,
		MaxRetries:            -1,
		ContextTimeoutEnabled: true,
	})
	s.clients.add(client)
	return client
}

// Close stops the Sentinels and the nodes. Calling it again does nothing.
func (s *Sentinel) Close() error {
	errs := []error{s.clients.closeAll()}
	for _, sentinel := range s.Sentinels {
		errs = append(errs, sentinel.Close())
	}
	for _, node := range s.Nodes {
		errs = append(errs, node.Close())
	}
	return errors.Join(errs...)
}
