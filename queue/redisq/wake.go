package redisq

import (
	"context"
	"strconv"
	"strings"

	"github.com/penstock/penstock/queue"
)

// Wake implements queue.Outflow. One subscription hears all partitions; the
// client subscribes again by itself when its connection is lost.
func (e *Engine) Wake(ctx context.Context) <-chan queue.Wakeup {
	out := make(chan queue.Wakeup, 256)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(e.closing, cancel)
	e.wakers.Go(func() {
		defer close(out)
		defer cancel()
		defer stop()
		sub := e.client.Subscribe(ctx, e.prefix+":wake")
		defer func() { _ = sub.Close() }()
		messages := sub.Channel()
		for {
			select {
			case <-ctx.Done():
				return
			case m, ok := <-messages:
				if !ok {
					return
				}
				w, ok := e.parseWakeup(m.Payload)
				if !ok {
					continue
				}
				select {
				case out <- w:
				default: // the reader is behind; the check every 2 s covers it
				}
			}
		}
	})
	return out
}

func (e *Engine) parseWakeup(payload string) (queue.Wakeup, bool) {
	partition, client, ok := strings.Cut(payload, " ")
	p, err := strconv.Atoi(partition)
	if !ok || err != nil || p < 0 || p >= len(e.keys) {
		return queue.Wakeup{}, false
	}
	return queue.Wakeup{Partition: p, Client: client}, true
}
