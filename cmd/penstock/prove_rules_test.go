package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/prove"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// proveRules runs prove --rules, and checks that its exit code says what its report says.
func proveRules(t *testing.T, args ...string) *prove.RulesReport {
	t.Helper()
	code, out, errs := run(t, append([]string{
		"prove", "--rules", "-o", "json", "--rate", "10/s", "--keys", "2",
	}, args...)...)
	var r prove.RulesReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("exit %d, %v\n%s\n%s", code, err, out, errs)
	}
	if (code == 0) != r.Held || r.Held != (len(r.Broken) == 0) || code > 1 || len(r.Rules) != 7 {
		t.Errorf("exit %d, held %v, broken %v, %d rules", code, r.Held, r.Broken, len(r.Rules))
	}
	for _, v := range r.Rules {
		if v.Allowed == 0 || v.Refused == 0 || v.Unknown == 0 || v.Asked != v.Allowed+v.Refused+v.Unknown {
			t.Errorf("%+v", v)
		}
	}
	return &r
}

// lawful checks that no law is broken. How much is asked of a rule is the machine's affair, which tests share with
// others.
func lawful(t *testing.T, r *prove.RulesReport) {
	t.Helper()
	for _, v := range r.Rules {
		if !v.Held {
			t.Errorf("%s: %+v; %v", v.Algorithm, v, r.Broken)
		}
	}
	for _, b := range r.Broken {
		if !strings.Contains(b, "never near its limit") {
			t.Error(b)
		}
	}
}

func TestProveRulesEmbedded(t *testing.T) {
	t.Parallel()
	lawful(t, proveRules(t, "-d", "4s"))
}

func TestProveRulesEmbeddedUnderFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"kill", "restart"} {
		r := proveRules(t, "-d", "5s", "--faults", fault, "--every", "2s")
		if r.Injected == 0 {
			t.Errorf("%s: %v", fault, r.Broken)
		}
		if fault == "restart" { // what a kill may forget is forgotten later where the disk is busy
			lawful(t, r)
		}
	}
}

// TestProveRulesOnRedis: three ingresses are killed or paused while replies of Redis are lost on their way; once Redis
// itself is killed too, but not when an ingress may be starting, which would end for want of it.
func TestProveRulesOnRedis(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"kill", "pause"} {
		t.Run(fault, func(t *testing.T) {
			server := redistest.New(t, redistest.Options{AppendFsync: "always"})
			proxy := faultproxy.New(t, server.Addr())
			n, asked := 0, make(chan struct{})
			lost := proxy.Inject(faultproxy.Fault{Do: faultproxy.SwallowReply, On: faultproxy.All(faultproxy.Script("prove-"),
				func(faultproxy.Command) bool {
					if n++; n == 500 {
						close(asked)
					}
					return n%50 == 0
				})})
			over, killed := make(chan struct{}), make(chan error, 1)
			go func() {
				select {
				case <-over:
					killed <- errors.New("the rules were hardly asked")
				case <-asked:
					if fault == "kill" {
						killed <- nil
						return
					}
					killed <- errors.Join(server.Kill(), server.Restart(context.WithoutCancel(t.Context())))
				}
			}()
			r := proveRules(
				t, "--redis", strings.Replace(server.URL(), server.Addr(), proxy.Addr(), 1), "--init", "-d", "6s", "--faults",
				fault, "--every", "2s",
			)
			close(over)
			if err := <-killed; err != nil {
				t.Error(err)
			}
			lawful(t, r)
			if r.Injected == 0 || lost.Hits() == 0 {
				t.Errorf("%d faults, %d replies lost", r.Injected, lost.Hits())
			}
		})
	}
}

// Raising the numbers of a rule during the proof is detected.
func TestProveRulesDetectsALooserRule(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, redistest.Options{})
	engine, err := redisq.OpenClient(t.Context(), server.Client(), redisq.Options{
		Init: true, Patience: redistest.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- loosen(ctx, engine, leaky.AlgorithmSlidingLog) }()
	r := proveRules(t, "--redis", server.URL(), "-d", "6s")
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Rules {
		if v.Held == (v.Algorithm == "sliding_log") {
			t.Errorf("%s: held %v, %d of %d in %v", v.Algorithm, v.Held, v.Most, v.Law, v.Window)
		}
	}
	if r.Held || !strings.Contains(strings.Join(r.Broken, "; "), "the law of the rule sliding_log: ") {
		t.Errorf("held %v: %v", r.Held, r.Broken)
	}
}

// loosen waits for the rule of an algorithm and raises its limit.
func loosen(ctx context.Context, e queue.Engine, a leaky.Algorithm) error {
	for {
		all, err := e.ListRules(ctx, "", 100)
		if err != nil {
			return err
		}
		for _, r := range all {
			if r.Algorithm == a {
				r.Limit *= 3
				_, err := e.PutRule(ctx, r.Rule, queue.AnyRevision)
				return err
			}
		}
	}
}
