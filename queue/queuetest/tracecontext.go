package queuetest

import (
	"maps"
	"time"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
)

var traceRules = []rule{
	{
		"a job keeps its trace context on the overflow, through retries, when dead and when replayed",
		func(r *rig) {
			s := r.overflowOf("q", "unlimited", withCapacity(1), leased(time.Minute, 2))
			j := job(s.q, "a")
			j.Headers = map[string]string{
				"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "vendor=a:b,other=c",
			}
			carries := func(when string, got queue.Job) {
				r.Helper()
				if !maps.Equal(got.Headers, j.Headers) {
					r.Errorf("%s it has %v", when, got.Headers)
				}
			}
			s.full()
			s.asideJobs(j)
			r.drain(s.q)
			s.takes(readmit.Returned)
			v := r.grant(s.q, 1, "a")
			carries("back from the overflow", v[0].Job)
			r.fail(0, v...)
			v = r.grant(s.q, 1, "a")
			carries("tried again", v[0].Job)
			r.settled(queue.Dead, settlement(queue.Bury, v[0]))
			if i := r.job(s.q, "a"); !maps.Equal(i.Headers, j.Headers) {
				r.Errorf("dead it shows %v", i.Headers)
			}
			r.replays(s.q, []string{"a"}, queue.Replayed)
			carries("replayed", r.drain(s.q)[0].Job)
		},
	},
}
