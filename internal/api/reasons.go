package api

import (
	"net/http"

	"github.com/penstock/penstock/queue"
)

// Reason is why a request or a job was refused. It is a row of the table of refusals, which queue.AppendOutcome begins
// and this file ends; docs/api.md explains each.
type Reason = *queue.Refusal

// Refusals of jobs that are told of other requests too.
var (
	ReasonUnknownQueue = queue.UnknownQueue.Refusal()
	ReasonFull         = queue.Full.Refusal()
	ReasonLimitReached = queue.LimitReached.Refusal()
)

// The refusals of requests.
var (
	ReasonInvalidJSON    = refusal("invalid_json", http.StatusBadRequest, "not the JSON that was expected")
	ReasonInvalidField   = refusal("invalid_field", http.StatusBadRequest, "a field has a value that cannot be used")
	ReasonUnknownField   = refusal("unknown_field", http.StatusBadRequest, "a field is not known")
	ReasonDuplicateField = refusal("duplicate_field", http.StatusBadRequest, "a field is given twice")
	ReasonInvalidRequest = refusal("invalid_request", http.StatusBadRequest, "the request contradicts itself")
	ReasonTooLarge       = refusal("too_large", http.StatusRequestEntityTooLarge, "too large")
	ReasonMediaType      = refusal("unsupported_media_type", http.StatusUnsupportedMediaType, "content type not supported")
	ReasonBodyTimeout    = refusal("body_timeout", http.StatusRequestTimeout, "the body did not arrive in time")
	ReasonBodyBroken     = refusal("body_incomplete", http.StatusBadRequest, "the body ended early")
	ReasonNoIdentity     = refusal("unauthenticated", http.StatusUnauthorized, "authentication is required")
	ReasonForbidden      = refusal("forbidden", http.StatusForbidden, "a role is missing")
	ReasonTokenInURL     = refusal("token_in_url", http.StatusBadRequest, "a token stands in the URL")
	ReasonAuthAway       = refusal("auth_unavailable", http.StatusServiceUnavailable, "who asks cannot be told now")
	ReasonNotFound       = refusal("not_found", http.StatusNotFound, "no such resource")
	ReasonMethod         = refusal("method_not_allowed", http.StatusMethodNotAllowed, "method not allowed")
	ReasonUnknownJob     = refusal("unknown_job", http.StatusNotFound, "no such job")
	ReasonUnknownRev     = refusal("unknown_revision", http.StatusNotFound, "no such revision is recorded")
	ReasonUnknownRule    = refusal("unknown_rule", http.StatusNotFound, "no such rule")
	ReasonUnknownApp     = refusal("unknown_app", http.StatusNotFound, "no such app")
	ReasonUnknownToken   = refusal("unknown_token", http.StatusNotFound, "no such token")
	ReasonUnknownSubject = refusal("unknown_subject", http.StatusNotFound, "no such subject")
	ReasonNotCancellable = refusal("not_cancellable", http.StatusConflict, "the job cannot be cancelled any more")
	ReasonNotDead        = refusal("not_dead", http.StatusConflict, "the job is not dead")
	ReasonNotHeld        = refusal("not_held", http.StatusConflict, "the job is not held")
	ReasonNotEmpty       = refusal("not_empty", http.StatusConflict, "the queue still holds jobs")
	ReasonHasChildren    = refusal("has_children", http.StatusConflict, "the queue has children")
	ReasonRuleInUse      = refusal("rule_in_use", http.StatusConflict, "queues ask the rule")
	ReasonRuleMissing    = refusal("rule_missing", http.StatusServiceUnavailable, "a rule that the queue asks is missing")
	ReasonRevision       = refusal("revision_mismatch", http.StatusPreconditionFailed, "it is at another revision")
	ReasonNoTurn         = refusal("no_turn", http.StatusTooManyRequests, "no turn in time")
	ReasonNoOverflow     = refusal("no_overflow", http.StatusUnprocessableEntity, "there is no overflow")
	ReasonOverflowAway   = refusal("overflow_unavailable", http.StatusServiceUnavailable, "the overflow cannot be reached")
	ReasonUnavailable    = refusal("unavailable", http.StatusServiceUnavailable, "the store cannot be reached")
	ReasonNoStore        = refusal("no_store", http.StatusServiceUnavailable, "the store is not initialised")
	ReasonStoreFull      = refusal("store_full", http.StatusServiceUnavailable, "the store is out of space")
	ReasonOutcomeUnknown = refusal("outcome_unknown", http.StatusGatewayTimeout, "outcome unknown")
	ReasonAppLimit       = refusal("app_limit", http.StatusTooManyRequests, "the app has as many as it may")
	ReasonCrowded        = refusal("crowded", http.StatusTooManyRequests, "too many wait")
	ReasonOverloaded     = refusal("overloaded", http.StatusServiceUnavailable, "too much at once")
	ReasonOverShare      = refusal("over_share", http.StatusTooManyRequests, "too much at once from one address")
	ReasonStopping       = refusal("stopping", http.StatusServiceUnavailable, "this process is stopping")
	ReasonDraining       = refusal("draining", http.StatusServiceUnavailable, "this process is about to stop")
	ReasonNotReady       = refusal("not_ready", http.StatusServiceUnavailable, "not ready")
	ReasonInternal       = refusal("internal", http.StatusInternalServerError, "internal error")
	ReasonMisdirected    = refusal("misdirected", http.StatusMisdirectedRequest, "not a name of this server")
	ReasonCrossSite      = refusal("cross_site", http.StatusForbidden, "a web page of another origin asks")
	ReasonDelivery       = refusal("delivery", http.StatusForbidden, "a job's delivery asks")
	ReasonMalformed      = refusal("malformed_request", http.StatusBadRequest, "not HTTP that can be read")
	ReasonExpectation    = refusal("expectation_failed", http.StatusExpectationFailed, "an expectation that cannot be met")
	ReasonHeaderTooLarge = refusal("header_too_large", http.StatusRequestHeaderFieldsTooLarge, "the headers are too large")
	ReasonTransferCoding = refusal("transfer_coding", http.StatusNotImplemented, "transfer coding not supported")
	ReasonHTTPVersion    = refusal("http_version", http.StatusHTTPVersionNotSupported, "HTTP version not supported")
)

// reasons are all of them.
var reasons []Reason

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
