package deferred

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A nats-server that once failed to write, because its disk was full, say, serves the
// stream on but stores nothing more in it, and removes nothing, until it is started
// again. What is published to it then gets no answer; only a removal is told why it
// fails. So a stream that owes an acknowledgement is asked to remove nothing, and while
// it says that it cannot, jobs are refused for certain and at once.

const (
	// askPause is how often a stream that cannot write is asked again.
	askPause = time.Second
	// askTimeout is how long it may take to say so: it is known without looking.
	askTimeout = time.Second
	// codePurgeFailed is JetStream's when it could not remove.
	codePurgeFailed = 10051
)

// writeFailure is why the stream cannot write.
type writeFailure struct {
	err     error
	contact uint64 // how often NATS had been connected to then
	asked   time.Time
}

// writeError returns nil, or why the stream cannot write, as far as is known. It asks
// nobody.
func (s *Stream) writeError() error {
	// else it may have been started again
	if d := s.writeFailure.Load(); d != nil && d.contact == s.nc.Stats().Reconnects {
		return d.err
	}
	return nil
}

// checkWritable is the same, but asks again from time to time.
func (s *Stream) checkWritable() error {
	d, err := s.writeFailure.Load(), s.writeError()
	if err == nil || time.Since(d.asked) < askPause {
		return err
	}
	s.ask()
	return s.writeError()
}

// ask has the stream remove nothing, and notes whether it can.
func (s *Stream) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	// Of a subject of the other stream this one has nothing. Asked for nothing below 1,
	// nats-server would not even look.
	s.noteWrite(s.jobs.Purge(ctx, jetstream.WithPurgeSubject(s.subjects.dead+"_"), jetstream.WithPurgeSequence(2)))
}

// noteWrite notes whether the stream could remove something.
func (s *Stream) noteWrite(err error) {
	before := s.writeFailure.Load()
	var answer *jetstream.APIError
	switch {
	case err == nil:
		if before != nil && s.writeFailure.CompareAndSwap(before, nil) {
			s.log.Info("the overflow can write again", "stream", s.name)
		}
	case errors.As(err, &answer) && answer.ErrorCode == codePurgeFailed:
		why := fmt.Errorf("%w: nats-server cannot write to stream %s, and has to be started again when that is seen "+
			"to: %s", ErrUnavailable, s.name, answer.Description)
		s.writeFailure.Store(&writeFailure{err: why, contact: s.nc.Stats().Reconnects, asked: time.Now()})
		if before == nil {
			s.log.Error("the overflow cannot write: make room on the disk of nats-server and start it again",
				"stream", s.name, "error", answer.Description)
		}
	case before != nil: // not known
		s.writeFailure.CompareAndSwap(before,
			&writeFailure{err: before.err, contact: before.contact, asked: time.Now()})
	}
}
