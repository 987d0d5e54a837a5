package deferred

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/internal/app/natsserver"
	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// The leader of three nodes dies under load and stays dead, and then a second node does: jobs keep coming back, even
// without a leader. Once the nodes are back, jobs are put again. Every job leaves once and in order.
func TestLeaderStaysDead(t *testing.T) {
	t.Parallel() // it mostly waits
	c, r := newClusterRig(t)
	const capacity, backlog, producers, each = 20, 3000, 3, 50
	spec := specFor("a", capacity)
	spec.Rate = leaky.PerSecond(100) // so that the backlog outlasts the trouble
	putSpec(t, r, spec)
	a := newAppender(t, r, r.stream)
	defers(t, a, "a", numbered(backlog))
	runReadmitter(t, r.readmitter())

	client, number := queue.Client{ID: queue.NewID()}, uint64(0)
	var left []string
	last, longest := time.Now(), time.Duration(0)
	// until takes jobs out until done.
	until := func(what string, done func() bool) {
		t.Helper()
		await.Until(t, what, func() bool {
			number++
			before := len(left)
			for p := range r.Partitions() {
				left = append(left, depart(t, r, queue.ReserveRequest{
					Partition: p, Client: client, Number: number, Max: queue.MaxReserve,
				})...)
			}
			if len(left) > before {
				longest, last = max(longest, time.Since(last)), time.Now()
			}
			return done()
		})
		t.Logf("%s: %d left, none for at most %v", what, len(left), longest.Round(time.Millisecond))
	}
	// goesOn waits until many more have left than the queue can hold.
	goesOn := func(what string) {
		t.Helper()
		last, longest = time.Now(), 0
		n := len(left) + 5*capacity
		until(what, func() bool { return len(left) >= n })
	}
	goesOn("with three nodes")

	var leader *natsserver.Server
	await.Until(t, "a leader", func() bool { leader = c.Leader(r.stream.name); return leader != nil })
	var producing sync.WaitGroup
	for producer := range producers {
		producing.Go(func() { produce(t, a, "a", producer, each) })
	}
	leader.Stop()
	goesOn("without the first leader")
	until("jobs are put without it", func() bool { return one(t, a, job("a", "x")).Outcome != queue.Failed })
	var second *natsserver.Server
	until("another leader", func() bool { second = c.Leader(r.stream.name); return second != nil })
	second.Stop()
	goesOn("without any leader")
	for _, node := range []*natsserver.Server{leader, second} {
		if err := node.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	goesOn("with three nodes again")

	spec.Rate = leaky.Unlimited
	putSpec(t, r, spec)
	until("all have left", func() bool { return len(left) >= backlog+producers*each+1 })
	producing.Wait()
	r.idle(t, "a")
	theirs := slices.DeleteFunc(slices.Clone(left), func(id string) bool { return strings.HasPrefix(id, "j") })
	inOrder(t, slices.DeleteFunc(slices.Clone(theirs), func(id string) bool { return id == "x" }), producers, each)
	if got := slices.DeleteFunc(left, func(id string) bool { return !strings.HasPrefix(id, "j") }); !slices.Equal(
		got, numbered(backlog)) {
		t.Errorf("of the backlog %d left, of %d, or not in order", len(got), backlog)
	}
	if len(theirs) != producers*each+1 {
		t.Errorf("%d of the others left, want %d", len(theirs), producers*each+1)
	}
	if n := len(deadLetters(t, r.stream)); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// Calls to a leader that is gone end at once, and succeed again when there is a leader.
func TestCallsWithoutALeader(t *testing.T) {
	t.Parallel()
	s := newStream(t)
	noError(t, s.Put(t.Context(), itemsFor("a", []string{"1"})))
	s.mu.Lock()
	s.leader.gone = time.Now()
	s.leader.lose(errNoLeader)
	s.mu.Unlock()
	_, err := s.count(t.Context(), s.subjects.of("a"))
	if !errors.Is(err, errNoLeader) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("count: %v", err)
	}
	if f, err := s.fetch(t.Context(), s.subjects.of("a"), 1, 1); err != nil || len(f.messages) != 1 {
		t.Errorf("fetch: %d messages, %v", len(f.messages), err)
	}
	s.suspect()
	await.Until(t, "the leader is found", func() bool { return s.leaderless().IsZero() })
	if n := onStream(t, s, s.subjects.of("a")); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// silentAck never comes.
type silentAck struct{}

func (silentAck) Ok() <-chan *jetstream.PubAck { return nil }
func (silentAck) Err() <-chan error            { return nil }
func (silentAck) Msg() *nats.Msg               { return nil }

// A message to a former leader may have been stored, and no caller waits for its acknowledgment.
func TestPutToAFormerLeader(t *testing.T) {
	t.Parallel()
	s := newStream(t)
	s.setLeader("n1")
	s.mu.Lock()
	m := &message{queue: "a", ack: silentAck{}, away: s.contact.Done()}
	s.mu.Unlock()
	s.setLeader("n1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s.await(ctx, m); errors.Is(m.err, errGone) {
		t.Errorf("the same leader: %v", m.err)
	}
	m.err = nil
	s.setLeader("n2")
	if s.await(t.Context(), m); !errors.Is(m.err, errGone) || !errors.Is(m.err, queue.ErrOutcomeUnknown) {
		t.Errorf("another leader: %v", m.err)
	}
}

// During an election a node may answer that there is no leader. The stream still counts as one of a cluster, whose
// calls look for another leader.
func TestAnswerOfANodeWithoutALeader(t *testing.T) {
	t.Parallel()
	s := newStream(t)
	s.setLeader("n1")
	s.answered(&jetstream.StreamInfo{Cluster: &jetstream.ClusterInfo{Name: "c"}})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader.name != "n1" {
		t.Errorf("the leader is %q", s.leader.name)
	}
}
