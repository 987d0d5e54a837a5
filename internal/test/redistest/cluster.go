package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	slots          = 16384
	clusterTimeout = 60 * time.Second
)

// ClusterOptions are the settings of a Redis Cluster.
type ClusterOptions struct {
	// Masters is the number of masters that share the slots. Zero means 3, the minimum of a cluster.
	Masters int

	// Replicas gives each master one replica, which Redis promotes if the master fails.
	Replicas bool

	// NodeTimeout is Options.ClusterNodeTimeout of every node.
	NodeTimeout time.Duration

	// Node has further settings of each node.
	Node Options
}

// Cluster is a Redis Cluster of masters that share the slots equally.
type Cluster struct {
	Nodes []*Server // the masters, then the replica of each in the same order, if there are replicas

	masters  int
	password string
	clients  clients
}

// StartCluster starts a cluster, and returns when every node knows all others and serves its slots, which takes Redis
// two to three seconds. The caller calls Close. ctx limits only the start.
func StartCluster(ctx context.Context, o ClusterOptions) (*Cluster, error) {
	if o.Masters == 0 {
		o.Masters = 3
	}
	if o.Masters < 3 {
		return nil, fmt.Errorf("redistest: a Redis Cluster needs 3 masters or more, not %d", o.Masters)
	}
	node := o.Node
	node.Cluster = true
	node.ClusterNodeTimeout = o.NodeTimeout

	nodes := o.Masters
	if o.Replicas {
		nodes *= 2
	}
	c := &Cluster{masters: o.Masters, password: node.RequirePass}
	for range nodes {
		s, err := Start(ctx, node)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.Nodes = append(c.Nodes, s)
	}
	if err := c.join(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.replicate(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.Await(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// join assigns the slots to the masters, and introduces all nodes to the first.
func (c *Cluster) join(ctx context.Context) error {
	for i, node := range c.Nodes {
		client := node.Client()
		// If all nodes began at epoch 0, they would first have to settle which of them moves on.
		if err := client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return fmt.Errorf("redistest: set the epoch of %s: %w", node.Addr(), err)
		}
		if i >= c.masters {
			continue
		}
		from, to := c.slotRange(i)
		if err := client.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
			return fmt.Errorf("redistest: give slots %d to %d to %s: %w", from, to, node.Addr(), err)
		}
	}
	first := c.Nodes[0].Client()
	for _, node := range c.Nodes[1:] {
		host, port, err := net.SplitHostPort(node.Addr())
		if err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
		if err := first.ClusterMeet(ctx, host, port).Err(); err != nil {
			return fmt.Errorf("redistest: introduce %s to the cluster: %w", node.Addr(), err)
		}
	}
	return nil
}

// replicate makes each other node the replica of its master, and waits for its copy.
func (c *Cluster) replicate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	for i, node := range c.Nodes[c.masters:] {
		master, replica := c.Nodes[i], node.Client()
		id, err := master.Client().ClusterMyID(ctx).Result()
		if err != nil {
			return fmt.Errorf("redistest: id of %s: %w", master.Addr(), err)
		}
		// Redis refuses until gossip has told the replica of its master.
		err = poll(ctx, 20*time.Millisecond, func() error { return replica.ClusterReplicate(ctx, id).Err() })
		if err == nil {
			err = poll(ctx, 20*time.Millisecond, func() error { return checkReplication(ctx, replica, copied) })
		}
		if err != nil {
			return fmt.Errorf("redistest: make %s a replica of %s: %w; its log ends:\n%s",
				node.Addr(), master.Addr(), err, node.LogTail())
		}
	}
	return nil
}

// slotRange returns the initial slots of master i.
func (c *Cluster) slotRange(i int) (from, to int) {
	return i * slots / c.masters, (i+1)*slots/c.masters - 1
}

// Await waits until every node reports the cluster as ok and all nodes as connected, for example after a restart of a
// node. It fails after a minute, or when ctx ends.
func (c *Cluster) Await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	for _, node := range c.Nodes {
		client := node.Client()
		err := poll(ctx, 20*time.Millisecond, func() error { return c.complete(ctx, client) })
		if err != nil {
			return fmt.Errorf("redistest: cluster node %s: %w; its log ends:\n%s", node.Addr(), err, node.LogTail())
		}
	}
	return nil
}

// complete returns an error if the node of client is not ready yet.
func (c *Cluster) complete(ctx context.Context, client *redis.Client) error {
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") {
		return errors.New("its cluster_state is not ok")
	}
	table, err := client.ClusterNodes(ctx).Result()
	if err != nil {
		return err
	}
	// The fields of a line: id, address, flags, master, ping sent, pong received, epoch, link state, slots.
	var ready int
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 8 || f[7] != "connected" || strings.Contains(f[2], "fail") || strings.Contains(f[2], "handshake") {
			continue
		}
		if replica := strings.Contains(f[2], "slave"); replica || len(f) > 8 {
			ready++
		}
	}
	if ready != len(c.Nodes) {
		return fmt.Errorf("it sees %d of %d nodes connected, and with slots or as replicas", ready, len(c.Nodes))
	}
	return nil
}

// AwaitPromotion returns the replica of a master once it calls itself master. It fails after a minute, or when ctx
// ends.
func (c *Cluster) AwaitPromotion(ctx context.Context, master *Server) (*Server, error) {
	i := slices.Index(c.Nodes, master)
	if i < 0 || i+c.masters >= len(c.Nodes) {
		return nil, fmt.Errorf("redistest: %s has no replica", master.Addr())
	}
	replica := c.Nodes[i+c.masters]
	client := replica.Client()
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	err := poll(ctx, 20*time.Millisecond, func() error { return checkReplication(ctx, client, isMaster) })
	if err != nil {
		return nil, fmt.Errorf("redistest: %s was not promoted: %w; its log ends:\n%s",
			replica.Addr(), err, replica.LogTail())
	}
	return replica, nil
}

// Addrs returns the nodes' addresses.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		addrs[i] = node.Addr()
	}
	return addrs
}

// Client returns a new client, which Close closes. It follows redirections, and does not retry otherwise.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                    c.Addrs(),
		Password:                 c.password,
		MaxRetries:               -1,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	c.clients.add(client)
	return client
}

// NodeOf returns the node of a key, if no replica was promoted.
func (c *Cluster) NodeOf(ctx context.Context, key string) (*Server, error) {
	slot, err := c.Nodes[0].Client().ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return nil, fmt.Errorf("redistest: slot of %q: %w", key, err)
	}
	for i, node := range c.Nodes[:c.masters] {
		if from, to := c.slotRange(i); int(slot) >= from && int(slot) <= to {
			return node, nil
		}
	}
	return nil, fmt.Errorf("redistest: slot %d of %q belongs to no node", slot, key)
}

// Close stops all nodes. Calling it again does nothing.
func (c *Cluster) Close() error {
	errs := []error{c.clients.closeAll()}
	for _, node := range c.Nodes {
		errs = append(errs, node.Close())
	}
	return errors.Join(errs...)
}
