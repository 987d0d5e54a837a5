package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fullQueue is a line of a queue that refused in the second before. It was full then, and no more than 26 have left
// since.
var fullQueue = regexp.MustCompile(`queue [2-5][0-9]/50 .* refused +[0-9]+ \( *(?:[1-9]|0\.[1-9])`)

// TestDemo runs the demo as it is. Whether the window law held on a machine that
// tests share is read from the report; that it says so in its exit code, that
// it accounts for every message and that it ends in time are demanded.
func TestDemo(t *testing.T) {
	t.Parallel()
	start := time.Now()
	code, out, errs := run(t, "demo", "-o", "json")
	if took := time.Since(start); took > 45*time.Second {
		t.Errorf("took %v; it promises to end within 30 s, and this test adds what starting under load takes", took)
	}
	var d struct {
		Messages, Accepted, Refused, Delivered, Lost int
		Twice                                        int `json:"delivered_twice"`
		Held                                         bool
		Broken                                       []string
	}
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("exit %d, %v\n%s\n%s", code, err, out, errs)
	}
	if (code == 0) != d.Held || d.Held != (len(d.Broken) == 0) {
		t.Errorf("exit %d, held %v, broken %v", code, d.Held, d.Broken)
	}
	if d.Messages != 400 || d.Accepted != 400 || d.Delivered != 400 || d.Lost+d.Twice != 0 || d.Refused == 0 {
		t.Errorf("%+v", d)
	}
	for _, b := range d.Broken {
		if !strings.Contains(b, "window law") {
			t.Error(b)
		}
	}
	// Whether a line shows a full queue is chance: it may come between a departure and the next job.
	if !fullQueue.MatchString(errs) {
		t.Errorf("nobody sees that the queue is full and refuses:\n%s", errs)
	}
}
