package receiver

import (
	"context"
	"net"
	"sync"
	"time"
)

// On a busy machine this process may not run for tens of milliseconds, and would then record requests as late. Such an
// error of measurement looks like an error of the installation. The kernel stamps each segment on arrival, whichever
// process runs, and returns the stamp with the bytes.

// wire is a connection that knows when the kernel received the data read last.
type wire struct {
	net.Conn
	// receive is Read with the kernel's stamp, in nanoseconds of the wall clock, or 0. It is nil on systems without
	// stamps.
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

// Write forgets the stamp first. Data read after an answer belongs to another request, which must not get the stamp of
// this one.
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

// wires wraps the connections it accepts in wires.
type wires struct{ net.Listener }

func (l wires) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c, receive: receiver(c)}, nil
}

type wireKey struct{}

// remember stores the wire in the context of its requests.
func remember(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, wireKey{}, c)
}

// arrived returns when a request came, and whether the kernel stamped it.
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

// stepFrom is the difference from which the wall clock counts as set. An unnoticed step shifts an arrival by at most
// this much.
const stepFrom = 500 * time.Microsecond

// span is the wall clock's time, in nanoseconds, at instant 0 of the run: between from and to.
type span struct{ from, to int64 }

// zeroNow reads both clocks. An interruption between the two readings only widens the span.
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

// convert converts a stamp of the wall clock to the clock of the run. If the wall clock was set since the run began, or
// the stamp is outside the run, it returns now instead.
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
