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

// membership is what one node knows of the others.
type membership struct {
	name  string
	port  int           // for the other nodes; pinned by the first start
	peers []*membership // those started before it: gossip does the rest
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

// StartCluster starts n nodes with directories below o.Dir, each listening on loopback, and returns when a stream can
// be made with n replicas. The caller ends it with Stop.
func StartCluster(ctx context.Context, n int, o Options) (*Cluster, error) {
	c := &Cluster{}
	all := make([]*membership, n)
	for i := range all {
		all[i] = &membership{name: fmt.Sprintf("n%d", i+1)}
	}
	// All ports are known once each was started; a node that comes back finds any of the others.
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

// await makes a stream with a replica on every node, and removes it.
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
		try, done := context.WithTimeout(ctx, 5*time.Second)
		_, err = js.CreateStream(try, jetstream.StreamConfig{
			Name: "AWAIT", Subjects: []string{"await"}, Replicas: len(c.Nodes),
		})
		if err == nil {
			err = js.DeleteStream(try, "AWAIT")
		}
		done()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("natsserver: the cluster does not come up: %w", errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// URL is where clients connect: all nodes, with commas between.
func (c *Cluster) URL() string {
	urls := make([]string, len(c.Nodes))
	for i, s := range c.Nodes {
		urls[i] = s.URL()
	}
	return strings.Join(urls, ",")
}

// Connect returns a connection to any node, which the caller closes.
func (c *Cluster) Connect(options ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(c.URL(), append([]nats.Option{
		nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond),
	}, options...)...)
}

// Leader is the node that leads a stream, nil while there is none.
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

// Stop ends all nodes.
func (c *Cluster) Stop() {
	for _, s := range c.Nodes {
		s.Stop()
	}
}
