package redisq_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

var statCalls = regexp.MustCompile(`cmdstat_\w+:calls=(\d+)`)

// Jobs that expire, but do not lapse, are appended in the same few steps as others.
func TestAppendOfJobsThatExpire(t *testing.T) {
	v, s, at := manual(t)
	steps := func(name string, expires time.Time) (calls int) {
		v.put(name, leaky.PerSecond(10), nil)
		var jobs []queue.Job
		for i := range 500 {
			j := job(name, i)
			j.ExpiresAt = expires
			jobs = append(jobs, j)
		}
		s.Client().ConfigResetStat(v.ctx)
		a := v.append(jobs...)
		for _, m := range statCalls.FindAllStringSubmatch(s.Client().Info(v.ctx, "commandstats").Val(), -1) {
			n, _ := strconv.Atoi(m[1])
			calls += n
		}
		for i, got := range a {
			want := at.Add(time.Duration(i) * 100 * time.Millisecond).Time()
			late := !expires.IsZero() && want.After(expires)
			if late && got.Outcome != queue.Lapsed || !late && (got.Outcome != queue.Accepted || got.Position != int64(i)+1 || !got.ETA.Exact) || !got.ETA.At.Equal(want) && !late {
				t.Fatalf("%s: job %d: %+v", name, i, got)
			}
		}
		return calls
	}
	plain := steps("plain", time.Time{})
	expiring := steps("expiring", at.Time().Add(49900*time.Millisecond)) // the last of them just in time
	if expiring > plain+10 {
		t.Errorf("%d steps for 500 jobs that expire, %d for plain ones", expiring, plain)
	}
	steps("late", at.Time().Add(30*time.Second)) // these lapse from some job on
}
