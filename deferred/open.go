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
	// awayPause is the time between attempts to open the overflow while NATS does not answer.
	awayPause = time.Second
	// unfitPause is the same while NATS is unfit and must be changed first.
	unfitPause = 30 * time.Second
)

// passing are the error codes of a cluster for calls that may succeed once more of its nodes are up.
var passing = []jetstream.ErrorCode{
	10004, // incomplete results
	10005, // no suitable peers for placement
	10007, // not assigned to this server
	10008, // temporarily unavailable
	10009, // not the leader
	10041, // a Raft error
}

// Open creates the two streams or checks existing ones; it changes none. Any number of processes may call it at once.
// It tries once: an error is an ErrUnfit, which only a change of NATS or of the Options fixes, or an ErrUnavailable.
// Callers that do not need the result can just call Run.
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

// keepOpening returns when the overflow is open or ctx has ended. It retries after a while, and as soon as there is a
// connection.
func (s *Stream) keepOpening(ctx context.Context) {
	log := openLog{log: s.log}
	for {
		err := s.Open(ctx)
		if ctx.Err() != nil {
			return
		}
		log.report(err)
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

// openLog logs the results of opening the overflow, each once.
type openLog struct {
	log   *slog.Logger
	away  bool
	unfit string
}

func (t *openLog) report(err error) {
	switch {
	case err == nil && (t.away || t.unfit != ""):
		t.log.Info("the overflow is open")
	case err == nil:
	case errors.Is(err, ErrUnfit):
		if text := err.Error(); text != t.unfit {
			t.unfit = text
			t.log.Error("the overflow cannot be opened, and nothing is deferred: fix NATS or the settings; retrying "+
				"now and then", "error", text)
		}
	case !t.away:
		t.away = true
		t.log.Warn("the overflow cannot be opened yet, and nothing is deferred; retrying", "error", fmt.Sprint(err))
	}
}

// checkServer rejects a NATS without JetStream, or without batch reads.
func (s *Stream) checkServer(ctx context.Context) error {
	account, err := s.js.AccountInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders):
		return unfit{fmt.Errorf("the NATS server at %s has no JetStream: start it with --jetstream, or use another server",
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

// openOne looks up a stream or creates it.
func (s *Stream) openOne(ctx context.Context, wants jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := s.js.Stream(ctx, wants.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = s.js.CreateStream(ctx, wants)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // created meanwhile, with other settings
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
		s.log.Warn("a stream of the overflow was created with a smaller limit than configured, and is left as it is",
			"stream", wants.Name, "max_bytes", has.MaxBytes, "asked", wants.MaxBytes)
	}
	return stream, nil
}

// fit rejects a stream that would lose or refuse jobs.
func (s *Stream) fit(has, wants jetstream.StreamConfig) error {
	if d := differences(has, wants, s.nc.MaxPayload()); len(d) > 0 {
		return unfit{fmt.Errorf("stream %s would lose or refuse jobs: %s; it was left as it is: change it with "+
			"nats stream edit, or choose another prefix",
			wants.Name, strings.Join(d, "; "))}
	}
	return nil
}

// judge distinguishes errors that may pass from those that need a change.
func (s *Stream) judge(err error) error {
	var answer *jetstream.APIError
	if errors.As(err, &answer) && !slices.Contains(passing, answer.ErrorCode) {
		return unfit{err}
	}
	// NATS does not answer requests that an account may not make; it only reports an error on the connection.
	if last := s.nc.LastError(); errors.Is(err, context.DeadlineExceeded) &&
		errors.Is(last, nats.ErrPermissionViolation) {
		return unfit{fmt.Errorf("%w: %w", err, last)}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// unfit marks an error as ErrUnfit.
type unfit struct{ error }

func (u unfit) Unwrap() error { return u.error }

func (unfit) Is(target error) bool { return target == ErrUnfit }
