package redisq_test

import (
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// After the last drainer has gone, the clock stands still for callers who cannot tell time that has passed from a jump,
// and then jumps. What rules allowed meanwhile must not be forgotten at once.
func TestRulesOutlastDrainers(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
	rule := rules.Rule{
		Name: "r.log", Key: "{lane}", Algorithm: leaky.AlgorithmSlidingLog,
		Bound: rules.Bound{Limit: 2, Period: unit.Duration(10 * time.Second)},
	}
	v.rule(rule)
	v.put("r.q", leaky.Unlimited, func(q *queue.Spec) { q.Rules = []string{rule.Name} })
	for name, ask := range map[string]func(key string) bool{
		"take": func(key string) bool {
			got, err := v.e.Take(v.ctx, rule.Name, []rules.Take{{Key: key}})
			if err != nil {
				t.Fatal(err)
			}
			return got[0].Allowed
		},
		"append": func(key string) bool {
			j := job("r.q", int(time.Now().UnixNano()))
			j.Lane = key
			return v.append(j)[0].Outcome == queue.Accepted
		},
	} {
		ask("an earlier " + name) // which shows the clock
		standStill(t, s, 0)       // a minute after a drainer vouched last
		allowed := 0
		for range 3 {
			if ask(name) {
				allowed++
			}
		}
		if allowed != 2 {
			t.Errorf("%s: %d of 3 are allowed, want 2", name, allowed)
		}
		standStill(t, s, 4*time.Second) // longer than the clock stands still
		if ask(name) {
			t.Errorf("%s: another is allowed when the clock has gone on", name)
		}
	}
}

// One caller knows that a minute has passed, and another does not. What the other was allowed while the clock stood
// still counts when the first lets it go on.
func TestRulesOutlastDrainersForAllCallers(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	knows := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
	tenth, err := leaky.ParseRate("6/m")
	if err != nil {
		t.Fatal(err)
	}
	rule := rules.Rule{
		Name: "r.bucket", Key: "{lane}", Algorithm: leaky.AlgorithmTokenBucket,
		Bound: rules.Bound{Rate: tenth, Burst: 2},
	}
	knows.rule(rule)
	ask := func(v *env, key string) bool {
		got, err := v.e.Take(v.ctx, rule.Name, []rules.Take{{Key: key}})
		if err != nil {
			t.Fatal(err)
		}
		return got[0].Allowed
	}
	ask(knows, "another") // which shows the clock
	standStill(t, s, 0)
	allowed := 0
	for range 3 {
		if ask(open(t, s.Client(), redisq.Options{}), "key") {
			allowed++
		}
	}
	if ask(knows, "key") {
		allowed++
	}
	if allowed != 2 {
		t.Errorf("%d of 4 are allowed, want 2", allowed)
	}
}

// standStill sets the clock as it is a minute after a drainer vouched for it, in doubt for some time or not yet.
func standStill(t *testing.T, s *redistest.Server, doubt time.Duration) {
	t.Helper()
	const plant = `
		local time, doubt = redis.call('TIME'), tonumber(ARGV[1])
		local wall = time[1] * 1000000 + time[2]
		local c = { cmsgpack.unpack(redis.call('HGET', KEYS[1], 'clock')) }
		if doubt == 0 then c[1] = wall - 60000000 end
		c[3], c[4] = wall - 60000000, doubt > 0 and wall - doubt or 0
		return redis.call('HSET', KEYS[1], 'clock', cmsgpack.pack(unpack(c)))`
	if err := s.Client().Eval(t.Context(), plant, []string{"ps{0}"}, doubt.Microseconds()).Err(); err != nil {
		t.Fatal(err)
	}
}
