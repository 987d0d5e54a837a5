package natsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Cluster is a JetStream cluster on loopback.
type Cluster struct {
	Nodes []*Server
}

// membership is a node's place in the cluster.
type membership struct {
	name  string
	port  int           // for the other nodes; kept from the first start on
	peers []*membership // all nodes; gossip completes what a node does not find
}

func (m *membership) apply(o *server.Options) {
	o.Cluster = server.ClusterOpts{Name: "penstock", Host: "127.0.0.1", Port: server.RANDOM_PORT}
	if m.port != 0 {
		o.Cluster.Port = m.port
	}
	var urls []string
	for _, p := range m.peers {
		if p.port != 0 && p != m {
			urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", p.port))
		}
	}
	o.Routes = server.RoutesFromStr(strings.Join(urls, ","))
}

func (m *membership) pin(addr *net.TCPAddr) {
	if addr != nil {
		m.port = addr.Port
	}
}

// StartCluster starts n nodes on loopback with directories below o.Dir, and returns when a stream with n replicas can
// be created. The caller calls Stop.
func StartCluster(ctx context.Context, n int, o Options) (*Cluster, error) {
	c := &Cluster{}
	all := make([]*membership, n)
	for i := range all {
		all[i] = &membership{name: fmt.Sprintf("n%d", i+1)}
	}
	// After the first start all ports are known, so a restarted node finds any of the others.
	for i := range all {
		all[i].peers = all
		node := o
		node.Dir, node.Listen, node.cluster = filepath.Join(o.Dir, all[i].name), "127.0.0.1:0", all[i]
		s, err := Start(ctx, node)
		if err != nil {
			c.Stop()
			return nil, err
		}
		c.Nodes = append(c.Nodes, s)
	}
	if err := c.await(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// await creates a stream with a replica on every node, and deletes it.
func (c *Cluster) await(ctx context.Context) error {
	nc, err := c.Connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*startTimeout)
	defer cancel()
	for {
		try, endTry := context.WithTimeout(ctx, 5*time.Second)
		_, err = js.CreateStream(try, jetstream.StreamConfig{
			Name: "AWAIT", Subjects: []string{"await"}, Replicas: len(c.Nodes),
		})
		if err == nil {
			err = js.DeleteStream(try, "AWAIT")
		}
		endTry()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("natsserver: the cluster did not start: %w", errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// URL returns the client URLs of all nodes, separated by commas.
func (c *Cluster) URL() string {
	urls := make([]string, len(c.Nodes))
	for i, s := range c.Nodes {
		urls[i] = s.URL()
	}
	return strings.Join(urls, ",")
}

// Connect returns a connection to any node. The caller closes it.
func (c *Cluster) Connect(options ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(c.URL(), append([]nats.Option{
		nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond),
	}, options...)...)
}

// Leader returns the node that leads a stream, nil if there is no leader.
func (c *Cluster) Leader(stream string) *Server {
	for _, s := range c.Nodes {
		s.mu.Lock()
		leads := s.srv != nil && s.srv.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream)
		s.mu.Unlock()
		if leads {
			return s
		}
	}
	return nil
}

// Stop stops all nodes.
func (c *Cluster) Stop() {
	for _, s := range c.Nodes {
		s.Stop()
	}
}
