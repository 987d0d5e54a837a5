package queue

// AppendOutcome is the answer to a job that was appended.
type AppendOutcome uint8

// The outcomes of Append. Engines exchange them by number.
const (
	Failed       AppendOutcome = iota // no decision; Err says why
	Accepted                          // the job is in
	Duplicate                         // the job was in already; State says where it is now
	Conflict                          // another job has this id
	Full                              // no room; come back after RetryAfter
	Invalid                           // Err is an *invalid.Error
	UnknownQueue                      // the queue does not exist
	Lapsed                            // expires_at has passed, or passes before the departure (then see ETA)
	SetAside                          // of Offer: recorded as deferred; store it
	OverflowFull                      // of Offer: too many jobs are deferred; come back after RetryAfter
	LaneFull                          // the lane is full; come back after RetryAfter
	ScheduleFull                      // too many jobs are scheduled; come back after RetryAfter
	LimitReached                      // a rule refuses it, see Rules; come back after RetryAfter
)

// Refusal is the reason why a request was refused, as callers see it.
type Refusal struct {
	Code   string // machine-readable; never renamed
	Status int    // HTTP status
	Title  string // for display
	Field  string // the field at fault, if it is always the same
	Detail string // what to do about it, if that is always the same

	counter string // name of the queue's counter of these refusals; may be empty
}

// Again reports whether retrying later may succeed.
func (r *Refusal) Again() bool { return r != nil && (r.Status == 429 || r.Status >= 500) }

// outcomes has a row for each outcome: its name in logs, metrics and scripts, and its refusal. Docs, OpenAPI, problem
// details, both engines' counters of refusals and the scripts' constants are derived from it. Only refusals have a
// counter here, because redisq counts accepted jobs all at once, not one by one.
var outcomes = [...]struct {
	name    string
	refusal *Refusal // nil if it is not a refusal, or if Err has it
	engine  bool     // whether only engines answer it
}{
	Failed:    {name: "failed"},
	Accepted:  {name: "accepted"},
	Duplicate: {name: "duplicate"},
	Invalid:   {name: "invalid"},
	SetAside:  {name: "set_aside"},
	Conflict: {name: "conflict", engine: true, refusal: &Refusal{
		Status: 409, Title: "conflicting job id", Field: "id",
		Detail: "the queue has, or remembers, a job with this id but a different payload, content type, lane or cost; " +
			"nothing was changed. Payloads are compared byte by byte, including spaces",
	}},
	Full: {name: "full", engine: true, refusal: &Refusal{
		counter: "refused", Status: 429, Title: "queue full",
		Detail: "the queue is full; retry after retry_after_ms, when room is expected",
	}},
	UnknownQueue: {name: "unknown_queue", engine: true, refusal: &Refusal{Status: 404, Title: "unknown queue"}},
	Lapsed: {name: "expired", refusal: &Refusal{
		Status: 422, Title: "job expired", Field: "expires_at",
		Detail: "has passed; the job was not accepted",
	}},
	OverflowFull: {name: "overflow_full", refusal: &Refusal{
		counter: "refused", Status: 429, Title: "overflow full",
		Detail: "the queue has no room, and its maximum number of jobs is deferred; retry after retry_after_ms, when " +
			"room is expected",
	}},
	LaneFull: {name: "lane_full", engine: true, refusal: &Refusal{
		counter: "refused", Status: 429, Title: "lane full", Field: "lane",
		Detail: "the job's lane is full, even if the queue has room; retry after retry_after_ms",
	}},
	ScheduleFull: {name: "schedule_full", engine: true, refusal: &Refusal{
		counter: "refused", Status: 429, Title: "schedule full", Field: "not_before",
		Detail: "the queue has its maximum number of scheduled jobs; retry after retry_after_ms, when the first is due",
	}},
	LimitReached: {name: "limit_reached", refusal: &Refusal{
		counter: "refused", Status: 429, Title: "limit of a rule reached",
	}},
}

func init() {
	for _, row := range outcomes {
		if row.refusal != nil {
			row.refusal.Code = row.name
		}
	}
}

func (o AppendOutcome) String() string { return outcomes[o].name }

// Refusal returns the refusal of the outcome: nil if the outcome is not a refusal, or if Err has it.
func (o AppendOutcome) Refusal() *Refusal { return outcomes[o].refusal }

// Counter returns the name of the queue's counter of these refusals, or "".
func (o AppendOutcome) Counter() string {
	if r := o.Refusal(); r != nil {
		return r.counter
	}
	return ""
}

// OnlyByEngine reports whether only an engine answers the outcome. The job's payload is then not read any more.
func (o AppendOutcome) OnlyByEngine() bool { return outcomes[o].engine }

// AppendOutcomes returns all outcomes, by number.
func AppendOutcomes() []AppendOutcome {
	all := make([]AppendOutcome, len(outcomes))
	for n := range all {
		all[n] = AppendOutcome(n)
	}
	return all
}
