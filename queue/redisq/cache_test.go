package redisq

import (
	"fmt"
	"sync"
	"testing"
)

// What is remembered of names is bounded, however many there were and whoever puts and drops them at once; the latest
// is there.
func TestKnownIsBounded(t *testing.T) {
	var k cache[int]
	var running sync.WaitGroup
	for w := range 4 {
		running.Go(func() {
			for i := range 2 * maxCached {
				name, v := fmt.Sprint(i), new(int)
				k.put(name, v)
				if i%7 == w {
					k.drop(name, v)
					k.forget(fmt.Sprint(i - 3))
				}
			}
		})
	}
	running.Wait()
	n := int64(0)
	k.values.Range(func(any, any) bool { n++; return true })
	if n > maxCached || n < maxCached/2 || k.count.Load() != n {
		t.Errorf("%d are remembered, %d counted", n, k.count.Load())
	}
	v := new(int)
	k.put("last", v)
	if k.get("last") != v || k.drop("last", new(int)) || k.get("last") != v || !k.drop("last", v) ||
		k.get("last") != nil {
		t.Error("the last is not what was put")
	}
}
