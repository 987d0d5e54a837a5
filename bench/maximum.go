package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/test/memtest"
)

// ingressMaximum is the maximum memory of an ingress according to docs/configuration.md, in MiB.
const ingressMaximum = 512

// memoryIngress loads an ingress in a control group with 8,192 connections with the largest headers, 256 streams and
// 512 large bodies.
var memoryIngress = Figure{
	Name: "memory-ingress", Unit: "MiB, maximum resident memory under hostile load", Rounds: 1,
	Goal: "at most 512 MiB",
	Met:  func(ours, _, _ float64) bool { return ours <= ingressMaximum },
	Setup: func(ctx context.Context) (Measurements, error) {
		s, err := newRedisStore(ctx)
		if err != nil {
			return Measurements{}, err
		}
		dir, err := programs(ctx)
		if err != nil {
			s.Close()
			return Measurements{}, err
		}
		var how string
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) {
				p, err := memtest.Start(
					ctx, ingressMaximum<<20, filepath.Join(dir, "ingress"), "--redis", "redis://"+s.server.Addr(), "--no-auth",
					"--listen", "127.0.0.1:0",
				)
				if err != nil {
					return 0, err
				}
				defer p.Stop()
				how = p.How()
				url, err := p.URL()
				if err != nil {
					return 0, err
				}
				var exceeded error
				for _, phase := range memtest.Worst {
					flood, cancel := context.WithTimeout(ctx, lasting(4*time.Second))
					memtest.Flood(flood, strings.TrimPrefix(url, "http://"), phase)
					cancel()
					exceeded = errors.Join(exceeded, p.Exceeded())
				}
				return float64(p.Peak() >> 20), exceeded
			},
			Notes: func() string { return how },
			Close: s.Close,
		}, nil
	},
}
