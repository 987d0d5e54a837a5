package queuetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// BenchmarkFind measures whole searches among 1,000,000 jobs in 10,000 queues, and logs the longest call of each.
func BenchmarkFind(b *testing.B, e queue.Engine) {
	const queues, each = 10_000, 100
	names := make([]string, queues)
	for i := range names {
		names[i] = fmt.Sprintf("tenant-%05d", i)
		if _, err := e.Put(b.Context(), queue.Spec{Name: names[i], Rate: leaky.PerSecond(1)}, queue.AnyRevision); err != nil {
			b.Fatal(err)
		}
	}
	for some := range slices.Chunk(names, 5) {
		var list []queue.Job
		for _, name := range some {
			for i := range each {
				j := queue.Job{Queue: name, ID: fmt.Sprintf("order-%s-%04d", name[7:], i), Payload: []byte("1")}
				if i == 0 && name[7:10] == "000" {
					j.Lane = "example.com"
				}
				list = append(list, j)
			}
		}
		if a, err := e.Append(b.Context(), list); err != nil || a[0].Outcome != queue.Accepted {
			b.Fatal(a[0], err)
		}
	}
	for _, c := range []struct {
		name string
		req  queue.FindRequest
		want int
	}{
		{"id", queue.FindRequest{ID: "order-07777-0042"}, 1},
		{"unknown id", queue.FindRequest{ID: "order-17777-0042"}, 0},
		{"prefix", queue.FindRequest{ID: "order-07777-", Prefix: true}, each},
		{"lane", queue.FindRequest{Lane: "example.com"}, 100},
	} {
		b.Run(c.name, func(b *testing.B) {
			calls, longest := 0, time.Duration(0)
			for b.Loop() {
				req, found := c.req, 0
				for req.Limit = queue.MaxPage; ; {
					begun := time.Now()
					page, err := e.FindJobs(b.Context(), req)
					if err != nil {
						b.Fatal(err)
					}
					longest, calls, found = max(longest, time.Since(begun)), calls+1, found+len(page.Jobs)
					if req.After = page.Next; page.Next == "" {
						break
					}
				}
				if found != c.want {
					b.Fatalf("found %d jobs, want %d", found, c.want)
				}
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
			b.ReportMetric(float64(calls)/float64(b.N), "calls/op")
		})
	}
}
