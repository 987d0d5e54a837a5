// Command bench measures Penstock, its peers, and a floor: the least work that any correct implementation must do. It
// measures them on one machine in one run. Each round measures all of them in turn, and the median of the rounds
// counts. So the ratios hold even on a noisy machine, where absolute figures do not.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"slices"
	"text/tabwriter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("run", ".", "measure the figures whose names match this regular expression")
	rounds := flags.Int("rounds", 5, "maximum number of rounds per figure; the median counts")
	flags.Float64Var(&scale, "scale", 1, "part of the full size to measure: of jobs, queues, lanes, lines and seconds")
	out := flags.String("json", "bench.json", "file to write the run to, after each figure; empty writes none")
	add := flags.Bool(
		"add", false,
		"continue the run in the file: measure what is missing; needs the same commit, machine, rounds and scale",
	)
	publish := flags.String(
		"publish", "", "copy the run in this file to "+publishedRun+", write the tables of "+publishedPage+", and end",
	)
	list := flags.Bool("list", false, "print the names of the figures and end")
	profile := flags.String(
		"cpuprofile", "", "write a CPU profile of this process to this file; it includes the peers and the floor",
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*only)
	switch {
	case err != nil:
		return fmt.Errorf("-run: %w", err)
	case *rounds < 1:
		return fmt.Errorf("-rounds %d: must be at least 1", *rounds)
	case !(scale > 0 && scale <= 1):
		return fmt.Errorf("-scale %v: must be above 0 and at most 1", scale)
	case *publish != "":
		return publishRun(*publish)
	case *list:
		for _, f := range figures {
			if match.MatchString(f.Name) {
				fmt.Fprintln(stdout, f.Name)
			}
		}
		return nil
	}
	record, err := newRecord(ctx, *rounds)
	if err == nil && *add {
		err = record.continueFrom(*out)
	}
	if err != nil {
		return err
	}
	stopProfile, err := profileTo(*profile)
	if err != nil {
		return err
	}
	defer stopProfile()
	defer removePrograms()
	for _, f := range figures {
		if !match.MatchString(f.Name) || record.find(f.Name) != nil {
			continue
		}
		if err := record.measure(ctx, f, *out, stderr); err != nil {
			return err
		}
	}
	report(stdout, record.Figures)
	return nil
}

// profileTo writes a CPU profile to a file until stop is called. An empty name writes none.
func profileTo(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}

// measure adds a figure to the run and writes the run to a file. An empty name writes none.
func (r *Record) measure(ctx context.Context, f Figure, file string, progress io.Writer) error {
	fmt.Fprintf(progress, "%s ...\n", f.Name)
	result, err := f.measure(ctx, r.Rounds, progress)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	r.Figures = append(r.Figures, result)
	report(progress, []Result{result})
	if file == "" {
		return nil
	}
	return r.write(file)
}

// Figure is one thing to measure.
type Figure struct {
	Name, Unit string
	Rounds     int // upper limit, for figures that take long
	// Goal describes the goal; Met checks it against the medians.
	Goal string
	Met  func(ours, peer, floor float64) bool
	// Peer and Floor name the things to compare with; either may be empty.
	Peer, Floor string
	// Setup prepares the figure. The measurements it returns are called once a round, in turn.
	Setup func(ctx context.Context) (Measurements, error)
}

// Measurements are the functions that measure one figure. Peer and Floor may be nil.
type Measurements struct {
	Ours, Peer, Floor func(ctx context.Context) (float64, error)
	// Notes returns further results, once all rounds are done.
	Notes func() string
	Close func()
}

// Result is a measured Figure.
type Result struct {
	Name       string  `json:"name"`
	Unit       string  `json:"unit"`
	Ours       float64 `json:"ours"`
	Peer       string  `json:"peer,omitempty"`
	PeerValue  float64 `json:"peer_figure,omitempty"`
	PeerRatio  float64 `json:"peer_ratio,omitempty"`
	Floor      string  `json:"floor,omitempty"`
	FloorValue float64 `json:"floor_figure,omitempty"`
	FloorRatio float64 `json:"floor_ratio,omitempty"`
	Goal       string  `json:"goal"`
	Met        bool    `json:"met"`
	Notes      string  `json:"notes,omitempty"`
}

func (f Figure) measure(ctx context.Context, rounds int, progress io.Writer) (Result, error) {
	if f.Rounds > 0 {
		rounds = min(rounds, f.Rounds)
	}
	m, err := f.Setup(ctx)
	if m.Close != nil {
		defer m.Close()
	}
	if err != nil {
		return Result{}, err
	}
	kinds := []func(context.Context) (float64, error){m.Ours, m.Peer, m.Floor}
	values := make([][]float64, len(kinds))
	for round := range rounds {
		for k := range kinds {
			at := (k + round) % len(kinds) // so that each kind goes first in turn
			if kinds[at] == nil {
				continue
			}
			if err := ctx.Err(); err != nil {
				return Result{}, err
			}
			v, err := kinds[at](ctx)
			if err != nil {
				return Result{}, err
			}
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return Result{}, fmt.Errorf("it measured %v, which is not a number", v)
			}
			values[at] = append(values[at], v)
		}
		fmt.Fprintf(progress, "  round %d of %d\n", round+1, rounds)
	}
	ours, peer, floor := median(values[0]), median(values[1]), median(values[2])
	r := Result{
		Name: f.Name, Unit: f.Unit, Ours: ours, Peer: f.Peer, PeerValue: peer, Floor: f.Floor, FloorValue: floor,
		Goal: f.Goal, Met: f.Met(ours, peer, floor),
	}
	if peer > 0 {
		r.PeerRatio = ours / peer
	}
	if floor > 0 {
		r.FloorRatio = ours / floor
	}
	if m.Notes != nil {
		r.Notes = m.Notes()
	}
	return r, nil
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	if len(v)%2 == 1 {
		return v[len(v)/2]
	}
	return (v[len(v)/2-1] + v[len(v)/2]) / 2
}

func report(w io.Writer, results []Result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "figure\tunit\tours\tpeer\tx\tfloor\tx\tgoal\t")
	for _, r := range results {
		verdict := "met"
		if !r.Met {
			verdict = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s: %s\t\n", r.Name, r.Unit, number(r.Ours),
			against(r.Peer, r.PeerValue), ratio(r.PeerRatio),
			against(r.Floor, r.FloorValue), ratio(r.FloorRatio), r.Goal, verdict)
	}
	_ = t.Flush()
	for _, r := range results {
		if r.Notes != "" {
			fmt.Fprintf(w, "%s: %s\n", r.Name, r.Notes)
		}
	}
}

func number(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func against(name string, v float64) string {
	if name == "" {
		return "-"
	}
	return number(v) + " " + name
}

func ratio(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}
