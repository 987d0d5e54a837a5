package auth

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/test/await"
)

// full is a store of so many apps, and so many tokens of them, as people have them.
func full(tb testing.TB, apps, tokens int) (m *memory, secret string) {
	tb.Helper()
	m = newMemory()
	a, err := New(m, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	put := func(kind, name string, v any) {
		if _, err := a.put(context.Background(), kind, name, v, 0); err != nil {
			tb.Fatal(err)
		}
	}
	created := now()
	for n := range apps {
		put(KindApp, fmt.Sprintf("team-%05d", n), &App{
			Name:     fmt.Sprintf("team-%05d", n),
			Prefixes: []string{fmt.Sprintf("team-%05d-*", n), fmt.Sprintf("ses.team-%05d", n)},
			Limits:   Limits{Queues: 20, Bytes: 1 << 30, Streams: 100}, Hosts: []string{fmt.Sprintf("*.team-%05d.example", n)},
			Secrets: []string{fmt.Sprintf("team_%05d_*", n)}, Note: "a team that sends mail", Created: created,
		})
	}
	for n := range tokens {
		text, t := NewToken()
		t.App, t.AppCreated, t.Created = fmt.Sprintf("team-%05d", n%apps), created, created
		t.Grants = []Grant{{Produce, ""}, {View, ""}, {Consume, fmt.Sprintf("team-%05d-mail", n%apps)}}
		t.Expires, t.Creator, t.Note = created.Add(1000*time.Hour), "token:abcdefghijkl", "worker of the mailer"
		put(KindToken, t.ID, &t)
		secret = text
	}
	return m, secret
}

// pages are a store's documents in the pages in which they are read, so that nothing of the store itself is measured.
type pages struct {
	document.Documents
	all []document.Document
}

func (p *pages) DocumentsSince(_ context.Context, after int64, limit int) (document.Page, error) {
	from := int(after) // of a store in which nothing was written twice
	to := min(from+limit, len(p.all))
	return document.Page{Documents: p.all[from:to], More: to < len(p.all), Run: "1"}, nil
}

// BenchmarkMemory is what an ingress has in memory for 100,000 tokens of 10,000 apps: the heap, collected. It should
// stay below 60 MB.
func BenchmarkMemory(b *testing.B) {
	m, _ := full(b, 10_000, 100_000)
	all, err := m.DocumentsSince(context.Background(), 0, 1<<30)
	if err != nil {
		b.Fatal(err)
	}
	store := &pages{all: all.Documents}
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return float64(s.HeapAlloc)
	}
	var used float64
	for b.Loop() {
		before := heap()
		a, err := New(store, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := a.replica.poll(context.Background()); err != nil {
			b.Fatal(err)
		}
		used = heap() - before
		if a.Known() != 110_000 {
			b.Fatal(a.Known())
		}
	}
	b.ReportMetric(used/1e6, "MB")
	b.ReportMetric(0, "B/op")
}

func benchIdentify(b *testing.B, proof string, store document.Documents, want Code) {
	a, err := New(store, Options{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	await.Until(b, "it is ready", func() bool { return a.Ready() == nil })
	request := with(proof)
	request.RemoteAddr = "192.0.2.1:1000"
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		if _, err := a.Identify(request); codeOf(err) != want {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
}

func BenchmarkIdentify(b *testing.B) {
	m, right := full(b, 1000, 10_000)
	id, _, _ := parseToken(right)
	b.Run("right", func(b *testing.B) { benchIdentify(b, right, m, "") })
	b.Run("mistyped", func(b *testing.B) { benchIdentify(b, right[:40]+"0"+right[41:], m, Mistyped) })
	guessed := TokenPrefix + id + "_" + strings.Repeat("a", secretLength)
	check := checksum([]byte(guessed))
	b.Run("guessed", func(b *testing.B) { benchIdentify(b, guessed+string(check[:]), m, Unknown) })
	b.Run("1MB", func(b *testing.B) { benchIdentify(b, strings.Repeat("a", 1<<20), m, Mistyped) })
	b.Run("none", func(b *testing.B) {
		a, err := New(m, Options{})
		if err != nil {
			b.Fatal(err)
		}
		request := with("x")
		request.Header = http.Header{}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := a.Identify(request); codeOf(err) != Missing {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkJWT(b *testing.B) {
	for _, algorithm := range []jose.SignatureAlgorithm{jose.RS256, jose.ES256} {
		b.Run(string(algorithm), func(b *testing.B) {
			p := newProvider(b)
			key := newSigner(b, "one", algorithm)
			p.keys = []jose.JSONWebKey{key.public()}
			text := key.sign(b, p.claims(nil))
			i, err := newIssuer(Issuer{Name: "k8s", URL: p.url, Audience: "penstock"}, nil)
			if err != nil {
				b.Fatal(err)
			}
			if err := i.discover(context.Background()); err != nil {
				b.Fatal(err)
			}
			for _, c := range []struct {
				name   string
				before func()
			}{
				{"known", func() {}},
				{"new", func() { i.verified.put([32]byte{}, -1, nil) }},
			} {
				b.Run(c.name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						c.before()
						if _, err := i.verify(context.Background(), text); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}
