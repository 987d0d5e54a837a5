package redisq_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/redisq"
)

var lranges = regexp.MustCompile(`cmdstat_lrange:calls=(\d+)`) // one for each queue that is shown

// A page of a list reads about as many queues as it has, in however many partitions they are; what is broken is left
// out, and ends no list.
func TestListReadsWhatItReturns(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	v, c := open(t, s.Client(), redisq.Options{Init: true, Partitions: 16}), s.Client()
	const queues, limit = 600, 50
	var want []string
	for i := range queues {
		name := fmt.Sprintf("q%03d", i)
		v.put(name, leaky.PerSecond(1), nil)
		want = append(want, name)
	}
	const at = 500
	broken := want[at]
	want = slices.Delete(want, at, at+1)
	tag := fmt.Sprintf("ps{%d}", v.e.Partition(broken))
	plant(t, s, tag+"w"+c.HGet(v.ctx, tag+"n", broken).Val())
	for _, tt := range []struct{ page, behind int }{{limit, 0}, {7, 0}, {1, at - 50}, {10_000, 0}} {
		page, want, after := tt.page, want[tt.behind:], ""
		if tt.behind > 0 {
			after = fmt.Sprintf("q%03d", tt.behind-1)
		}
		var got []string
		c.ConfigResetStat(v.ctx)
		pages := 0
		for ; ; pages++ {
			infos, err := v.e.List(v.ctx, after, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range infos {
				got = append(got, i.Spec.Name)
			}
			if len(infos) < page {
				break
			}
			after = got[len(got)-1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %d queues, %d are there", page, len(got), len(want))
		}
		calls, _ := strconv.Atoi(lranges.FindStringSubmatch(c.Info(v.ctx, "commandstats").Val())[1])
		if most := 2*queues + (pages+1)*16*5; calls > most {
			t.Errorf("%d pages of %d read %d queues, at most %d serve", pages, page, calls, most)
		}
	}
}
