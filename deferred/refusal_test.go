package deferred

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/queue"
)

// The answers of NATS, and what is certain about them. The errors are nats-server's own, so that a version with other
// wording fails here.
func TestRefusal(t *testing.T) {
	answer := func(id server.ErrorIdentifier) error {
		e := server.ApiErrors[id]
		return &jetstream.APIError{Code: e.Code, ErrorCode: jetstream.ErrorCode(e.ErrCode), Description: e.Description}
	}
	stored := func(why error) error {
		e := server.NewJSStreamStoreFailedError(why)
		return &jetstream.APIError{Code: e.Code, ErrorCode: jetstream.ErrorCode(e.ErrCode), Description: e.Description}
	}
	for name, c := range map[string]struct{ err, want error }{
		"max_bytes":            {stored(server.ErrMaxBytes), ErrFull},
		"max_msgs":             {stored(server.ErrMaxMsgs), ErrFull},
		"max_msgs_per_subject": {stored(server.ErrMaxMsgsPerSubject), ErrFull},
		"too large to store":   {stored(server.ErrMsgTooLarge), ErrTooLarge},
		"closed":               {stored(server.ErrStoreClosed), queue.ErrOutcomeUnknown},
		"I/O":                  {stored(io.ErrShortWrite), queue.ErrOutcomeUnknown},
		"max_file_store":       {answer(server.JSInsufficientResourcesErr), ErrFull},
		"account":              {answer(server.JSAccountResourcesExceededErr), ErrFull},
		"storage":              {answer(server.JSStorageResourcesExceededErr), ErrFull},
		"memory":               {answer(server.JSMemoryResourcesExceededErr), ErrFull},
		"max_msg_size":         {answer(server.JSStreamMessageExceedsMaximumErr), ErrTooLarge},
		"headers":              {answer(server.JSStreamHeaderExceedsMaximumErr), ErrTooLarge},
		"sealed":               {answer(server.JSStreamSealedErr), ErrUnavailable},
		"other stream":         {answer(server.JSStreamNotMatchErr), ErrUnavailable},
		"no leader":            {answer(server.JSClusterNotAvailErr), ErrUnavailable},
		"not enabled":          {answer(server.JSNotEnabledErr), ErrUnavailable},
		"not for account":      {answer(server.JSNotEnabledForAccountErr), ErrUnavailable},
		"no limits":            {answer(server.JSNoLimitsErr), ErrUnavailable},
		"in process":           {answer(server.JSStreamDuplicateMessageConflict), queue.ErrOutcomeUnknown},
		"another code":         {answer(server.JSBadRequestErr), queue.ErrOutcomeUnknown},
		"nobody there":         {jetstream.ErrNoStreamResponse, ErrUnavailable},
		"no ack":               {jetstream.ErrAsyncPublishTimeout, queue.ErrOutcomeUnknown},
		"bad ack":              {jetstream.ErrInvalidJSAck, queue.ErrOutcomeUnknown},
		"connection broke":     {nats.ErrDisconnected, queue.ErrOutcomeUnknown},
		"not connected":        {nats.ErrReconnectBufExceeded, ErrUnavailable},
		"connection closed":    {nats.ErrConnectionClosed, ErrUnavailable},
		"max_payload":          {nats.ErrMaxPayload, ErrTooLarge},
		"given up":             {context.DeadlineExceeded, queue.ErrOutcomeUnknown},
		"write failed":         {io.ErrClosedPipe, queue.ErrOutcomeUnknown},
	} {
		got := refusal(c.err)
		if !errors.Is(got, c.want) || !errors.Is(got, c.err) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		certain := !errors.Is(c.want, queue.ErrOutcomeUnknown)
		if certain == errors.Is(got, queue.ErrOutcomeUnknown) {
			t.Errorf("%s: certain is %v: %v", name, certain, got)
		}
	}
	if !errors.Is(ErrUnavailable, queue.ErrUnavailable) {
		t.Error("ErrUnavailable is not the engine's too")
	}
}
