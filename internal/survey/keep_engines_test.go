package survey_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/redisq"
)

// On both engines the curves go on after the store was closed and opened again, and Redis restarted.
func TestHistoryOnEngines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store")
	server := redistest.New(t, redistest.Options{AppendFsync: "always"})
	for name, open := range map[string]func() (queue.Engine, error){
		"bolt": func() (queue.Engine, error) { return boltq.Open(t.Context(), file, boltq.Options{}) },
		"redis": func() (queue.Engine, error) {
			return redisq.OpenClient(t.Context(), server.Client(), redisq.Options{Init: true, Patience: redistest.Patience})
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now().Truncate(30 * time.Minute)
			begin := func() (queue.Engine, *survey.Survey) {
				e, err := open()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = e.Close() })
				return e, survey.New(e, survey.Options{Keeper: e, Version: "v1", Now: func() time.Time { return now }})
			}
			e, s := begin()
			if _, err := e.Put(t.Context(), queue.Spec{Name: "q", Rate: leaky.PerSecond(1), Capacity: 1000}, 0); err != nil {
				t.Fatal(err)
			}
			serve := func(n int) {
				t.Helper()
				for range n {
					now = now.Add(10 * time.Second)
					jobs := make([]queue.Job, 3)
					for i := range jobs {
						jobs[i] = queue.Job{Queue: "q", ID: fmt.Sprint(now.Unix(), "-", i), Payload: []byte("x")}
					}
					if _, err := e.Append(t.Context(), jobs); err != nil {
						t.Fatal(err)
					}
					if _, err := e.Cancel(t.Context(), "q", jobs[0].ID); err != nil {
						t.Fatal(err)
					}
					if err := s.Read(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			serve(12)
			if err := e.Pause(t.Context(), "q", queue.Pause{Reason: "late"}); err != nil {
				t.Fatal(err)
			}
			serve(6)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if name == "redis" {
				if err := server.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			e, s = begin()
			serve(3)
			c := s.Curves(15*time.Minute, nil)
			if len(c.Points) < 8 {
				t.Fatalf("%d points", len(c.Points))
			}
			for at, p := range c.Points[1:] {
				steps := int64(p.At.Sub(c.Points[0].At) / (10 * time.Second))
				if came := p.Arrived - c.Points[0].Arrived; came != 3*steps || p.Left != steps {
					t.Errorf("point %d, after %d steps: %+v; the first is %+v", at+1, steps, p, c.Points[0])
				}
			}
			if !slices.ContainsFunc(c.Marks, func(m survey.Mark) bool { return m.Kind == "paused" && m.Text == "late" }) {
				t.Errorf("marks %+v", c.Marks)
			}
			if s.KeepFailures() != 0 {
				t.Errorf("%d failures", s.KeepFailures())
			}
		})
	}
}
