package deferred

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/smalldisk"
)

// The disk of the leader of three nodes is full: the other two continue and keep all that was acknowledged. Once it
// has room and was restarted, it is one of three again.
func TestDiskFullOneOfThree(t *testing.T) {
	t.Parallel() // it mostly waits
	smalldisk.Run(t, 16<<20, func(t *testing.T, small string) {
		dir := t.TempDir()
		if err := os.Symlink(small, filepath.Join(dir, "n1")); err != nil {
			t.Fatal(err)
		}
		c, err := natsserver.StartCluster(t.Context(), 3, natsserver.Options{Dir: dir, LazySync: true, MaxStore: 20 << 30})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Stop)
		s := openStream(t, connect(t, c.URL()), Options{Replicas: 3})
		await.Until(t, "node 1 leads", func() bool {
			if c.Leader(s.name) == c.Nodes[0] {
				return true
			}
			// In the middle of an election nobody answers.
			_, _ = s.nc.Request(
				"$JS.API.STREAM.LEADER.STEPDOWN."+s.name, []byte(`{"placement":{"preferred":"n1"}}`), time.Second,
			)
			return false
		})
		free := smalldisk.Fill(t, small, 1<<20)
		var acked []string
		put := func(id string) bool {
			err := s.Put(t.Context(), []Item{itemFor(large(id), "")})[0]
			if err == nil {
				acked = append(acked, id)
			}
			return err == nil
		}
		tries := 0
		await.Until(t, "four times as much is stored as node 1 has room for", func() bool {
			tries++
			put(fmt.Sprint(tries))
			return len(acked) == 40
		})
		if c.Leader(s.name) == c.Nodes[0] {
			t.Error("node 1 leads, though it can store nothing")
		}
		free()
		if err := c.Nodes[0].Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "more is stored", func() bool {
			tries++
			return put(fmt.Sprint(tries))
		})
		await.Until(t, "node 1 has caught up", func() bool {
			info, err := s.jobs.Info(t.Context())
			if err != nil || info.Cluster == nil {
				return false
			}
			n := 0
			for _, r := range info.Cluster.Replicas {
				if r.Current {
					n++
				}
			}
			return n == 2
		})
		got, _ := storedJobs(t, s, "a")
		got = slices.DeleteFunc(got, func(id string) bool { return !slices.Contains(acked, id) })
		if !slices.Equal(got, acked) {
			t.Errorf("%v there, %v were acknowledged", got, acked)
		}
	})
}
