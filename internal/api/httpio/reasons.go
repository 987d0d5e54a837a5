package httpio

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/penstock/penstock/queue"
)

// Reason is why a request or a job was refused: a row of the table of refusals, which begins with queue.AppendOutcome
// and continues here. docs/api.md explains each.
type Reason = *queue.Refusal

// Refusals of jobs that answer other requests too.
var (
	ReasonUnknownQueue = queue.UnknownQueue.Refusal()
	ReasonFull         = queue.Full.Refusal()
	ReasonLimitReached = queue.LimitReached.Refusal()
)

// Refusals of requests.
var (
	ReasonInvalidJSON    = refusal("invalid_json", http.StatusBadRequest, "invalid JSON")
	ReasonInvalidField   = refusal("invalid_field", http.StatusBadRequest, "invalid field value")
	ReasonUnknownField   = refusal("unknown_field", http.StatusBadRequest, "unknown field")
	ReasonDuplicateField = refusal("duplicate_field", http.StatusBadRequest, "duplicate field")
	ReasonInvalidRequest = refusal("invalid_request", http.StatusBadRequest, "invalid request")
	ReasonTooLarge       = refusal("too_large", http.StatusRequestEntityTooLarge, "request too large")
	ReasonMediaType      = refusal("unsupported_media_type", http.StatusUnsupportedMediaType, "unsupported content type")
	ReasonBodyTimeout    = refusal("body_timeout", http.StatusRequestTimeout, "request body timeout")
	ReasonBodyBroken     = refusal("body_incomplete", http.StatusBadRequest, "incomplete request body")
	ReasonNoIdentity     = refusal("unauthenticated", http.StatusUnauthorized, "missing or invalid authentication")
	ReasonForbidden      = refusal("forbidden", http.StatusForbidden, "missing role")
	ReasonTokenInURL     = refusal("token_in_url", http.StatusBadRequest, "token in the URL")
	ReasonAuthAway       = refusal("auth_unavailable", http.StatusServiceUnavailable, "authentication unavailable")
	ReasonNotFound       = refusal("not_found", http.StatusNotFound, "unknown resource")
	ReasonMethod         = refusal("method_not_allowed", http.StatusMethodNotAllowed, "unsupported method")
	ReasonUnknownJob     = refusal("unknown_job", http.StatusNotFound, "unknown job")
	ReasonUnknownBatch   = refusal("unknown_batch", http.StatusNotFound, "unknown batch")
	ReasonUnknownRev     = refusal("unknown_revision", http.StatusNotFound, "unknown revision")
	ReasonUnknownRule    = refusal("unknown_rule", http.StatusNotFound, "unknown rule")
	ReasonUnknownApp     = refusal("unknown_app", http.StatusNotFound, "unknown app")
	ReasonUnknownToken   = refusal("unknown_token", http.StatusNotFound, "unknown token")
	ReasonUnknownSubject = refusal("unknown_subject", http.StatusNotFound, "unknown subject")
	ReasonNotCancellable = refusal("not_cancellable", http.StatusConflict, "job not cancellable")
	ReasonNotDead        = refusal("not_dead", http.StatusConflict, "job not dead")
	ReasonNotHeld        = refusal("not_held", http.StatusConflict, "job not held")
	ReasonNotEmpty       = refusal("not_empty", http.StatusConflict, "queue not empty")
	ReasonHasChildren    = refusal("has_children", http.StatusConflict, "remaining children")
	ReasonRuleInUse      = refusal("rule_in_use", http.StatusConflict, "rule in use")
	ReasonRuleMissing    = refusal("rule_missing", http.StatusServiceUnavailable, "missing rule")
	ReasonRevision       = refusal("revision_mismatch", http.StatusPreconditionFailed, "revision mismatch")
	ReasonNoTurn         = refusal("no_turn", http.StatusTooManyRequests, "no turn within the wait")
	ReasonNoOverflow     = refusal("no_overflow", http.StatusUnprocessableEntity, "no overflow")
	ReasonOverflowAway   = refusal("overflow_unavailable", http.StatusServiceUnavailable, "overflow unavailable")
	ReasonUnavailable    = refusal("unavailable", http.StatusServiceUnavailable, "store unavailable")
	ReasonNoStore        = refusal("no_store", http.StatusServiceUnavailable, "store not initialized")
	ReasonStoreFull      = refusal("store_full", http.StatusServiceUnavailable, "store full")
	ReasonOutcomeUnknown = refusal("outcome_unknown", http.StatusGatewayTimeout, "unknown outcome")
	ReasonAppLimit       = refusal("app_limit", http.StatusTooManyRequests, "limit of the app reached")
	ReasonCrowded        = refusal("crowded", http.StatusTooManyRequests, "too many waiting requests")
	ReasonOverloaded     = refusal("overloaded", http.StatusServiceUnavailable, "overloaded server")
	ReasonOverShare      = refusal("over_share", http.StatusTooManyRequests, "client's share used up")
	ReasonStopping       = refusal("stopping", http.StatusServiceUnavailable, "stopping server")
	ReasonDraining       = refusal("draining", http.StatusServiceUnavailable, "server about to stop")
	ReasonNotReady       = refusal("not_ready", http.StatusServiceUnavailable, "server not ready")
	ReasonInternal       = refusal("internal", http.StatusInternalServerError, "internal error")
	ReasonMisdirected    = refusal("misdirected", http.StatusMisdirectedRequest, "unknown host name")
	ReasonCrossSite      = refusal("cross_site", http.StatusForbidden, "cross-site request")
	ReasonUpgrade        = refusal("upgrade_unsupported", http.StatusNotImplemented, "unsupported upgrade")
	ReasonLoop           = refusal("loop", http.StatusLoopDetected, "target leads back to the proxy")
	ReasonUnreachable    = refusal("receiver_unreachable", http.StatusBadGateway, "receiver unreachable")
	ReasonReceiverBroke  = refusal("receiver_failed", http.StatusBadGateway, "no answer from the receiver")
	ReasonReceiverSlow   = refusal("receiver_timeout", http.StatusGatewayTimeout, "receiver too slow")
	ReasonDelivery       = refusal("delivery", http.StatusForbidden, "request by a delivery")
	ReasonMalformed      = refusal("malformed_request", http.StatusBadRequest, "malformed HTTP request")
	ReasonExpectation    = refusal("expectation_failed", http.StatusExpectationFailed, "unsupported expectation")
	ReasonHeaderTooLarge = refusal("header_too_large", http.StatusRequestHeaderFieldsTooLarge, "headers too large")
	ReasonTransferCoding = refusal("transfer_coding", http.StatusNotImplemented, "unsupported transfer coding")
	ReasonHTTPVersion    = refusal("http_version", http.StatusHTTPVersionNotSupported, "unsupported HTTP version")
)

