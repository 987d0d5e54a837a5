package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/replay"
)

// replayLines returns the number of lines of the replayed log.
func replayLines() int { return sized(1_000_000) }

var replayMeter = Figure{
	Name: "replay", Unit: "lines/s, a log through a meter, one core", Goal: "over 1,000,000/s",
	Met:   func(ours, _, _ float64) bool { return ours > 1_000_000 },
	Floor: "reading each line, its client and its time",
	Setup: func(context.Context) (Measurements, error) {
		log := combinedLog(replayLines(), 20_000)
		rules, err := replay.ReadRules("meter rate=5/s burst=10", nil)
		if err != nil {
			return Measurements{}, err
		}
		return Measurements{
			Ours: func(ctx context.Context) (float64, error) {
				return onOneCore(func() error {
					r, err := replay.Run(ctx, replay.Options{Rules: rules, Logs: []replay.Log{{
						Name: "log", In: bytes.NewReader(log),
					}}})
					if err == nil && r.Requests != int64(replayLines()) {
						err = fmt.Errorf("%d requests of %d lines", r.Requests, replayLines())
					}
					return err
				})
			},
			Floor: func(context.Context) (float64, error) {
				return onOneCore(func() error { return decode(log) })
			},
		}, nil
	},
}

// decode reads the fields of each line that a replay needs, and no others.
func decode(log []byte) error {
	var last []byte // lines of one second have the same text as their time
	var at time.Time
	clients := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(log))
	for lines.Scan() {
		client, rest, _ := bytes.Cut(lines.Bytes(), []byte(" "))
		_, rest, _ = bytes.Cut(rest, []byte("["))
		text, _, _ := bytes.Cut(rest, []byte("]"))
		if !bytes.Equal(text, last) {
			var err error
			if at, err = time.Parse(combinedTime, string(text)); err != nil {
				return err
			}
			last = append(last[:0], text...)
		}
		if at.IsZero() {
			return errors.New("a line without a time")
		}
		clients[string(client)]++
	}
	var all int
	for _, n := range clients {
		all += n
	}
	if all != replayLines() {
		return fmt.Errorf("%d lines", all)
	}
	return lines.Err()
}

// smallLog is the number of lines of the floor's log; the other log has ten times replayLines.
const smallLog = 1_000

var replayMemory = Figure{
	Name: "replay-memory", Unit: "MiB, maximum resident memory for 10,000,000 lines", Rounds: 1,
	Goal:  "at most 64 MiB over the floor",
	Met:   func(ours, _, floor float64) bool { return ours <= floor+64 },
	Floor: "1,000 lines",
	Setup: func(ctx context.Context) (Measurements, error) {
		dir, err := programs(ctx)
		if err != nil {
			return Measurements{}, err
		}
		peak := func(lines int) func(context.Context) (float64, error) {
			return func(ctx context.Context) (float64, error) { return peakOf(ctx, filepath.Join(dir, "penstock"), lines) }
		}
		return Measurements{Ours: peak(10 * replayLines()), Floor: peak(smallLog)}, nil
	},
}

// peakOf returns the peak memory in MiB of a program that replays a log with this many lines.
func peakOf(ctx context.Context, path string, lines int) (float64, error) {
	cmd := exec.CommandContext(ctx, path, "replay", "--log", "-", "--rule", "meter rate=5/s burst=10")
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	out := bufio.NewWriterSize(in, 1<<20)
	writeCombined(out, lines, 20_000)
	// The peak is read while the program runs, at least once before its input ends. A child's Rusage is never below this
	// process's size when the child started.
	var most float64
	read := func() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if m := peakLine.FindSubmatch(text); m != nil {
			most, _ = strconv.ParseFloat(string(m[1]), 64)
		}
	}
	err = out.Flush()
	read()
	if err := errors.Join(err, in.Close()); err != nil {
		return 0, errors.Join(err, cmd.Wait())
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		read()
		select {
		case err := <-ended:
			if most == 0 {
				err = errors.Join(err, errors.New("no VmHWM was read in /proc while it ran"))
			}
			return most / 1024, err
		case <-time.After(time.Millisecond):
		}
	}
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// onOneCore returns how many lines a second of processor time f handles; f must not run in parallel.
func onOneCore(f func() error) (float64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	runtime.GC()
	began := cpu()
	if err := f(); err != nil {
		return 0, err
	}
	return float64(replayLines()) / (cpu() - began).Seconds(), nil
}

const combinedTime = "02/Jan/2006:15:04:05 -0700"

// combinedLog returns a log written by writeCombined.
func combinedLog(lines, clients int) []byte {
	var b bytes.Buffer
	writeCombined(&b, lines, clients)
	return b.Bytes()
}

// writeCombined writes a log of clients at 40 requests a second; few of them send many.
func writeCombined(w io.Writer, lines, clients int) {
	r := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(r, 1.1, 1, uint64(clients-1))
	at := time.Date(2026, 10, 5, 9, 0, 0, 0, time.UTC)
	for i := range lines {
		at = at.Add(time.Duration(r.ExpFloat64() * float64(25*time.Millisecond)))
		client := zipf.Uint64()
		_, _ = fmt.Fprintf(w, "10.%d.%d.%d - - [%s] \"GET /api/items/%d?page=%d HTTP/1.1\" 200 %d "+
			"\"https://example.com/start\" \"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\"\n",
			client>>16, client>>8&255, client&255, at.Format(combinedTime), i%977, i%7, r.IntN(9000))
	}
}
