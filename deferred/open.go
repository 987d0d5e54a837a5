package deferred

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// awayPause is how long it is until a NATS that does not answer is asked again.
	awayPause = time.Second
	// unfitPause is how long it is until one is that somebody has to change first.
	unfitPause = 30 * time.Second
)

// passing are the codes with which a cluster refuses what it may well do when more of its
// nodes are there.
var passing = []jetstream.ErrorCode{
	10004, // incomplete results
	10005, // no suitable peers for placement
	10007, // not assigned to this server
	10008, // temporarily unavailable
	10009, // not the leader
	10041, // of raft
}

// Open makes the two streams where they are not there, and checks them where they are;
// it changes none. Any number of processes may do that at once. It tries once: an error is
// an ErrUnfit, which only a change of NATS or of the Options mends, or ErrUnavailable.
// Who does not need to know calls Run alone.
func (s *Stream) Open(ctx context.Context) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.isOpen() {
		return nil
	}
	jobs, err := s.openBoth(ctx)
	if err != nil {
		s.unopened.Store(&failure{err})
		return fmt.Errorf("deferred: %w", err)
	}
	s.jobs = jobs
	s.answered(jobs.CachedInfo())
	close(s.opened)
	return nil
}

func (s *Stream) isOpen() bool {
	select {
	case <-s.opened:
		return true
	default:
		return false
	}
}

func (s *Stream) openBoth(ctx context.Context) (jetstream.Stream, error) {
	if err := s.askLink(); err != nil {
		return nil, err
	}
	if err := s.checkServer(ctx); err != nil {
		return nil, err
	}
	jobs, err := s.openOne(ctx, s.wants)
	if err != nil {
		return nil, err
	}
	if _, err := s.openOne(ctx, s.wantsDead); err != nil {
		return nil, err
	}
	return jobs, nil
}

// keepOpening returns when the overflow is open, or ctx has ended. It tries again after a
// while, and as soon as there is a connection.
func (s *Stream) keepOpening(ctx context.Context) {
	told := told{log: s.log}
	for {
		err := s.Open(ctx)
		if ctx.Err() != nil {
			return
		}
		told.tell(err)
		if err == nil {
			return
		}
		pause := s.awayPause
		if errors.Is(err, ErrUnfit) {
			pause = s.unfitPause
		}
		select {
		case <-ctx.Done():
			return
		case <-s.connected:
		case <-time.After(jittered(pause)):
		}
	}
}

// told is what the log has of the opening, each once.
type told struct {
	log   *slog.Logger
	away  bool
	unfit string
}

func (t *told) tell(err error) {
	switch {
	case err == nil && (t.away || t.unfit != ""):
		t.log.Info("the overflow is open")
	case err == nil:
	case errors.Is(err, ErrUnfit):
		if text := err.Error(); text != t.unfit {
			t.unfit = text
			t.log.Error("the overflow cannot be opened until somebody mends this, and nothing is deferred; trying "+
				"again now and then", "error", text)
		}
	case !t.away:
		t.away = true
		t.log.Warn("the overflow cannot be opened yet, and nothing is deferred; trying again", "error", fmt.Sprint(err))
	}
}

// checkServer refuses a NATS without JetStream, or without reading many messages at
// once.
func (s *Stream) checkServer(ctx context.Context) error {
	account, err := s.js.AccountInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders):
		return unfit{fmt.Errorf("the NATS server at %s has no JetStream: start it with --jetstream, or name another",
			s.nc.ConnectedUrlRedacted())}
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return unfit{fmt.Errorf("the account on NATS at %s has no JetStream: enable it for the account, or use another",
			s.nc.ConnectedUrlRedacted())}
	case err != nil:
		return s.judge(fmt.Errorf("asking NATS about JetStream: %w", err))
	case account.API.Level < 1:
		return unfit{fmt.Errorf("nats-server %s is too old: 2.11 or newer is needed", s.nc.ConnectedServerVersion())}
	}
	return nil
}

// openOne looks a stream up, or makes it.
func (s *Stream) openOne(ctx context.Context, wants jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := s.js.Stream(ctx, wants.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = s.js.CreateStream(ctx, wants)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // made meanwhile, with other settings
			stream, err = s.js.Stream(ctx, wants.Name)
		}
	}
	if err != nil {
		return nil, s.judge(fmt.Errorf("stream %s with num_replicas %d and max_bytes %d: %w", wants.Name,
			wants.Replicas, wants.MaxBytes, err))
	}
	has := stream.CachedInfo().Config
	if err := s.fit(has, wants); err != nil {
		return nil, err
	}
	if has.MaxBytes > 0 && has.MaxBytes < wants.MaxBytes {
		s.log.Warn("a stream of the overflow holds less than asked for; it was made so, and is left as it is",
			"stream", wants.Name, "max_bytes", has.MaxBytes, "asked", wants.MaxBytes)
	}
	return stream, nil
}

// fit refuses a stream that would lose or refuse jobs.
func (s *Stream) fit(has, wants jetstream.StreamConfig) error {
	if d := differences(has, wants, s.nc.MaxPayload()); len(d) > 0 {
		return unfit{fmt.Errorf("stream %s would lose or refuse jobs: %s; it was left as it is: change it with "+
			"nats stream edit, or choose another prefix",
			wants.Name, strings.Join(d, "; "))}
	}
	return nil
}

// judge tells what waiting mends from what it does not.
func (s *Stream) judge(err error) error {
	var answer *jetstream.APIError
	if errors.As(err, &answer) && !slices.Contains(passing, answer.ErrorCode) {
		return unfit{err}
	}
	// To what an account may not ask there is no answer, but a word on the connection.
	if last := s.nc.LastError(); errors.Is(err, context.DeadlineExceeded) &&
		errors.Is(last, nats.ErrPermissionViolation) {
		return unfit{fmt.Errorf("%w: %w", err, last)}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// unfit is an ErrUnfit.
type unfit struct{ error }

func (u unfit) Unwrap() error { return u.error }

func (unfit) Is(target error) bool { return target == ErrUnfit }
