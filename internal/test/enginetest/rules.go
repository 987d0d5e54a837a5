package enginetest

import (
	"context"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// PerHour returns a rule with an hourly limit for each lane.
func PerHour(name string, limit int64, change ...func(*rules.Rule)) rules.Rule {
	r := rules.Rule{
		Name: name, Algorithm: leaky.AlgorithmFixedWindow, Key: "{lane}",
		Bound: rules.Bound{Limit: limit, Period: unit.Duration(time.Hour)},
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

// MustPutRule puts a rule.
func (c *Caller) MustPutRule(r rules.Rule) {
	c.Helper()
	if _, err := c.Callee.PutRule(context.Background(), r, queue.AnyRevision); err != nil {
		c.Fatal(err)
	}
}

// MustTake asks a rule once.
func (c *Caller) MustTake(rule string, take rules.Take) rules.Taken {
	c.Helper()
	a, err := c.Callee.Take(context.Background(), rule, []rules.Take{take})
	if err != nil {
		c.Fatal(err)
	}
	if a[0].Err != nil {
		c.Fatal(a[0].Err)
	}
	return a[0]
}

// Peek returns what a take of one would be answered.
func (c *Caller) Peek(rule, key string) leaky.Decision {
	c.Helper()
	return c.MustTake(rule, rules.Take{Op: rules.TakePeek, Key: key}).Decision
}

// Left returns how much a rule still allows under a key.
func (c *Caller) Left(rule, key string) int64 {
	c.Helper()
	d := c.Peek(rule, key)
	if !d.Allowed {
		return 0
	}
	return d.Remaining + 1 // without the one that was asked for
}
