package deferred

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/penstock/penstock/queue"
)

// Errors that JetStream may answer instead of an acknowledgment.
const (
	codeAccountFull   = 10002 // resource limits exceeded for account
	codeNotAvailable  = 10008 // the cluster has no leader
	codeInsufficient  = 10023 // insufficient resources: the server's max_file_store
	codeMemoryFull    = 10028
	codeNotForAccount = 10039
	codeStorageFull   = 10047
	codeTooLarge      = 10054 // the stream's max_msg_size
	codeOtherStream   = 10060 // the subject now belongs to another stream
	codeNotEnabled    = 10076
	codeNotStored     = 10077 // the description says why
	codeHeaders       = 10097 // of more than 64 KiB
	codeSealed        = 10109
	codeNoLimits      = 10120 // the account has no limit for so many replicas
)

// Descriptions with which codeNotStored is a definite refusal. Others, such as "store is closed", may concern a
// message that another node of the cluster has stored.
var notStored = map[string]error{
	"maximum bytes exceeded":                ErrFull,
	"maximum messages exceeded":             ErrFull,
	"maximum messages per subject exceeded": ErrFull,
	"message too large":                     ErrTooLarge,
}

// refusal classifies the error of a message that was not acknowledged. Only if NATS definitely did not store the
// message does it say so; everything else is an unknown outcome.
func refusal(err error) error {
	var answer *jetstream.APIError
	if errors.As(err, &answer) {
		return fmt.Errorf("%w: %w", refusedWith(answer), err)
	}
	for _, before := range []error{
		jetstream.ErrNoStreamResponse, jetstream.ErrTooManyStalledMsgs,
		nats.ErrReconnectBufExceeded, nats.ErrConnectionClosed, nats.ErrConnectionDraining,
		nats.ErrConnectionReconnecting,
		nats.ErrInvalidConnection, nats.ErrHeadersNotSupported, nats.ErrBadSubject,
	} {
		if errors.Is(err, before) { // it was not sent, or no server was there
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return fmt.Errorf("%w: no acknowledgment from the overflow: %w", queue.ErrOutcomeUnknown, err)
}

func refusedWith(answer *jetstream.APIError) error {
	switch answer.ErrorCode {
	case codeAccountFull, codeInsufficient, codeMemoryFull, codeStorageFull:
		return ErrFull
	case codeTooLarge, codeHeaders:
		return ErrTooLarge
	case codeNotAvailable, codeNotForAccount, codeOtherStream, codeNotEnabled, codeSealed, codeNoLimits:
		return ErrUnavailable
	case codeNotStored:
		if why, ok := notStored[answer.Description]; ok {
			return why
		}
	}
	return queue.ErrOutcomeUnknown
}
