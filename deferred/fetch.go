package deferred

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// stored is a message as the stream has it.
type stored struct {
	seq    uint64
	header nats.Header
	body   []byte
}

// fetched is what a subject has at its head.
type fetched struct {
	messages []stored
	last     uint64 // the sequence of the last one
	pending  int64  // how many are behind them
}

const (
	fetchBytes = 512 << 10 // about what is read at a time; one message more may come
	// fetchTimeout is how long a reading waits for its next message. A replica that answers
	// at all answers soon. After it died, or the connection broke, no answer comes.
	fetchTimeout = time.Second
)

// size is about how much memory it takes, and the jobs that are made of it.
func (f *fetched) size() int64 {
	n := 0
	for i := range f.messages {
		n += 1<<10 + 2*len(f.messages[i].body)
	}
	return int64(n)
}

// drop leaves those out that are below a sequence; 0 is all of them.
func (f *fetched) drop(below uint64) {
	for len(f.messages) > 0 && (below == 0 || f.messages[0].seq < below) {
		f.messages = f.messages[1:]
	}
}

// fetch reads up to batch messages of a subject from a sequence on. It reads past no
// gap: any replica may answer, and one that lags has a beginning of what the leader
// has, to which it may add messages that were removed already. Neither does harm:
// what is missing comes with a later look, "nothing" is believed of the leader only
// (count), and the engine's order refuses what it has seen.
//
// The subject must be addressable.
func (s *Stream) fetch(ctx context.Context, subject string, from uint64, batch int) (fetched, error) {
	f, err := s.directGet(ctx, subject, from, batch)
	if s.note(err) != nil {
		return fetched{}, fmt.Errorf("reading %s from %d on: %w", subject, from, err)
	}
	return f, nil
}

