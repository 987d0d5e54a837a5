package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.etcd.io/bbolt"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/boltq"
)

// embedded opens a boltq store in its own directory.
func embedded(ctx context.Context) (e *boltq.Engine, closeIt func(), err error) {
	dir, err := os.MkdirTemp("", "penstock-bench-")
	if err != nil {
		return nil, nil, err
	}
	e, err = boltq.Open(ctx, filepath.Join(dir, "penstock.db"), boltq.Options{})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	return e, func() { _ = e.Close(); _ = os.RemoveAll(dir) }, nil
}

// syncStream starts a JetStream server in this process, with a stream that fsyncs every message before acknowledging
// it.
func syncStream(ctx context.Context) (js jetstream.JetStream, closeIt func(), err error) {
	dir, err := os.MkdirTemp("", "penstock-bench-js-")
	if err != nil {
		return nil, nil, err
	}
	ns, err := server.NewServer(&server.Options{
		JetStream: true, StoreDir: dir, SyncAlways: true, DontListen: true, NoSigs: true, NoLog: true,
	})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	ns.Start()
	stop := func() { ns.Shutdown(); ns.WaitForShutdown(); _ = os.RemoveAll(dir) }
	if !ns.ReadyForConnections(10 * time.Second) {
		stop()
		return nil, nil, fmt.Errorf("the NATS server is not ready")
	}
	nc, err := nats.Connect("", nats.InProcessServer(ns))
	if err == nil {
		js, err = jetstream.New(nc)
	}
	if err == nil {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: "S", Subjects: []string{"s"}, Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy,
		})
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return js, func() { nc.Close(); stop() }, nil
}

// boltGroup commits one put for each caller through bbolt's own group commit: an append without identity, bound or
// order.
func boltGroup() (do func(context.Context) error, closeIt func(), err error) {
	dir, err := os.MkdirTemp("", "penstock-bench-bolt-")
	if err != nil {
		return nil, nil, err
	}
	db, err := bbolt.Open(filepath.Join(dir, "floor.db"), 0o600, &bbolt.Options{
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
	})
	if err == nil {
		err = db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("b")); return err })
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	db.MaxBatchSize = callers
	db.MaxBatchDelay = time.Millisecond
	return func(context.Context) error {
		return db.Batch(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("b")).Put([]byte(newID()), payload) })
	}, func() { _ = db.Close(); _ = os.RemoveAll(dir) }, nil
}

func appendEmbedded(depth int) Figure {
	return Figure{
		Name: fmt.Sprintf("append-embedded-%d", depth), Unit: fmt.Sprintf(
			"jobs/s, 64 callers, fsynced, %d jobs waiting", depth,
		),
		Peer: "JetStream SyncAlways", Floor: "bbolt.Batch of one put",
		Goal: "25,000/s and 5 x JetStream", Met: func(ours, peer, _ float64) bool { return ours >= 25_000 && ours >= 5*peer },
		Setup: func(ctx context.Context) (Measurements, error) {
			e, closeStore, err := embedded(ctx)
			if err != nil {
				return Measurements{}, err
			}
			js, closeStream, err := syncStream(ctx)
			if err != nil {
				closeStore()
				return Measurements{}, err
			}
			floor, closeFloor, err := boltGroup()
			if err != nil {
				closeStore()
				closeStream()
				return Measurements{}, err
			}
			m := Measurements{
				Ours: func(ctx context.Context) (float64, error) {
					return together(ctx, callers, sized(50_000), func(ctx context.Context) error {
						return appendOne(ctx, e, queueName)
					})
				},
				Peer: func(ctx context.Context) (float64, error) {
					return together(ctx, callers, sized(8_000), func(ctx context.Context) error {
						_, err := js.Publish(ctx, "s", payload)
						return err
					})
				},
				Floor: func(ctx context.Context) (float64, error) { return together(ctx, callers, sized(20_000), floor) },
				Close: func() { closeStore(); closeStream(); closeFloor() },
			}
			if err := put(ctx, e, queueName, leaky.Unlimited); err != nil {
				return m, err
			}
			return m, fill(ctx, e, queueName, sized(depth))
		},
	}
}

var idleEmbedded = Figure{
	Name: "idle-embedded", Unit: "ms, append to handler, p50, idle queue",
	Goal: "under 1 ms", Met: func(ours, _, _ float64) bool { return ours < 1 },
	Setup: func(ctx context.Context) (Measurements, error) {
		e, closeStore, err := embedded(ctx)
		if err != nil {
			return Measurements{}, err
		}
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) { return latency(ctx, e, steps(200)) }, Close: closeStore,
		}, nil
	},
}
