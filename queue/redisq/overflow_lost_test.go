package redisq_test

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Whatever befalls a script of the overflow on its way, the outcome is the same
// as if nothing had.
func TestLostReplyOfOverflow(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"single", "cluster"} {
		t.Run(where, func(t *testing.T) {
			v, proxy := proxied(t, where == "cluster")
			for _, f := range faults {
				t.Run(f.name, func(t *testing.T) {
					v.t = t
					name := strings.ReplaceAll(f.name, " ", "-")
					v.put(name, leaky.Unlimited, enginetest.Deferring(2))
					proxy.Clear()
					counts := func(when string, deferred, aside, returned, cancelled int64) {
						t.Helper()
						if i := v.info(name); i.Deferred != deferred || i.SetAside != aside || i.Returned != returned ||
							i.Cancelled != cancelled {
							t.Errorf("%s: deferred %d, set aside %d, returned %d, cancelled %d; want %d, %d, %d, %d",
								when,
								i.Deferred, i.SetAside, i.Returned, i.Cancelled, deferred, aside, returned, cancelled)
						}
					}

					// Offer: set aside, once, under one ticket.
					f.inject(proxy, faultproxy.Script("job-0003"))
					a := v.offer(job(name, 1), job(name, 2), job(name, 3), job(name, 4))
					if a[0].Outcome != queue.Accepted || a[1].Outcome != queue.Accepted ||
						a[2].Outcome != queue.SetAside || a[2].Position != 3 ||
						a[3].Outcome != queue.SetAside || a[3].Position != 4 || a[2].Ticket == a[3].Ticket ||
						a[2].Ticket == "" {
						t.Fatalf("offer: %+v", a)
					}
					if again := v.offer(job(name, 3))[0]; again.Outcome != queue.Duplicate ||
						again.State != queue.Deferred || again.Ticket != a[2].Ticket {
						t.Errorf("offer again: %+v", again)
					}
					counts("after offer", 2, 2, 0, 0)

					// Withdraw: it was never set aside.
					f.inject(proxy, faultproxy.Script("job-0004"))
					waits, err := v.e.Withdraw(v.ctx, []queue.Ticketed{{
						Queue: name, ID: "job-0004",
						Ticket: a[3].Ticket,
					}})
					if err != nil || waits[0] <= 0 {
						t.Errorf("withdraw: %v, %v", waits, err)
					}
					counts("after withdraw", 1, 1, 0, 0)

					// Readmit: it is in, once, and what was returned by the lost call was passed by this one.
					kept := append(v.setAside(name, 5), queue.Readmission{
						Job: job(name, 3), Order: 3,
						Ticket: a[2].Ticket, At: a[2].At,
					})
					kept[0], kept[1] = kept[1], kept[0]
					v.drain(name, 2)
					f.inject(proxy, faultproxy.Script("holder"))
					r := v.readmit(name, kept...)
					if !r.Outcomes[0].Final() || r.Outcomes[1] != readmit.NotYet || r.Order != 3 || r.Deferred != 1 {
						t.Errorf("readmit: %+v", r)
					}
					counts("after readmit", 1, 2, 1, 0)

					// Cancel: of a job that came back, and of one that is deferred.
					for _, id := range []string{"job-0003", "job-0005"} {
						f.inject(proxy, faultproxy.Script(id))
						if state, err := v.e.Cancel(v.ctx, name, id); state != queue.Cancelled || err != nil {
							t.Errorf("cancel %s: %v, %v", id, state, err)
						}
					}
					counts("after cancel", 1, 2, 1, 2) // one is still seen behind
					if r := v.readmit(name, kept...); r.Outcomes[1] != readmit.Passed || r.Room != 1 {
						t.Errorf("readmit of a cancelled job: %+v", r)
					}
					counts("at last", 0, 2, 1, 2)
					if i := v.info(name); i.Size() != 0 || i.Delivered != 2 {
						t.Errorf("at last: %+v", i)
					}
				})
			}
		})
	}
}
