package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	loopback = "127.0.0.1"

	// Ports come from [firstPort, lastPort), and a cluster node's bus from the same range plus busOffset. Both lie
	// below 32768, where Linux starts to give ports to outgoing connections: a port found free stays free. And both lie
	// above 10080, the last port that browsers and Node refuse to call ("bad port" of the Fetch Standard). The two
	// ranges do not overlap, so that no server takes another one's bus.
	firstPort = 10_100
	lastPort  = 20_000
	busOffset = 10_000
)

// A port is a TCP port on loopback that no other user of this package takes, in any process.
//
// It is claimed by a UDP socket with the same number, which Redis does not use. Unlike a lock file, the claim ends with
// its process. It lasts while the server is down, so that a restarted server does not lose its port.
type port struct {
	number int
	claim  net.PacketConn
}

// FreeAddr returns an address on loopback for a server that the test starts more than once. The port is reserved until
// the test ends.
func FreeAddr(t TB) string {
	t.Helper()
	p, err := claimPort(t.Context())
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = p.release() })
	return address(p.number)
}

// claimPort picks a port that is free, and whose cluster bus is free.
func claimPort(ctx context.Context) (*port, error) {
	const attempts = 200
	var last error
	for range attempts {
		n := firstPort + rand.IntN(lastPort-firstPort)
		claim, err := new(net.ListenConfig).ListenPacket(ctx, "udp4", address(n))
		if err != nil {
			last = err
			continue
		}
		if err := errors.Join(tryListen(ctx, n), tryListen(ctx, n+busOffset)); err != nil {
			last = errors.Join(err, claim.Close())
			continue
		}
		return &port{number: n, claim: claim}, nil
	}
	return nil, fmt.Errorf("redistest: no free port on %s in %d to %d after %d tries: %w",
		loopback, firstPort, lastPort-1, attempts, last)
}

func (p *port) release() error { return p.claim.Close() }

func tryListen(ctx context.Context, n int) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", address(n))
	if err != nil {
		return err
	}
	return l.Close()
}

func address(n int) string { return net.JoinHostPort(loopback, strconv.Itoa(n)) }
