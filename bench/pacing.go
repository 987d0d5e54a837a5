package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/penstock/penstock/internal/prove"
	"github.com/penstock/penstock/internal/test/redistest"
)

// pacing proves a rate with four drainer processes, beside one process that sleeps in a loop and posts to the same
// receiver. It runs the program that users run.
func pacing(rate int) Figure {
	var r prove.Report
	return Figure{
		Name: fmt.Sprintf("pacing-%d", rate), Unit: "ms, start lateness p99, 4 drainers", Rounds: 1,
		Floor: "a sleeping loop",
		Goal:  "window law held, at most 2 x the floor, 99.5% of the rate",
		Met: func(ours, _, floor float64) bool {
			return r.Held && r.Law.Held && ours <= 2*floor && r.Pace.Share >= 0.995
		},
		Setup: func(ctx context.Context) (Measurements, error) {
			dir, err := programs(ctx)
			if err != nil {
				return Measurements{}, err
			}
			server, err := redistest.Start(ctx, redistest.Options{})
			if err != nil {
				return Measurements{}, err
			}
			m := Measurements{Close: func() { _ = server.Close() }}
			m.Ours = func(ctx context.Context) (float64, error) {
				cmd := exec.CommandContext(ctx, filepath.Join(dir, "penstock"), "prove", "--redis", server.URL(), "--init",
					"--drainers", "4", "--rate", fmt.Sprintf("%d/s", rate),
					"--duration", max(time.Second, lasting(time.Minute)).String(), "--reference", "-o", "json")
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				var exit *exec.ExitError
				if err != nil && !errors.As(err, &exit) { // a failed proof is a result
					return 0, err
				}
				if err := json.Unmarshal(out, &r); err != nil {
					return 0, fmt.Errorf("reading the output of prove: %w: %s", err, out)
				}
				return milliseconds(r.Pace.LatenessP99), nil
			}
			m.Floor = func(context.Context) (float64, error) {
				if r.Reference == nil {
					return 0, errors.New("the proof has no reference")
				}
				return milliseconds(r.Reference.LatenessP99), nil
			}
			m.Notes = func() string {
				return fmt.Sprintf("law held %v (needed %v of slack + delta %v); most in 1 s %d, allowed %d; achieved %.2f%%, "+
					"lost slots %d; gaps under 0.9 T %.2f%%, |gap-T| p99 %v (floor %v); lost jobs %d, delivered twice %d; receiver "+
					"stalled at most %v; %v",
					r.Law.Held, r.Law.Needed, r.Law.Slack+r.Law.Delta, r.Law.Most, r.Law.Allowed, 100*r.Pace.Share, r.LostByStore,
					100*r.Pace.ShortGaps,
					r.Pace.GapP99, r.Reference.GapP99, r.Lost, r.Twice, r.WorstStall, r.Broken)
			}
			return m, nil
		},
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
