package deferred

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/smalldisk"
	"github.com/penstock/penstock/queue"
)

// The disk of NATS is full: what cannot be stored is refused, at first when no acknowledgment comes, later at once,
// and the queue works as before. Once there is room and nats-server was restarted, all accepted jobs come back, once
// and in order, and jobs are deferred again.
func TestDiskFull(t *testing.T) {
	testDiskFull(t, natsserver.Options{Listen: "127.0.0.1:0", LazySync: true})
}

// The same with the server embedded in `penstock up`.
func TestDiskFullEmbedded(t *testing.T) { testDiskFull(t, natsserver.Options{}) }

func testDiskFull(t *testing.T, o natsserver.Options) {
	t.Parallel() // it mostly waits
	smalldisk.Run(t, 16<<20, func(t *testing.T, dir string) {
		o.Dir, o.MaxStore = filepath.Join(dir, "js"), 20<<30
		server, err := natsserver.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Stop)
		r := &rig{seen: newSeen()}
		r.Engine, r.clock = newBolt(t)
		var nc *nats.Conn
		if o.Listen == "" {
			if nc, err = server.Connect(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
		} else {
			nc = connect(t, server.URL())
		}
		r.stream = openStream(t, nc, Options{Observer: r.seen})
		putSpec(t, r, specFor("a", 10))
		a := newAppender(t, r, r.stream)
		defers(t, a, "a", numbered(10)) // it is full
		free := smalldisk.Fill(t, dir, 1<<20)

		accepted, unknown := fillOverflow(t, a)
		if err := r.stream.Connected(); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("the overflow says %v", err)
		}
		// From now on it is known.
		for _, id := range []string{"x", "y", "z"} {
			if x := one(t, a, large(id)); x.Outcome != queue.Failed || !errors.Is(x.Err, ErrUnavailable) ||
				errors.Is(x.Err, queue.ErrOutcomeUnknown) {
				t.Errorf("%s: %v %v", id, x.Outcome, x.Err)
			}
			if j, err := r.Job(t.Context(), "a", id); !errors.Is(err, queue.ErrUnknownJob) {
				t.Errorf("%s was refused, and is there: %+v", id, j)
			}
		}
		if info := r.info(t, "a"); info.Deferred != int64(len(accepted)+len(unknown)) {
			t.Errorf("%d deferred, %d were accepted and of %d nothing is known", info.Deferred, len(accepted), len(unknown))
		}
		untouched(t, r, a)

		free()
		runReadmitter(t, r.readmitter())
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "jobs are deferred again", func() bool {
			return one(t, a, job("a", "again")).Outcome == queue.Accepted
		})
		left := leave(t, r, len(accepted)+2+3+1)
		stored := slices.DeleteFunc(left, func(id string) bool { return !strings.HasPrefix(id, "large") })
		if !slices.Equal(stored, accepted) {
			t.Errorf("%v came back, %v were accepted", stored, accepted)
		}
		// What NATS never had is given up, and said to be missing.
		r.clock.jump(queue.OrphanAfter)
		r.idle(t, "a")
		if info := r.info(t, "a"); info.Missing != int64(len(unknown)) || info.Returned != int64(len(accepted)+1) {
			t.Errorf("%d missing, %d came back", info.Missing, info.Returned)
		}
	})
}

func large(id string) queue.Job {
	return queue.Job{Queue: "a", ID: id, Payload: make([]byte, 100<<10)}
}

// fillOverflow appends jobs until one is not accepted.
func fillOverflow(t *testing.T, a *Appender) (accepted, unknown []string) {
	t.Helper()
	for i := range 100 {
		id := fmt.Sprintf("large%02d", i)
		x := one(t, a, large(id))
		switch {
		case x.Outcome == queue.Accepted && x.State == queue.Deferred:
			accepted = append(accepted, id)
			continue
		case errors.Is(x.Err, queue.ErrOutcomeUnknown):
			unknown = append(unknown, id)
		default:
			t.Fatalf("%s: %v %v", id, x.Outcome, x.Err)
		}
		break
	}
	if len(accepted) == 0 || len(unknown) == 0 {
		t.Fatalf("%d accepted, of %d nothing is known", len(accepted), len(unknown))
	}
	return accepted, unknown
}

// untouched checks that the queue releases its jobs and accepts jobs that may not wait.
func untouched(t *testing.T, r *rig, a *Appender) {
	t.Helper()
	if got, want := leave(t, r, 8), numbered(8); !slices.Equal(got, want) {
		t.Errorf("%v left, not %v", got, want)
	}
	for i := range 4 {
		j := job("a", fmt.Sprintf("reject%d", i))
		j.Overflow = queue.Reject
		want := queue.Accepted
		if i == 3 {
			want = queue.Full // the other places are for what comes back
		}
		if x := one(t, a, j); x.Outcome != want {
			t.Errorf("%s: %v %v", j.ID, x.Outcome, x.Err)
		}
	}
}