var reasons []Reason

// Reasons returns all reasons.
func Reasons() []Reason { return reasons }

func refusal(code string, status int, title string) Reason {
	r := &queue.Refusal{Code: code, Status: status, Title: title}
	reasons = append(reasons, r)
	return r
}

func init() {
	for _, o := range queue.AppendOutcomes() {
		if r := o.Refusal(); r != nil {
			reasons = append(reasons, r)
		}
	}
}

// serverProblems are the refusals of the HTTP server itself, before there is a request.
var serverProblems = map[int]Problem{
	http.StatusBadRequest: {Reason: ReasonMalformed, Detail: "the request is not valid HTTP"},
	http.StatusExpectationFailed: {
		Reason: ReasonExpectation, Detail: "the header Expect must be 100-continue",
	},
	http.StatusRequestHeaderFieldsTooLarge: {
		Reason: ReasonHeaderTooLarge, Detail: "the request line and headers exceed the limit of this server",
	},
	http.StatusNotImplemented: {
		Reason: ReasonTransferCoding, Detail: "the header Transfer-Encoding must be chunked, given once",
	},
	http.StatusHTTPVersionNotSupported: {
		Reason: ReasonHTTPVersion, Detail: "this server supports HTTP/1.1, HTTP/1.0 and, over TLS, HTTP/2",
	},
}

// ServerProblem returns the body for a status that the HTTP server answers by itself, or nil if it never answers so.
// text is the server's own explanation.
func ServerProblem(status int, text string) []byte {
	p, ok := serverProblems[status]
	if !ok {
		return nil
	}
	if status == http.StatusBadRequest {
		p.Detail = cmp.Or(strings.TrimSpace(text), p.Detail)
	}
	return p.AppendBody(nil, "")
}
