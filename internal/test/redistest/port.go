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
	// below 32768, where Linux starts to give ports to outgoing connections: a port found free stays free. The two
	// ranges do not overlap, so that no server takes another one's bus.
	firstPort = 10_000
	lastPort  = 20_000
	busOffset = 10_000
)

// A port is a TCP port on loopback that no other user of this package, in any process, will take.
//
// The claim is a UDP socket of the same number. Redis does not use UDP, so the two do not collide; and unlike a
// lock file it ends with the process that holds it. It lasts while the server is down, which is when a server that
// is being restarted would otherwise lose its port.
type port struct {
	number int
	claim  net.PacketConn
}

// FreeAddr is an address on loopback for a server of the test's own that is started more than once: until the test ends
// nobody else gets its port.
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
