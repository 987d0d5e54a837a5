package deferred

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/queue"
)

// packedJob is an encoded job. It shares no memory with the caller.
type packedJob struct {
	queue string
	body  []byte
}

func (p packedJob) size() int { return len(p.body) }

// Put stores items and returns an error per item, in the same order. It is nil once NATS has acknowledged the job.
// Otherwise it wraps ErrUnavailable, ErrFull, ErrTooLarge or queue.ErrOutcomeUnknown. Before the Stream is open, and
// after its Run, it returns ErrUnavailable at once. Items of one queue are stored in the order given, as far as they
// are stored. Jobs of concurrent callers share messages, so that one disk write serves many.
func (s *Stream) Put(ctx context.Context, items []Item) []error {
	errs := make([]error, len(items))
	if err := s.reachable(); err != nil {
		return fill(errs, err)
	}
	limit := s.nc.MaxPayload() - headroom
	packed, at := make([]packedJob, 0, len(items)), make([]int, 0, len(items))
	for i := range items {
		p := packedJob{items[i].Queue, encode(&items[i])}
		if int64(len(p.body)) > limit {
			errs[i] = fmt.Errorf("%w: %d bytes, NATS accepts at most %d (max_payload)", ErrTooLarge, len(p.body), limit)
			continue
		}
		packed, at = append(packed, p), append(at, i)
	}
	answers, err := s.puts.Do(ctx, packed)
	if answers == nil && err != nil {
		if !errors.Is(err, queue.ErrOutcomeUnknown) { // closed, or given up before any job was sent
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		for _, i := range at {
			errs[i] = err
		}
		return errs
	}
	for k, i := range at {
		errs[i] = answers[k]
	}
	return errs
}

func fill(errs []error, err error) []error {
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// message is a message to send, with jobs of one queue.
type message struct {
	queue string
	body  []byte
	at    []int // indexes of its packed jobs
	sent  time.Time
	away  <-chan struct{} // closed when no acknowledgment can come anymore
	ack   jetstream.PubAckFuture
	err   error
}

// send sends all messages of a batch and then waits for each acknowledgment.
func (s *Stream) send(ctx context.Context, packed []packedJob) ([]error, error) {
	if err := s.checkWritable(); err != nil {
		return fill(make([]error, len(packed)), err), nil
	}
	messages := load(packed, min(maxBytes, int(s.nc.MaxPayload())-headroom))
	for _, m := range messages {
		s.publish(m)
	}
	suspicion := time.AfterFunc(suspectAfter, s.suspect)
	defer suspicion.Stop()
	answers := make([]error, len(packed))
	silent := false
	for _, m := range messages {
		s.await(ctx, m)
		silent = silent || errors.Is(m.err, jetstream.ErrAsyncPublishTimeout) ||
			errors.Is(m.err, context.DeadlineExceeded)
		for _, i := range m.at {
			answers[i] = m.err
		}
		s.observer.Stored(m.queue, len(m.at), time.Since(m.sent), m.err)
		if m.err == nil {
			s.notify(m.queue)
		}
	}
	if silent {
		s.ask()
	}
	return answers, nil
}

// load loads packed jobs into messages. Jobs of one queue stay in order.
func load(packed []packedJob, limit int) []*message {
	var messages []*message
	open := map[string]*message{}
	for i, p := range packed {
		m := open[p.queue]
		if m == nil || len(m.at) == maxJobs || len(m.body)+len(p.body) > limit {
			m = &message{queue: p.queue}
			open[p.queue] = m
			messages = append(messages, m)
		}
		m.body = append(m.body, p.body...)
		m.at = append(m.at, i)
	}
	return messages
}

// publish sends a message once. Its id identifies this publication, not a job: within the stream's window for
// duplicates, a second message with the same id would be acknowledged and dropped. It is not sent again if no server
// listens: messages sent after it would overtake it.
func (s *Stream) publish(m *message) {
	m.sent = time.Now()
	s.mu.Lock()
	m.away = s.contact.Done()
	s.mu.Unlock()
	msg := &nats.Msg{Subject: s.subjects.of(m.queue), Data: m.body, Header: nats.Header{
		formatHeader: {format}, jetstream.MsgIDHeader: {rand.Text()}, jetstream.ExpectedStreamHeader: {s.name},
	}}
	m.ack, m.err = s.js.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0))
}

// errGone means an unknown outcome: the message may be stored, but no acknowledgment can come anymore.
var errGone = errors.New("its connection broke, or another node leads the stream now")

func (s *Stream) await(ctx context.Context, m *message) {
	if m.err == nil {
		select {
		case <-m.ack.Ok():
		case m.err = <-m.ack.Err():
		case <-m.away:
			select {
			case <-m.ack.Ok(): // arrived earlier, during the wait for another message
			default:
				m.err = errGone
			}
		case <-ctx.Done():
			m.err = ctx.Err()
		}
	}
	if s.note(m.err) != nil {
		m.err = refusal(m.err)
	}
}
