package redisq_test

import (
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue/redisq"
)

// A master is killed while its rules are asked: who asks meanwhile is told to ask again, what the replica had is not
// forgotten, and no more than what it had not passes again.
func TestFailoverUnderTakes(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t, redistest.SentinelOptions{})
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 2})
	other := open(t, s.Client(), redisq.Options{Init: true, Partitions: 2})
	rules := exact()
	for _, r := range rules {
		v.rule(r)
	}
	master, err := s.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k := newTakers(t, "k", rules, v.e, other.e)
	for _, r := range rules {
		for range 20 {
			k.take(v.e, r.Name)
		}
	}
	if n, err := master.Client().Wait(t.Context(), 1, 10*time.Second).Result(); err != nil || n != 1 {
		t.Fatalf("the replica did not catch up: %d, %v", n, err)
	}
	had := k.sum()
	if want := int64(20 * len(rules)); had != want {
		t.Fatalf("%d passed of %d", had, want)
	}
	k.pause.Store(2 * time.Millisecond.Nanoseconds()) // so that there is something left when the replica takes over
	k.run()
	await.Until(t, "they are asked", func() bool { return k.sum() > had+10 })
	if err := master.Kill(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "somebody is not answered", func() bool { return k.away.Load() > 0 })
	lost := k.sum() - had // at most
	k.pause.Store(0)
	k.running.Wait()
	again := int64(0) // passed that were forgotten
	for _, r := range rules {
		n, u := k.passed[r.Name].Load(), k.unknown[r.Name].Load()
		if n+u < 100 {
			t.Errorf("%s: %d passed, and %d perhaps; want 100", r.Name, n, u)
		}
		again += max(0, n-100)
	}
	t.Logf("%d passed between the last that the replica was known to have and the end of the master, %d again", lost,
		again)
	if again > lost {
		t.Errorf("%d passed again, of %d that may have been lost", again, lost)
	}
	for _, r := range rules {
		if !k.take(v.e, r.Name) {
			t.Errorf("%s lets through after it refused", r.Name)
		}
	}
}
