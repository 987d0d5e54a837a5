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

// stored is a message of the stream.
type stored struct {
	seq    uint64
	header nats.Header
	body   []byte
}

// fetched is the head of a subject.
type fetched struct {
	messages []stored
	last     uint64 // sequence of the last message
	pending  int64  // number of messages behind them
}

const (
	fetchBytes = 512 << 10 // approximate maximum per read; one more message may come
	// fetchTimeout is how long to wait for the next message. A replica that answers at all answers soon. If it died,
	// or the connection broke, no answer comes.
	fetchTimeout = time.Second
)

// size returns the approximate memory of the messages and of their jobs.
func (f *fetched) size() int64 {
	n := 0
	for i := range f.messages {
		n += 1<<10 + 2*len(f.messages[i].body)
	}
	return int64(n)
}

// drop drops the messages below a sequence, or all if it is 0.
func (f *fetched) drop(below uint64) {
	for len(f.messages) > 0 && (below == 0 || f.messages[0].seq < below) {
		f.messages = f.messages[1:]
	}
}

// fetch reads up to batch messages of a subject from a sequence on. It does not read past gaps. Any replica may answer.
// A lagging replica has only a prefix of the leader's messages, and may still have some that were removed. Neither does
// harm: missing messages come with a later read, and the engine's order refuses messages it has seen. A replica that
// finds no messages is not believed: callers then ask the leader (count).
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
	// A channel instead of NextMsg, which mistakes a stored message with a Status for an error of its own.
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

// add adds a message of the stream. The server marks it with its sequence and the sequence of the message sent before.
// So a reply that was lost while the connection was re-established is noticed, and not mistaken for a gap in the
// stream.
func (f *fetched) add(m *nats.Msg) error {
	if last(m.Header, pendingHeader) == "" {
		return errors.New("nats-server is too old: it reads one message at a time; 2.11 or newer is needed on every node")
	}
	if err := f.follows(m); err != nil {
		return err
	}
	seq, err := strconv.ParseUint(last(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil || seq <= f.last {
		return fmt.Errorf("message %q came after %d", last(m.Header, jetstream.SequenceHeader), f.last)
	}
	f.messages, f.last = append(f.messages, stored{seq, m.Header, m.Data}), seq
	return nil
}

// end handles the last reply, which is not a message of the stream.
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

// Headers of a reply to a batch read: the number of further messages, and the sequence of the message sent before.
const (
	pendingHeader = "Nats-Num-Pending"
	lastHeader    = "Nats-Last-Sequence"
)

// last returns the last value of a header. The server adds its own values after stored ones, which any client may have
// given the same names.
func last(h nats.Header, name string) string {
	v := h[name]
	if len(v) == 0 {
		return ""
	}
	return v[len(v)-1]
}

// first asks the stream's leader for the sequence of the first message of a subject, or 0.
func (s *Stream) first(ctx context.Context, subject string) (uint64, error) {
	ctx, cancel := s.asking(ctx)
	defer cancel()
	request, err := json.Marshal(map[string]any{"seq": 1, "next_by_subj": subject})
	if err != nil {
		return 0, err
	}
	// Not GetMsg of the client, which would ask any replica.
	m, err := s.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+s.name, request)
	err = brokenOff(ctx, err)
	if s.note(err) != nil {
		return 0, fmt.Errorf("first message of %s: %w", subject, err)
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Seq uint64 `json:"seq"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return 0, fmt.Errorf("first message of %s: %w", subject, err)
	}
	if answer.Error != nil && answer.Error.ErrorCode != jetstream.JSErrCodeMessageNotFound {
		if slices.Contains(passing, answer.Error.ErrorCode) {
			s.suspect() // another node answered instead of the leader
		}
		return 0, fmt.Errorf("first message of %s: %w", subject, answer.Error)
	}
	return answer.Message.Seq, nil
}

// count asks the stream's leader how many messages the matching subjects have, and notes the stream's identity.
func (s *Stream) count(ctx context.Context, subject string) (map[string]uint64, error) {
	ctx, cancel := s.asking(ctx)
	defer cancel()
	return s.subjectsOf(ctx, subject)
}

// list returns the number of messages per subject of the stream. Listing many subjects can delay the leader's other
// answers, so the call does not end when the leader seems to be gone.
func (s *Stream) list(ctx context.Context) (map[string]uint64, error) {
	ctx, cancel := s.calling(ctx, callTimeout)
	defer cancel()
	return s.subjectsOf(ctx, s.subjects.deferred+">")
}

// subjectsOf implements count and list.
func (s *Stream) subjectsOf(ctx context.Context, subject string) (map[string]uint64, error) {
	info, err := s.jobs.Info(ctx, jetstream.WithSubjectFilter(subject))
	err = brokenOff(ctx, err)
	if s.note(err) != nil {
		return nil, fmt.Errorf("messages of %s: %w", subject, err)
	}
	s.answered(info)
	return info.State.Subjects, nil
}

// size asks the stream's leader for its last sequence and its number of messages.
func (s *Stream) size(ctx context.Context) (last, messages uint64, err error) {
	ctx, cancel := s.asking(ctx)
	defer cancel()
	info, err := s.jobs.Info(ctx)
	err = brokenOff(ctx, err)
	if s.note(err) != nil {
		return 0, 0, fmt.Errorf("size of %s: %w", s.name, err)
	}
	s.answered(info)
	return info.State.LastSeq, info.State.Msgs, nil
}

// remove removes the messages of a subject below a sequence.
func (s *Stream) remove(ctx context.Context, subject string, below uint64) error {
	if below <= 1 { // to NATS, 0 means all and 1 means none
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
