package redistest_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/test/redistest"
)

func TestServerAnswersAtItsURL(t *testing.T) {
	s := redistest.New(t, redistest.Options{
		RequirePass: `p@ss "word"/1`, MaxMemory: "64mb", MaxMemoryPolicy: "allkeys-lru",
	})

	o, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	byURL := redis.NewClient(o)
	defer func() { _ = byURL.Close() }()

	got, err := byURL.ConfigGet(t.Context(), "maxmemory*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if got["maxmemory"] != "67108864" || got["maxmemory-policy"] != "allkeys-lru" {
		t.Errorf("CONFIG GET maxmemory* = %v", got)
	}
	if err := s.Client().Ping(t.Context()).Err(); err != nil {
		t.Errorf("its own client: %v", err)
	}
}

func TestServerStartsFast(t *testing.T) {
	// The bound is for a machine that has little else to do; the fastest of a few starts is not at the mercy of the rest.
	best := time.Hour
	for range 5 {
		begin := time.Now()
		redistest.New(t, redistest.Options{})
		best = min(best, time.Since(begin))
	}
	if best > 200*time.Millisecond {
		t.Errorf("the fastest of 5 starts took %v, want under 200ms", best)
	}
}

func TestRestartKeepsWhatTheAOFKept(t *testing.T) {
	end := map[string]func(*redistest.Server) error{
		"stop":    (*redistest.Server).Stop,
		"kill":    (*redistest.Server).Kill,
		"neither": func(*redistest.Server) error { return nil },
	}
	for _, tc := range []struct {
		fsync string
		end   string
		keeps int64
	}{
		{"", "stop", 0},
		{"", "kill", 0},
		{"always", "stop", 1},
		{"always", "kill", 1},
		{"everysec", "neither", 1},
	} {
		t.Run("fsync "+tc.fsync+" "+tc.end, func(t *testing.T) {
			s := redistest.New(t, redistest.Options{AppendFsync: tc.fsync})
			addr, pid := s.Addr(), s.PID()
			client := s.Client()
			if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			if err := end[tc.end](s); err != nil {
				t.Fatal(err)
			}
			if tc.end != "neither" && s.Running() {
				t.Error("it still runs")
			}
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s.Addr() != addr {
				t.Errorf("moved from %s to %s", addr, s.Addr())
			}
			if s.PID() == pid {
				t.Errorf("still process %d", pid)
			}
			if n, err := s.Client().Exists(t.Context(), "k").Result(); n != tc.keeps || err != nil {
				t.Errorf("EXISTS = %d, %v, want %d", n, err, tc.keeps)
			}
		})
	}
}

func TestPause(t *testing.T) {
	s := redistest.New(t, redistest.Options{})
	client := s.Client()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := client.Ping(short).Err(); !errors.Is(err, context.DeadlineExceeded) && !os.IsTimeout(err) {
		t.Errorf("PING while paused: %v, want a timeout", err)
	}
	if err := s.Continue(); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("PING afterwards: %v", err)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("Stop while paused: %v", err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	s, err := redistest.Start(t.Context(), redistest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pid := s.PID()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d: %v, want it gone", pid, err)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory: %v, want it gone", err)
	}
	if err := s.Restart(t.Context()); err == nil {
		t.Error("Restart of a closed server succeeded")
	}
}

func TestManyAtOnce(t *testing.T) {
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			s, err := redistest.Start(t.Context(), redistest.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = s.Close() })
			if n, err := s.Client().Incr(t.Context(), "users").Result(); n != 1 || err != nil {
				t.Errorf("INCR = %d, %v: the server at %s is not this test's alone", n, err, s.Addr())
			}
		})
	}
	wg.Wait()
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Run("no redis-server", func(t *testing.T) {
		t.Setenv(redistest.BinaryEnv, "")
		t.Setenv("PATH", t.TempDir())
		_, err := redistest.Start(t.Context(), redistest.Options{})
		if !errors.Is(err, redistest.ErrNoRedis) || !strings.Contains(err.Error(), "install") {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("old redis-server", func(t *testing.T) {
		old := t.TempDir() + "/redis-server"
		script := "#!/bin/sh\necho 'Redis server v=6.0.16 sha=00000000:0'\n"
		if err := os.WriteFile(old, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv(redistest.BinaryEnv, old)
		_, err := redistest.Start(t.Context(), redistest.Options{})
		if !errors.Is(err, redistest.ErrNoRedis) || !strings.Contains(err.Error(), "version 6") {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("an argument Redis does not know", func(t *testing.T) {
		_, err := redistest.Start(t.Context(), redistest.Options{Args: []string{"--no-such-option", "1"}})
		if err == nil || !strings.Contains(err.Error(), "no-such-option") {
			t.Errorf("error = %v, want what Redis said", err)
		}
	})
}
