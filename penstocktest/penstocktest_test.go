package penstocktest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/client"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/penstocktest"
	"github.com/penstock/penstock/pull"
	"github.com/penstock/penstock/queue"
)

// asProgram makes the test binary behave like penstock.
const asProgram = "PENSTOCKTEST_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "good":
		fmt.Printf(`{"url":"http://127.0.0.1:1/","token":"%s","pid":%d}`+"\n", strings.Join(os.Args[1:], " "), os.Getpid())
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case "bad":
		fmt.Fprintln(os.Stderr, "it is broken")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// failing records that a test failed.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper() {}

func (f *failing) Fatal(args ...any) {
	f.text = fmt.Sprint(args...)
	panic(f)
}

func TestStart(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PENSTOCK_BIN", self)
	t.Setenv(asProgram, "good")
	s := penstocktest.Start(t, penstocktest.VirtualClock(), penstocktest.Args("--log-level", "error"))
	if s.Token != "up --ephemeral --clock virtual --log-level error" || s.PID == 0 || s.Client == nil {
		t.Errorf("%+v", s)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	t.Setenv(asProgram, "bad")
	f := &failing{TB: t}
	func() {
		defer func() { _ = recover() }()
		penstocktest.Start(f)
	}()
	if !strings.Contains(f.text, "it is broken") {
		t.Errorf("%q", f.text)
	}
}

func TestEngine(t *testing.T) {
	e := penstocktest.NewEngine(t)
	spec := queue.Spec{Name: "email", Rate: leaky.PerSecond(1), Pull: true}
	if _, err := e.Put(t.Context(), spec, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	before := e.Now()
	if now, err := e.Advance(t.Context(), time.Hour); err != nil || now.Sub(before) < time.Hour {
		t.Errorf("%v, %v", now, err)
	}
	var _ pull.Engine = e
}

// Advance may take longer than other calls.
func TestSlowAdvance(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(50 * time.Millisecond) // longer than the timeout
		_, _ = io.WriteString(w, `{"now":"2026-01-02T15:04:05Z"}`)
	}))
	defer slow.Close()
	c, err := client.New(slow.URL, client.WithToken(""), client.WithTimeout(5*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	s := &penstocktest.Server{Client: c}
	if now, err := s.Advance(t.Context(), time.Hour); err != nil || now.IsZero() {
		t.Errorf("%v, %v", now, err)
	}
}

// An hour of work passes at once.
func TestServer(t *testing.T) {
	if os.Getenv("PENSTOCK_BIN") == "" {
		t.Skip("PENSTOCK_BIN names no program")
	}
	s := penstocktest.Start(t, penstocktest.VirtualClock())
	ctx := t.Context()
	if _, err := s.Client.PutQueue(ctx, "q", client.Spec{Rate: "1/m", Pull: true}); err != nil {
		t.Fatal(err)
	}
	var done atomic.Int64
	w := &client.Worker{Client: s.Client, Queue: "q", Handler: func(context.Context, *client.Task) error {
		done.Add(1)
		return nil
	}}
	working, stop := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() { over <- w.Run(working) }()
	jobs := make([]client.Job, 30)
	for i := range jobs {
		jobs[i].Payload = i
	}
	if _, err := s.Client.AppendMany(ctx, "q", jobs); err != nil {
		t.Fatal(err)
	}
	for done.Load() == 0 { // until then nobody waits for the clock
		time.Sleep(time.Millisecond)
	}
	begun := time.Now()
	if _, err := s.Advance(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	if done.Load() != 30 {
		t.Errorf("%d jobs are done after %v", done.Load(), time.Since(begun))
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}
