package redisq_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// Two failovers, the second before the first master was back, lose nothing that was acknowledged: with the settings
// that deploy/redis/redis.conf ships a master without a replica refuses. (What a replica had not received yet when its
// master dies is another matter, which this test leaves out.)
func TestTwoFailovers(t *testing.T) {
	t.Parallel()
	s := redistest.NewSentinel(t, redistest.SentinelOptions{Node: redistest.Options{Args: shipped(t,
		"../../deploy/redis/redis.conf")}})
	v := open(t, s.Client(), redisq.Options{Init: true, Partitions: 1})
	v.put("email", leaky.Unlimited, nil)
	var acknowledged []queue.Job
	// add appends one job, and reports whether it was taken, or why not.
	add := func() error {
		j := job("email", len(acknowledged))
		a, err := v.e.Append(v.ctx, []queue.Job{j})
		switch {
		case err == nil && (a[0].Outcome == queue.Accepted || a[0].Outcome == queue.Duplicate):
			acknowledged = append(acknowledged, j)
			return nil
		case err == nil:
			err = a[0].Err
		}
		if !errors.Is(err, queue.ErrUnavailable) && !errors.Is(err, queue.ErrOutcomeUnknown) {
			t.Fatalf("append: %+v, %v", a, err)
		}
		return err
	}
	replicated := func(master *redistest.Server) {
		t.Helper()
		await.Until(t, "a job is taken in", func() bool { return add() == nil })
		for range 20 {
			if err := add(); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := master.Client().Wait(v.ctx, 1, 10*time.Second).Result(); err != nil || n != 1 {
			t.Fatalf("the replica did not catch up: %d, %v", n, err)
		}
	}
	first, err := s.Master(v.ctx)
	if err != nil {
		t.Fatal(err)
	}
	replicated(first)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	second, err := s.AwaitFailover(v.ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the lone master refuses", func() bool {
		err := add()
		if err == nil {
			t.Fatal("a master without a replica took a job in, which is lost if the other becomes the master again")
		}
		return strings.Contains(err.Error(), "NOREPLICAS")
	})
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, node := range []*redistest.Server{first, second} {
		if err := node.Restart(v.ctx); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "one is the master of the other again, and takes a job in", func() bool { return add() == nil })
	for _, j := range acknowledged {
		if i, err := v.e.Job(v.ctx, "email", j.ID); err != nil || i.State != queue.Waiting {
			t.Errorf("%s was acknowledged: %v, %v", j.ID, i.State, err)
		}
	}
	if n := len(acknowledged); n != 22 {
		t.Errorf("%d were acknowledged, want 22", n)
	}
}

// shipped is a file of settings as arguments of redis-server.
func shipped(t *testing.T, file string) (args []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "" && name[0] != '#' {
			args = append(args, "--"+name, strings.Trim(value, `"`))
		}
	}
	if !slices.Contains(args, "--min-replicas-to-write") {
		t.Fatalf("%s does not name min-replicas-to-write", file)
	}
	return args
}