func (s *Stream) directGet(ctx context.Context, subject string, from uint64, batch int) (f fetched, err error) {
	ctx, cancel := s.calling(ctx, callTimeout)
	defer cancel()
	inbox := s.nc.NewInbox()
	// A channel and not NextMsg, which takes a stored message that has a Status for an
	// error of its own.
	replies := make(chan *nats.Msg, batch+1)
	sub, err := s.nc.ChanSubscribe(inbox, replies)
	if err != nil {
		return f, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	request, err := json.Marshal(map[string]any{
		"seq": from, "next_by_subj": subject, "batch": batch,
		"max_bytes": fetchBytes,
	})
	if err != nil {
		return f, err
	}
	if err := s.nc.PublishRequest("$JS.API.DIRECT.GET."+s.name, inbox, request); err != nil {
		return f, err
	}
	silence := time.NewTimer(fetchTimeout)
	defer silence.Stop()
	for {
		select {
		case m := <-replies:
			silence.Reset(fetchTimeout)
			if last(m.Header, jetstream.SequenceHeader) == "" {
				return f, f.end(m)
			}
			if err := f.add(m); err != nil {
				return f, err
			}
		case <-silence.C:
			return f, fmt.Errorf("%w: no answer in %v", ErrUnavailable, fetchTimeout)
		case <-ctx.Done():
			return f, fmt.Errorf("%w: no answer: %w", ErrUnavailable, ctx.Err())
		}
	}
}

// add takes a message of the stream, which the server has marked with its sequence and
// that of the one it sent before: one that was lost on the way, with a connection that
// broke and was made again, must not be taken for one that is not there.
func (f *fetched) add(m *nats.Msg) error {
	if last(m.Header, pendingHeader) == "" {
		return errors.New("nats-server is too old: it reads one message at a time, 2.11 or newer is needed on every " +
			"node")
	}
	if err := f.follows(m); err != nil {
		return err
	}
	seq, err := strconv.ParseUint(last(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil || seq <= f.last {
		return fmt.Errorf("message %q came behind %d", last(m.Header, jetstream.SequenceHeader), f.last)
	}
	f.messages, f.last = append(f.messages, stored{seq, m.Header, m.Data}), seq
	return nil
}

// end takes the reply that is no message of the stream: the server's last word.
func (f *fetched) end(m *nats.Msg) error {
	switch status := m.Header.Get("Status"); status {
	case "204":
		pending, err := strconv.ParseInt(m.Header.Get(pendingHeader), 10, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", pendingHeader, err)
		}
		f.pending = pending
		return f.follows(m)
	case "404":
		return nil
	case "503":
		return fmt.Errorf("%w: no node of the stream answers", ErrUnavailable)
	default:
		return fmt.Errorf("NATS answered %s %s", status, m.Header.Get("Description"))
	}
}

func (f *fetched) follows(m *nats.Msg) error {
	if before := last(m.Header, lastHeader); before != strconv.FormatUint(f.last, 10) {
		return fmt.Errorf("%w: replies were lost between %d and %s", ErrUnavailable, f.last, before)
	}
	return nil
}

// Of a reply to a reading of many: how many more there are, and the sequence of the one
// sent before.
const (
	pendingHeader = "Nats-Num-Pending"
	lastHeader    = "Nats-Last-Sequence"
)

// last is a header's last value. The server adds its own behind those that the message
// was stored with, which anybody may have named like the server's.
func last(h nats.Header, name string) string {
	v := h[name]
	if len(v) == 0 {
		return ""
	}
	return v[len(v)-1]
}

// first asks the stream's leader for the sequence of a subject's first message; 0 is
// none.
func (s *Stream) first(ctx context.Context, subject string) (uint64, error) {
	ctx, cancel := s.asking(ctx)
	defer cancel()
	request, err := json.Marshal(map[string]any{"seq": 1, "next_by_subj": subject})
	if err != nil {
		return 0, err
	}
	// Not by GetMsg of the client, which would ask any replica.
	m, err := s.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+s.name, request)
	err = brokenOff(ctx, err)
	if s.note(err) != nil {
		return 0, fmt.Errorf("asking for the first message of %s: %w", subject, err)
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Seq uint64 `json:"seq"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return 0, fmt.Errorf("asking for the first message of %s: %w", subject, err)
	}
	if answer.Error != nil && answer.Error.ErrorCode != jetstream.JSErrCodeMessageNotFound {
		if slices.Contains(passing, answer.Error.ErrorCode) {
			s.suspect() // a node answered in place of the leader
		}
		return 0, fmt.Errorf("asking for the first message of %s: %w", subject, answer.Error)
	}
	return answer.Message.Seq, nil
}

// count asks the stream's leader how many messages subjects have that match, and who
// the stream is.
func (s *Stream) count(ctx context.Context, subject string) (map[string]uint64, error) {
	ctx, cancel := s.asking(ctx)
	defer cancel()
	return s.subjectsOf(ctx, subject)
}

// list returns how many messages each subject of the stream has. Listing many subjects
// can keep the leader from other answers, so the call does not end when the leader seems
// to be gone.
func (s *Stream) list(ctx context.Context) (map[string]uint64, error) {
	ctx, cancel := s.calling(ctx, callTimeout)
	defer cancel()
	return s.subjectsOf(ctx, s.subjects.deferred+">")
}

// subjectsOf makes the call of count and list.
func (s *Stream) subjectsOf(ctx context.Context, subject string) (map[string]uint64, error) {
	info, err := s.jobs.Info(ctx, jetstream.WithSubjectFilter(subject))
	err = brokenOff(ctx, err)
	if s.note(err) != nil {
		return nil, fmt.Errorf("asking for what %s has: %w", subject, err)
	}
	s.answered(info)
	return info.State.Subjects, nil
}

// size asks the stream's leader for its last sequence and how many messages it has.
func (s *Stream) size(ctx context.Context) (last, messages uint64, err error) {
	ctx, cancel := s.asking(ctx)
	defer cancel()
	info, err := s.jobs.Info(ctx)
	err = brokenOff(ctx, err)
	if s.note(err) != nil {
		return 0, 0, fmt.Errorf("asking for the size of %s: %w", s.name, err)
	}
	s.answered(info)
	return info.State.LastSeq, info.State.Msgs, nil
}

// remove takes the messages of a subject away that are below a sequence.
func (s *Stream) remove(ctx context.Context, subject string, below uint64) error {
	if below <= 1 { // NATS takes 0 for all, and 1 for none
		return nil
	}
	ctx, cancel := s.asking(ctx)
	defer cancel()
	err := brokenOff(ctx, s.jobs.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(below)))
	s.noteWrite(err)
	if s.note(err) != nil {
		return fmt.Errorf("removing %s below %d: %w", subject, below, err)
	}
	return nil
}
