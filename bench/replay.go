package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/penstock/penstock/internal/replay"
)

// replayLines is how many lines the log has that is replayed.
const replayLines = 1_000_000

var replayMeter = Figure{
	Name: "replay", Unit: "lines/s", Goal: "over 1,000,000/s on one core for a Meter",
	Met:   func(ours, _, _ float64) bool { return ours > 1_000_000 },
	Floor: "counting the lines",
	Setup: func(context.Context) (Measurements, error) {
		log := combinedLog(replayLines, 20_000)
		rules, err := replay.ReadRules("meter rate=5/s burst=10", nil)
		if err != nil {
			return Measurements{}, err
		}
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) {
				return onOneCore(func() error {
					r, err := replay.Run(ctx, replay.Options{Rules: rules, Logs: []replay.Log{{
						Name: "log", In: bytes.NewReader(log),
					}}})
					if err == nil && r.Requests != replayLines {
						err = fmt.Errorf("%d requests of %d lines", r.Requests, replayLines)
					}
					return err
				})
			},
			Floor: func(context.Context) (float64, error) {
				return onOneCore(func() error {
					if n := bytes.Count(log, []byte{'\n'}); n != replayLines {
						return fmt.Errorf("%d lines", n)
					}
					return nil
				})
			},
		}, nil
	},
}

// onOneCore returns how many lines a second of a processor's time went through f, which shall not share the work out.
func onOneCore(f func() error) (float64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	runtime.GC()
	began := cpu()
	if err := f(); err != nil {
		return 0, err
	}
	return replayLines / (cpu() - began).Seconds(), nil
}

// combinedLog is of clients of which few ask much, 40 requests a second.
func combinedLog(lines, clients int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.1, 1, uint64(clients-1))
	at := time.Date(2026, 10, 5, 9, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	for i := range lines {
		at = at.Add(time.Duration(r.ExpFloat64() * float64(25*time.Millisecond)))
		client := zipf.Uint64()
		_, _ = fmt.Fprintf(&b, "10.%d.%d.%d - - [%s] \"GET /api/items/%d?page=%d HTTP/1.1\" 200 %d "+
			"\"https://example.com/start\" \"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\"\n",
			client>>16, client>>8&255, client&255, at.Format("02/Jan/2006:15:04:05 -0700"), i%977, i%7, r.IntN(9000))
	}
	return b.Bytes()
}
