package deferred

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/queue"
)

// The headers of a dead letter. Its body is the payload of the job, or the body of a foreign message.
const (
	HeaderReason      = "Penstock-Reason"
	HeaderDetail      = "Penstock-Detail"
	HeaderID          = "Penstock-Id"
	HeaderQueue       = "Penstock-Queue"
	HeaderContentType = "Content-Type"
	HeaderCost        = "Penstock-Cost"
	HeaderLane        = "Penstock-Lane"  // URL-encoded
	HeaderBatch       = "Penstock-Batch" // URL-encoded
	HeaderPriority    = "Penstock-Priority"
	HeaderNotBefore   = "Penstock-Not-Before"
	HeaderExpiresAt   = "Penstock-Expires-At"
	HeaderDeferredAt  = "Penstock-Deferred-At"
	HeaderSubject     = "Penstock-Subject"  // the subject it was on
	HeaderSequence    = "Penstock-Sequence" // the sequence of its message
	// HeaderCut is the length of a foreign message that had to be cut to leave room for these headers.
	HeaderCut = "Penstock-Cut"
	// HeaderPrefix is the prefix of the job's own headers.
	HeaderPrefix = "Penstock-Header-"
)

// deadLetter is a job, or a foreign message, that becomes a dead letter.
type deadLetter struct {
	subject string
	seq     uint64
	index   int // of the job in its message
	reason  Reason
	detail  string
	item    *Item // nil for a foreign message
	body    []byte
}

// bury stores dead letters and returns when all of them are acknowledged. The stream drops repetitions within its
// window for duplicates.
func (s *Stream) bury(ctx context.Context, deadLetters []deadLetter) error {
	ctx, cancel := s.calling(ctx, callTimeout)
	defer cancel()
	acks := make([]jetstream.PubAckFuture, len(deadLetters))
	for i := range deadLetters {
		ack, err := s.js.PublishMsgAsync(s.write(&deadLetters[i]))
		if err != nil {
			return fmt.Errorf("dead letter of %s: %w", deadLetters[i].subject, refusal(s.note(err)))
		}
		acks[i] = ack
	}
	for i, ack := range acks {
		var err error
		select {
		case <-ack.Ok():
		case err = <-ack.Err():
		case <-ctx.Done():
			err = ctx.Err()
		}
		if s.note(err) != nil {
			return fmt.Errorf("dead letter of %s: %w", deadLetters[i].subject, refusal(err))
		}
	}
	return nil
}

func (s *Stream) write(l *deadLetter) *nats.Msg {
	h := nats.Header{
		jetstream.MsgIDHeader:          {fmt.Sprintf("%s-%d-%d", s.identity(), l.seq, l.index)},
		jetstream.ExpectedStreamHeader: {s.deadName},
		HeaderReason:                   {string(l.reason)},
		HeaderSubject:                  {l.subject},
		HeaderSequence:                 {strconv.FormatUint(l.seq, 10)},
	}
	if l.detail != "" {
		h.Set(HeaderDetail, printable(l.detail))
	}
	if i := l.item; i != nil {
		h.Set(HeaderID, i.ID)
		h.Set(HeaderQueue, i.Queue)
		h.Set(HeaderContentType, i.ContentType)
		h.Set(HeaderCost, strconv.FormatInt(i.Cost, 10))
		h.Set(HeaderDeferredAt, stamp(i))
		if i.Lane != "" {
			h.Set(HeaderLane, url.PathEscape(i.Lane))
		}
		if i.Batch != "" {
			h.Set(HeaderBatch, url.PathEscape(i.Batch))
		}
		if i.Priority > 0 {
			h.Set(HeaderPriority, strconv.Itoa(i.Priority))
		}
		if !i.NotBefore.IsZero() {
			h.Set(HeaderNotBefore, i.NotBefore.UTC().Format(timeFormat))
		}
		if !i.ExpiresAt.IsZero() {
			h.Set(HeaderExpiresAt, i.ExpiresAt.UTC().Format(timeFormat))
		}
		for name, value := range i.Headers {
			h.Set(HeaderPrefix+name, value)
		}
		return &nats.Msg{Subject: s.subjects.deadOf(l.subject), Header: h, Data: i.Payload}
	}
	body := l.body
	if limit := max(0, int(s.nc.MaxPayload())-headroom); len(body) > limit {
		h.Set(HeaderCut, strconv.Itoa(len(body)))
		body = body[:limit]
	}
	return &nats.Msg{Subject: s.subjects.deadOf(l.subject), Header: h, Data: body}
}

const timeFormat = "2006-01-02T15:04:05.000000Z07:00"

func stamp(i *Item) string { return i.At.UTC().Format(timeFormat) }

// printable makes text fit for a header.
func printable(text string) string {
	b := []byte(text[:min(len(text), queue.MaxReasonBytes)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}
