package redisq

import (
	"context"
	"strconv"
	"strings"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
)

// Wake implements queue.Outflow.
func (e *Engine) Wake(ctx context.Context) <-chan queue.Wakeup {
	return subscribe(ctx, e, e.prefix+":wake", e.parseWakeup)
}

// Room implements queue.Overflow.
func (e *Engine) Room(ctx context.Context) <-chan string {
	return subscribe(ctx, e, e.prefix+":room", func(name string) (string, bool) {
		return name,
			names.Validate(name) == nil
	})
}

// subscribe delivers what is published on a channel that all partitions share. The client subscribes again by itself
// when its connection is lost.
func subscribe[T any](ctx context.Context, e *Engine, channel string, parse func(string) (T, bool)) <-chan T {
	out := make(chan T, 256)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(e.closing, cancel)
	e.wakers.Go(func() {
		defer close(out)
		defer cancel()
		defer stop()
		sub := e.client.Subscribe(ctx, channel)
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
				v, ok := parse(m.Payload)
				if !ok {
					continue
				}
				select {
				case out <- v:
				default: // the reader is behind, and looks now and then anyway
				}
			}
		}
	})
	return out
}

func (e *Engine) parseWakeup(payload string) (queue.Wakeup, bool) {
	partition, rest, ok := strings.Cut(payload, " ")
	client, name, _ := strings.Cut(rest, " ") // the name of a pull queue follows an empty client
	p, err := strconv.Atoi(partition)
	if !ok || err != nil || p < 0 || p >= len(e.keys) {
		return queue.Wakeup{}, false
	}
	return queue.Wakeup{Partition: p, Client: client, Queue: name}, true
}
