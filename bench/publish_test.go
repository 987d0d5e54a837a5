package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The published page is the one that bench -publish generates from the published run.
func TestPublished(t *testing.T) {
	r, err := readRecord(filepath.Join("..", publishedRun))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.committed(); err != nil {
		t.Error(err)
	}
	page, err := os.ReadFile(filepath.Join("..", publishedPage))
	if err != nil {
		t.Fatal(err)
	}
	want, err := r.fill(string(page), figureNames())
	if err != nil {
		t.Fatalf("%s: %v", publishedRun, err)
	}
	if string(page) != want {
		t.Errorf("%s is not written from %s: run bench -publish %s", publishedPage, publishedRun, publishedRun)
	}
	if !strings.Contains(want, "| `append-redis` |") {
		t.Error("the page has no table of append-redis: nothing was compared")
	}
}

var someNames = []string{"fast", "slow", "small"}

func aRecord() *Record {
	return &Record{
		Date: "2026-11-28", Commit: "0123456789ab", Machine: "2 cores", Rounds: 5, Scale: 1, Figures: []Result{
			{
				Name: "fast", Unit: "jobs/s, 64 callers | one a call", Ours: 95_512, Peer: "asynq, 64 workers", PeerValue: 45_300,
				PeerRatio: 2.108, Floor: "a script", FloorValue: 90_000, Goal: "2 x asynq", Met: true,
			},
			{Name: "small", Unit: "B a job", Ours: 556.4, Floor: "bare", FloorValue: 1.239, FloorRatio: 449, Goal: "under 500"},
		},
	}
}

func TestFill(t *testing.T) {
	const page = "# Title\n<!-- run -->\nold\n<!-- end -->\n<!-- figures: fast|small -->\nold\n<!-- end -->\nText.\n"
	const want = "# Title\n<!-- run -->\nRun of 2026-11-28 at commit 0123456789ab on 2 cores.\n" +
		"Each value is the median of up to 5 rounds. Of 2 goals, 1 are met.\n<!-- end -->\n<!-- figures: fast|small -->\n" +
		"| name | what is measured | Penstock | compared with | goal |\n|---|---|---|---|---|\n" +
		"| `fast` | 64 callers \\| one a call | 95,500 jobs/s | asynq 45,300 (2.11x) | 2 x asynq: met |\n" +
		"| `small` | a job | 556 B | bare 1.24 (449.00x) | under 500: **missed** |\n<!-- end -->\nText.\n"
	got, err := aRecord().fill(page, someNames)
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if again, err := aRecord().fill(got, someNames); err != nil || again != got {
		t.Errorf("filled again: %v\n%s", err, again)
	}
	small := aRecord()
	small.Scale = 0.01
	if got, err := small.fill(page, someNames); err != nil || !strings.Contains(got, "provisional") {
		t.Errorf("a small run: %v\n%s", err, got)
	}
}

// A row without a measurement, or an incomplete page, is an error.
func TestFillRefuses(t *testing.T) {
	for page, want := range map[string]string{
		"<!-- figures: fast|slow -->\n<!-- end -->\n": "no figure slow",
		"<!-- figures: none -->\n<!-- end -->\n":      "matches no figure",
		"<!-- figures: ( -->\n<!-- end -->\n":         "missing closing",
		"<!-- run -->\n":                              "has no <!-- end -->",
		"<!-- end -->\n":                              "without a beginning",
	} {
		if _, err := aRecord().fill(page, someNames); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", page, err, want)
		}
	}
}

// A run can be continued only with the same commit, machine, rounds and scale.
func TestContinueFrom(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Record)
		want   string
	}{
		"the same":       {func(*Record) {}, ""},
		"another commit": {func(r *Record) { r.Commit = "ba9876543210" }, "another commit"},
		"another machine": {
			func(r *Record) { r.Machine = "64 cores" }, "another machine, 2 cores, this is 64 cores",
		},
		"other rounds":  {func(r *Record) { r.Rounds = 1 }, "another rounds"},
		"another scale": {func(r *Record) { r.Scale = 0.5 }, "another scale"},
	} {
		file := filepath.Join(t.TempDir(), "run.json")
		if err := aRecord().write(file); err != nil {
			t.Fatal(err)
		}
		next := aRecord()
		next.Date, next.Figures = "2026-11-29", nil
		c.change(next)
		err := next.continueFrom(file)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
			continue
		}
		if err != nil || next.Date != "2026-11-28" || next.find("fast") == nil || next.find("slow") != nil {
			t.Errorf("%s: %v, %+v", name, err, next)
		}
	}
}

// Uncommitted code cannot be looked up.
func TestUncommitted(t *testing.T) {
	for _, commit := range []string{unknownCommit, "0123456789ab" + changed} {
		r := aRecord()
		r.Commit = commit
		file := filepath.Join(t.TempDir(), "run.json")
		if err := r.write(file); err != nil {
			t.Fatal(err)
		}
		if err := publishRun(file); err == nil || !strings.Contains(err.Error(), "commit it") {
			t.Errorf("-publish: %v", err)
		}
		if err := r.continueFrom(file); err == nil || !strings.Contains(err.Error(), "commit it") {
			t.Errorf("-add: %v", err)
		}
	}
}

func TestAmount(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.7912: "0.791", 1: "1", 5.996: "6", 99.96: "100", 556.4: "556", 95_512: "95,500", 6_080_123: "6,080,000",
		-1234: "-1,230",
	} {
		if got := amount(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
