package deferred

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A nats-server that once failed to write, for example because its disk was full, keeps serving the stream but stores
// and removes nothing until it is restarted. Publications then get no answer; only a removal gets an error. So a
// stream that owes an acknowledgment is asked to remove nothing. While it says that it cannot, jobs are refused
// definitely and at once.

const (
	// askPause is the time between two requests to a stream that cannot write.
	askPause = time.Second
	// askTimeout bounds that request, which needs no disk access.
	askTimeout = time.Second
	// codePurgeFailed is JetStream's error for a failed removal.
	codePurgeFailed = 10051
)

// writeFailure says why the stream cannot write.
type writeFailure struct {
	err     error
	contact uint64 // number of reconnects to NATS at that time
	asked   time.Time
}

// writeError returns nil, or why the stream cannot write, as far as is known. It does not ask NATS.
func (s *Stream) writeError() error {
	// after a reconnect the server may have been restarted
	if d := s.writeFailure.Load(); d != nil && d.contact == s.nc.Stats().Reconnects {
		return d.err
	}
	return nil
}

// checkWritable is writeError, but asks again from time to time.
func (s *Stream) checkWritable() error {
	d, err := s.writeFailure.Load(), s.writeError()
	if err == nil || time.Since(d.asked) < askPause {
		return err
	}
	s.ask()
	return s.writeError()
}

// ask asks the stream to remove nothing, and records whether it can.
func (s *Stream) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	// The subject belongs to the other stream, so this one has no such message. With sequence 1, nats-server would not
	// even look.
	s.noteWrite(s.jobs.Purge(ctx, jetstream.WithPurgeSubject(s.subjects.dead+"_"), jetstream.WithPurgeSequence(2)))
}

// noteWrite records the result of a removal.
func (s *Stream) noteWrite(err error) {
	before := s.writeFailure.Load()
	var answer *jetstream.APIError
	switch {
	case err == nil:
		if before != nil && s.writeFailure.CompareAndSwap(before, nil) {
			s.log.Info("the overflow can write again", "stream", s.name)
		}
	case errors.As(err, &answer) && answer.ErrorCode == codePurgeFailed:
		why := fmt.Errorf("%w: nats-server cannot write to stream %s; fix its disk and restart it: %s",
			ErrUnavailable, s.name, answer.Description)
		s.writeFailure.Store(&writeFailure{err: why, contact: s.nc.Stats().Reconnects, asked: time.Now()})
		if before == nil {
			s.log.Error("the overflow cannot write: make room on the disk of nats-server and restart it",
				"stream", s.name, "error", answer.Description)
		}
	case before != nil: // unknown
		s.writeFailure.CompareAndSwap(before,
			&writeFailure{err: before.err, contact: before.contact, asked: time.Now()})
	}
}
