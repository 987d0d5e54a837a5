package redisq_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// A reading of all queues takes a call for each partition, and costs a fraction of a list.
func TestReadingsTakeFewCalls(t *testing.T) {
	c := redistest.New(t, redistest.Options{}).Client()
	e := openWith(t, c, 4, 300)
	before := scriptCalls(t, c)
	all, err := e.Readings(t.Context())
	if err != nil || len(all) != 300 {
		t.Fatalf("%d readings: %v", len(all), err)
	}
	if calls := scriptCalls(t, c) - before; calls != 4 {
		t.Errorf("%d calls for 4 partitions", calls)
	}
}

// BenchmarkReadings and BenchmarkList tell how long the server is at it: 10,000 queues, a job in each.
func BenchmarkReadings(b *testing.B) {
	benchmarkAll(b, func(ctx context.Context, e *redisq.Engine) (int, error) {
		all, err := e.Readings(ctx)
		return len(all), err
	})
}

func BenchmarkList(b *testing.B) {
	benchmarkAll(b, func(ctx context.Context, e *redisq.Engine) (int, error) {
		all, err := e.List(ctx, "", 10_000)
		return len(all), err
	})
}

func benchmarkAll(b *testing.B, read func(context.Context, *redisq.Engine) (int, error)) {
	c := redistest.New(b, redistest.Options{}).Client()
	e := openWith(b, c, 16, 10_000)
	before := serverCPU(b, c)
	b.ResetTimer()
	for b.Loop() {
		if n, err := read(b.Context(), e); n != 10_000 || err != nil {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric((serverCPU(b, c)-before)*1000/float64(b.N), "server-ms/op")
}

// serverCPU is how many seconds the server has computed.
func serverCPU(t testing.TB, c redis.UniversalClient) (sum float64) {
	t.Helper()
	text, err := c.Info(t.Context(), "cpu").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`used_cpu_(?:user|sys):([\d.]+)`).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseFloat(found[1], 64)
		sum += n
	}
	return sum
}

func openWith(t testing.TB, c redis.UniversalClient, partitions, queues int) *redisq.Engine {
	t.Helper()
	e, err := redisq.OpenClient(t.Context(), c, redisq.Options{
		Init: true, Partitions: partitions, Patience: redistest.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	for n := range queues {
		name := fmt.Sprintf("queue-%05d", n)
		if _, err := e.Put(t.Context(), queue.Spec{Name: name, Rate: leaky.PerSecond(10), Capacity: 100}, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Append(t.Context(), []queue.Job{{Queue: name, ID: "a"}}); err != nil {
			t.Fatal(err)
		}
	}
	return e
}
