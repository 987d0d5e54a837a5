package api_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/redisq"
)

// Fifty who follow cost the store no more than one: below 20 commands a second more than nobody does.
func TestEventsLoadOnRedis(t *testing.T) {
	const partitions, followers, most = 16, 50, 20
	c := redistest.New(t, redistest.Options{}).Client()
	e, err := redisq.OpenClient(t.Context(), c, redisq.Options{
		Init: true, Partitions: partitions, Patience: redistest.Patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	for n := range 100 {
		if _, err := e.Put(t.Context(), queue.Spec{Name: fmt.Sprintf("queue-%03d", n), Capacity: 100}, 0); err != nil {
			t.Fatal(err)
		}
	}
	f := &fixture{t: t}
	s := survey.New(e, survey.Options{})
	f.serveOver(e, api.Options{Survey: s})
	if err := s.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	var streams []*eventStream
	for n := range followers {
		st := follow(f, fmt.Sprintf("/v1/queues/queue-%03d/events", n))
		st.next("reset")
		streams = append(streams, st)
	}
	reading := func() int {
		t.Helper()
		before := commandsOf(t, c)
		if err := s.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		return commandsOf(t, c) - before
	}
	reading() // and now nothing is new
	commands := 0
	await.Until(t, "a reading between two steps", func() bool { commands = reading(); return commands == partitions })
	// Read once a second in place of once a step.
	if more := float64(commands) * (1 - 1/survey.Step.Seconds()); more >= most {
		t.Errorf("%.1f commands a second more", more)
	}
	// Nor do the streams ask for anything themselves.
	before := commandsOf(t, c)
	if err := e.Pause(t.Context(), "queue-007", queue.Pause{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	streams[7].next("paused")
	if commands := commandsOf(t, c) - before; commands > 2*partitions+2 {
		t.Errorf("%d commands for one pause", commands)
	}
}

// commandsOf is how many scripts the server ran.
func commandsOf(t *testing.T, c redis.UniversalClient) int {
	t.Helper()
	text, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, found := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		calls, _ := strconv.Atoi(found[1])
		n += calls
	}
	return n
}
