package receiver

import (
	"context"
	"net"
	"sync"
	"time"
)

// This process may be kept from running for tens of milliseconds on a busy machine, and
// would then take what came meanwhile for late: an error of the measurer that looks like one of
// the measured. The kernel knows better. It stamps each segment when it arrives, whoever
// runs then, and hands the stamp out with the bytes.

// wire is a connection that knows when the kernel received what was last read from it.
type wire struct {
	net.Conn
	// receive is Read that tells the kernel's stamp as well: nanoseconds of the wall
	// clock, or 0. It is nil where there are no stamps.
	receive func(p []byte) (n int, stamp int64, err error)

	mu    sync.Mutex
	stamp int64
}

func (w *wire) Read(p []byte) (int, error) {
	if w.receive == nil {
		return w.Conn.Read(p)
	}
	n, stamp, err := w.receive(p)
	if stamp != 0 {
		w.mu.Lock()
		w.stamp = stamp
		w.mu.Unlock()
	}
	return n, err
}

// Write forgets the stamp first: what is read after an answer is another request, and
// must not be known by the last segment of this one.
func (w *wire) Write(p []byte) (int, error) {
	w.take()
	return w.Conn.Write(p)
}

// take returns the last stamp, once.
func (w *wire) take() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	stamp := w.stamp
	w.stamp = 0
	return stamp
}

// wires makes wires of the connections that it accepts.
type wires struct{ net.Listener }

func (l wires) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c, receive: receiver(c)}, nil
}

type wireKey struct{}

// remember lets a request know its wire.
func remember(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, wireKey{}, c)
}

// arrived says when a request came, and whether it is the kernel that says so.
func (r *Receiver) arrived(ctx context.Context) (at time.Duration, kernel bool) {
	now := r.Now()
	w, ok := ctx.Value(wireKey{}).(*wire)
	if !ok {
		return now, false
	}
	stamp := w.take()
	if stamp == 0 {
		return now, false
	}
	return convert(stamp, r.zero, r.zeroNow(), now)
}

// stepFrom is how much the wall clock may seem to be off before it is taken to have been
// set. What is not noticed shifts an arrival by no more than that.
const stepFrom = 500 * time.Microsecond

// span is what the wall clock said, in nanoseconds, at instant 0 of the run: it
// lies between the two.
type span struct{ from, to int64 }

// zeroNow reads both clocks. Being interrupted between them widens the span, and
// makes nothing wrong.
func (r *Receiver) zeroNow() span {
	var best span
	for i := range 5 {
		before := r.Now()
		wall := time.Now().UnixNano()
		after := r.Now()
		s := span{wall - int64(after), wall - int64(before)}
		if i == 0 || s.to-s.from < best.to-best.from {
			best = s
		}
		if best.to-best.from < int64(20*time.Microsecond) {
			break
		}
	}
	return best
}

// convert puts a stamp of the wall clock on the clock of the run. If the wall clock was set
// since the run began, or the stamp lies outside the run, it cannot be believed and
// now is the answer.
func convert(stamp int64, zero, zeroNow span, now time.Duration) (at time.Duration, kernel bool) {
	if zeroNow.from > zero.to+int64(stepFrom) || zeroNow.to < zero.from-int64(stepFrom) {
		return now, false
	}
	at = time.Duration(stamp - zero.from - (zero.to-zero.from)/2)
	if at < 0 || at > now+stepFrom {
		return now, false
	}
	return min(at, now), true
}
