package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
)

// Master returns the node that is the master by its own account and by all running Sentinels. It waits while they
// disagree, as during a failover.
func (s *Sentinel) Master(ctx context.Context) (*Server, error) {
	return s.AwaitFailover(ctx, nil)
}

// Failover has the Sentinels exchange master and replica without a failure, and returns the new master.
func (s *Sentinel) Failover(ctx context.Context) (*Server, error) {
	old, err := s.Master(ctx)
	if err != nil {
		return nil, err
	}
	// It is refused until an earlier failover is complete and the replica has reported since.
	errStarted := errors.New("a Sentinel has started it")
	err = s.poll(ctx, func(ctx context.Context) error {
		err := s.each(func(client *redis.SentinelClient) error {
			if err := client.Failover(ctx, s.MasterName).Err(); err != nil {
				return err
			}
			return errStarted // one Sentinel is enough: it informs the others
		})
		if errors.Is(err, errStarted) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.AwaitFailover(ctx, old)
}

// AwaitFailover returns the new master once old, which may have been killed, is no longer the master.
func (s *Sentinel) AwaitFailover(ctx context.Context, old *Server) (*Server, error) {
	var master *Server
	err := s.poll(ctx, func(ctx context.Context) error {
		master = nil
		return s.each(func(client *redis.SentinelClient) error {
			addr, err := client.GetMasterAddrByName(ctx, s.MasterName).Result()
			if err != nil {
				return err
			}
			node := s.node(net.JoinHostPort(addr[0], addr[1]))
			if node == nil || node == old || master != nil && node != master {
				return fmt.Errorf("calls %v the master", addr)
			}
			master = node
			return s.checkMaster(ctx, node)
		})
	})
	return master, err
}

func (s *Sentinel) node(addr string) *Server {
	for _, node := range s.Nodes {
		if node.Addr() == addr {
			return node
		}
	}
	return nil
}

func (s *Sentinel) checkMaster(ctx context.Context, node *Server) error {
	client := redis.NewClient(&redis.Options{
		Addr: node.Addr(), Password: s.password, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	return errors.Join(checkReplication(ctx, client, isMaster), client.Close())
}
